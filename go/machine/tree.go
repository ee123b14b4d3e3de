package machine

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/platform"
)

// A tree reads the small text files of /proc and /sys.
type tree struct {
	root fs.FS
}

// text returns a file's content without surrounding space; empty if it cannot be read.
func (t tree) text(name string) string {
	b, err := fs.ReadFile(t.root, strings.TrimPrefix(path.Clean("/"+name), "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// uint parses a file as a number.
func (t tree) uint(name string) (uint64, bool) {
	n, err := strconv.ParseUint(t.text(name), 10, 64)
	return n, err == nil
}

// int parses a file as a number, and returns otherwise if it is not one.
func (t tree) int(name string, otherwise int) int {
	n, err := strconv.Atoi(t.text(name))
	if err != nil || n < 0 {
		return otherwise
	}
	return n
}

// list parses a file of CPU numbers such as "0-3,8"; nil if malformed. After a colon there may be the key of a line.
func (t tree) list(name string) []int {
	name, key, keyed := strings.Cut(name, ":")
	text := t.text(name)
	if keyed {
		lines := strings.Split(text, "\n")
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, key+":") })
		if i < 0 {
			return nil
		}
		text = strings.TrimSpace(lines[i][len(key)+1:])
	}
	return parseList(text)
}

// maxCPU bounds the numbers in a list, so that malformed input such as "0-4000000000"
// is refused before it is expanded.
const maxCPU = platform.MaxCPU

func parseList(s string) []int {
	var ids []int
	for part := range strings.SplitSeq(s, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "-")
		lo, err := strconv.Atoi(from)
		if err != nil {
			return nil
		}
		hi := lo
		if ranged {
			if hi, err = strconv.Atoi(to); err != nil {
				return nil
			}
		}
		if lo < 0 || hi < lo || hi >= maxCPU || len(ids) > maxCPU {
			return nil
		}
		for id := lo; id <= hi; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}

// chosen returns the bracketed word: madvise for "always [madvise] never".
func chosen(s string) string {
	_, s, _ = strings.Cut(s, "[")
	s, _, ok := strings.Cut(s, "]")
	if !ok {
		return ""
	}
	return s
}
