package tools

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/sandbox"
)

// What runs in the sandbox: its own checks give clear errors, and the sandbox holds where they have a hole.

// run calls the task's tool.
func (t *task) run() (any, error) {
	switch t.Tool {
	case "read_file":
		return t.read()
	case "file_glob_search":
		return t.glob()
	case "grep_search":
		return t.grep()
	case "write_file":
		return t.write()
	case "edit_file":
		return t.edit()
	case "get_info":
		return map[string]string{"os": runtime.GOOS + " " + runtime.GOARCH, "cwd": t.Dir}, nil
	}
	return nil, fmt.Errorf("no tool %q", t.Tool)
}

// path returns the absolute path of a parameter.
func (t *task) path(p *string) (string, error) {
	if p == nil {
		return "", badParams("params.path is missing")
	}
	path := *p
	if path == "~" || strings.HasPrefix(path, "~/") {
		path = t.Box + path[1:]
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.Dir, path)
	}
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // as the folder's own path is
	}
	if !sandbox.Under(t.Box, path) {
		return "", failed("%s is outside of %s, the folder that tools may use", *p, t.Box)
	}
	return path, nil
}

// Bounds of files.
const (
	mostFile  = 64 << 20 // bytes of a file that is read or edited
	mostRead  = 16 << 10 // bytes of text that read_file returns
	mostBytes = 16 << 20 // bytes of a file that it returns as base64
)

// open opens a regular file, whose name is for errors.
func open(path, name string) (*os.File, fs.FileInfo, error) {
	f, err := platform.Open(path) // a pipe would wait for who writes
	if err != nil {
		return nil, nil, failed("cannot open %s: %v", name, cause(err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	if err == nil && info.Size() > mostFile {
		err = fmt.Errorf("it has %d bytes, want %d at most", info.Size(), mostFile)
	}
	if err != nil {
		f.Close()
		return nil, nil, failed("cannot open %s: %v", name, cause(err))
	}
	return f, info, nil
}

// cause is what is wrong with a file, without its path.
func cause(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	if of, ok := errors.AsType[*os.LinkError](err); ok {
		return of.Err
	}
	return err
}

// content returns a file's content.
func content(path, name string) ([]byte, error) {
	f, _, err := open(path, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if err == nil && len(data) > mostFile {
		err = errors.New("it grows")
	}
	if err != nil {
		return nil, failed("cannot read %s: %v", name, cause(err))
	}
	return data, nil
}

func (t *task) read() (any, error) {
	var p struct {
		Path    *string `json:"path"`
		First   int     `json:"start_line"`
		Last    *int    `json:"end_line"`
		Numbers bool    `json:"append_loc"`
	}
	p.First = 1
	if err := readParams(t.Params, &p); err != nil {
		return nil, err
	}
	path, err := t.path(p.Path)
	if err != nil {
		return nil, err
	}
	data, err := content(path, *p.Path)
	if err != nil {
		return nil, err
	}
	last := -1
	if p.Last != nil {
		last = *p.Last
	}
	switch {
	case t.Base64 && len(data) > mostBytes:
		return nil, failed("the file is too large: %d bytes, want %d at most", len(data), mostBytes)
	case t.Base64:
		return map[string]any{"base64": base64.StdEncoding.EncodeToString(data), "size_bytes": len(data)}, nil
	case len(data) > mostRead && last == -1:
		return nil, failed("the file is too large: %d bytes, want %d at most; start_line and end_line read a part", len(data), mostRead)
	}
	var b strings.Builder
	n := 0
	for line := range strings.Lines(string(data)) {
		if n++; n < p.First {
			continue
		}
		if last != -1 && n > last {
			break
		}
		line = strings.TrimSuffix(line, "\n") + "\n"
		if p.Numbers {
			line = fmt.Sprintf("%d\u2192%s", n, line)
		}
		if b.Len()+len(line) > mostRead {
			b.WriteString("[output truncated]")
			break
		}
		b.WriteString(line)
	}
	return plain(b.String()), nil
}

// plain is an answer that is a text.
func plain(text string) map[string]any {
	return map[string]any{"plain_text_response": strings.ToValidUTF8(text, "\ufffd")}
}

func (t *task) write() (any, error) {
	var p struct {
		Path    *string `json:"path"`
		Content *string `json:"content"`
	}
	if err := readParams(t.Params, &p); err != nil {
		return nil, err
	}
	path, err := t.path(p.Path)
	if err != nil {
		return nil, err
	}
	if p.Content == nil {
		return nil, badParams("params.content is missing")
	}
	if err := replace(path, *p.Path, []byte(*p.Content)); err != nil {
		return nil, err
	}
	return map[string]any{"result": "file written successfully", "path": *p.Path, "bytes": len(*p.Content)}, nil
}

// replace gives a file its content at once: whatever ends this process, the file has all of the old or all of the new.
func replace(path, name string, data []byte) error {
	mode := fs.FileMode(0o644)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		switch info, wrong := os.Stat(path); {
		case wrong == nil && !info.Mode().IsRegular():
			err = errors.New("it is no file")
		case wrong == nil:
			mode = info.Mode().Perm()
			defer anyMode()()
		}
	}
	if err == nil {
		err = swap(path, mode, data)
	}
	if err != nil {
		return failed("cannot write %s: %v", name, cause(err))
	}
	return nil
}

// swap writes a file beside another, and gives it its name.
func swap(path string, mode fs.FileMode, data []byte) error {
	beside := filepath.Join(filepath.Dir(path), fmt.Sprintf(".quern-%x.tmp", rand.Uint64()))
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync() // the space is there
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		os.Remove(beside)
	}
	return err
}

func (t *task) edit() (any, error) {
	var p struct {
		Path  *string `json:"path"`
		Edits []struct {
			Old *string `json:"old_text"`
			New *string `json:"new_text"`
		} `json:"edits"`
	}
	if err := readParams(t.Params, &p); err != nil {
		return nil, err
	}
	path, err := t.path(p.Path)
	if err != nil {
		return nil, err
	}
	if len(p.Edits) == 0 {
		return nil, failed("edits: want at least one")
	}
	data, err := content(path, *p.Path)
	if err != nil {
		return nil, err
	}
	type place struct{ edit, at int }
	var places []place
	for i, e := range p.Edits {
		switch {
		case e.Old == nil || e.New == nil:
			return nil, badParams("params.edits[%d]: want old_text and new_text", i)
		case *e.Old == "":
			return nil, failed("edits[%d].old_text is empty", i)
		}
		switch bytes.Count(data, []byte(*e.Old)) {
		case 0:
			return nil, failed("edits[%d].old_text is not in %s; it has to be exactly as the file has it", i, *p.Path)
		case 1:
			places = append(places, place{i, bytes.Index(data, []byte(*e.Old))})
		default:
			return nil, failed("edits[%d].old_text is in %s more than once, and has to be unique", i, *p.Path)
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	var out []byte
	end := 0
	for i, at := range places {
		if at.at < end {
			return nil, failed("edits[%d] and edits[%d] overlap: make them one", places[i-1].edit, at.edit)
		}
		e := p.Edits[at.edit]
		out = append(append(out, data[end:at.at]...), *e.New...)
		end = at.at + len(*e.Old)
	}
	out = append(out, data[end:]...)
	if bytes.Equal(out, data) {
		return nil, failed("the new texts are the old ones")
	}
	if err := replace(path, *p.Path, out); err != nil {
		return nil, err
	}
	return map[string]any{"result": "file edited successfully", "path": *p.Path, "edits_applied": len(places)}, nil
}

// Bounds of searches.
const (
	mostResults = 100
	mostEntries = 200_000
	mostWalk    = 15 * time.Second
	mostLine    = 500     // bytes of a line that is shown
	mostText    = 8 << 20 // bytes of a file that is searched
)

// junk are folders that are listed but not entered: they are large, and made of others.
var junk = strings.Fields(".git .svn .hg node_modules __pycache__ .venv venv dist build target .cache .idea .vscode")

// An entry is a file or a folder, by its path with slashes from the folder that is searched.
type entry struct {
	path   string
	folder bool
}

// walk returns what is in a folder, to a depth, 0 for all of it, and whether something may be missing.
func walk(base, name string, depth int) (all []entry, cut bool, err error) {
	if info, err := os.Stat(base); err != nil || !info.IsDir() {
		return nil, false, failed("%s is no folder", name)
	}
	deadline := time.Now().Add(mostWalk)
	err = filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(base, path)
		if err != nil { // of a folder that may not be read
			cut = true
			if rel == "." {
				return err
			}
			return nil
		}
		if rel == "." {
			return nil
		}
		if len(all) == mostEntries || time.Now().After(deadline) {
			cut = true
			return fs.SkipAll
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() || d.Type().IsRegular() { // no links: they may lead back
			all = append(all, entry{rel, d.IsDir()})
		}
		deep := depth > 0 && strings.Count(rel, "/")+1 >= depth
		if d.IsDir() && (deep || slices.Contains(junk, strings.ToLower(d.Name()))) {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, false, failed("cannot read %s: %v", name, cause(err))
	}
	return all, cut, nil
}

// A choice is which paths are meant.
type choice struct{ include, exclude *regexp.Regexp }

func choose(include, exclude string) (c choice, err error) {
	if c.include, err = pattern(cmp.Or(include, "**")); err == nil && exclude != "" {
		c.exclude, err = pattern(exclude)
	}
	return c, err
}

func (c choice) has(path string) bool {
	return c.include.MatchString(path) && (c.exclude == nil || !c.exclude.MatchString(path))
}

// pattern returns the regular expression of a glob: ** is any text, * and ? are within a name. A glob without / is for names.
func pattern(glob string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	switch {
	case strings.HasPrefix(glob, "/"):
		glob = glob[1:]
	case !strings.HasPrefix(glob, "**/"):
		b.WriteString("(?:.*/)?")
	}
	for i := 0; i < len(glob); {
		_, size := utf8.DecodeRuneInString(glob[i:])
		switch {
		case strings.HasPrefix(glob[i:], "**/"):
			b.WriteString("(?:.*/)?")
			size = 3
		case strings.HasPrefix(glob[i:], "**"):
			b.WriteString(".*")
			size = 2
		case glob[i] == '*':
			b.WriteString("[^/]*")
		case glob[i] == '?':
			b.WriteString("[^/]")
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+size]))
		}
		i += size
	}
	re, err := regexp.Compile(b.String() + "$")
	if err != nil {
		return nil, failed("the pattern %.200q is too long or no text", glob)
	}
	return re, nil
}

func (t *task) glob() (any, error) {
	var p struct {
		Path    *string `json:"path"`
		Include string  `json:"include"`
		Exclude string  `json:"exclude"`
		Type    string  `json:"type"`
		Depth   int     `json:"max_depth"`
		Limit   *int    `json:"limit"`
	}
	if err := readParams(t.Params, &p); err != nil {
		return nil, err
	}
	path, err := t.path(p.Path)
	if err != nil {
		return nil, err
	}
	limit := mostResults
	if p.Limit != nil {
		if limit = min(limit, *p.Limit); limit < 1 {
			return nil, failed("invalid limit %d, want 1 or more", *p.Limit)
		}
	}
	p.Type = cmp.Or(p.Type, "file")
	if !slices.Contains([]string{"file", "dir", "all"}, p.Type) {
		return nil, failed("invalid type %.100q, want file, dir or all", p.Type)
	}
	meant, err := choose(p.Include, p.Exclude)
	if err != nil {
		return nil, err
	}
	all, cut, err := walk(path, *p.Path, p.Depth)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	entries, total := []map[string]string{}, 0
	for _, e := range all {
		if p.Type == "file" && e.folder || p.Type == "dir" && !e.folder || !meant.has(e.path) {
			continue
		}
		if total++; total > limit {
			continue
		}
		kind, slash := "file", ""
		if e.folder {
			kind, slash = "dir", "/"
		}
		b.WriteString(e.path + slash + "\n")
		entries = append(entries, map[string]string{"path": strings.ToValidUTF8(e.path, "\ufffd"), "type": kind})
	}
	fmt.Fprintf(&b, "\n---\nTotal matches: %d\n", total)
	if total > limit {
		fmt.Fprintf(&b, "[the first %d of them; a narrower pattern has fewer]\n", limit)
	}
	if cut {
		b.WriteString("[some folders were not searched]\n")
	}
	answer := plain(b.String())
	answer["entries"], answer["base"] = entries, path
	return answer, nil
}

func (t *task) grep() (any, error) {
	var p struct {
		Path    *string `json:"path"`
		Pattern *string `json:"pattern"`
		Include string  `json:"include"`
		Exclude string  `json:"exclude"`
		Numbers bool    `json:"return_line_numbers"`
		Literal bool    `json:"literal"`
		Fold    bool    `json:"ignore_case"`
		Around  int     `json:"context_lines"`
	}
	if err := readParams(t.Params, &p); err != nil {
		return nil, err
	}
	path, err := t.path(p.Path)
	if err != nil {
		return nil, err
	}
	if p.Pattern == nil {
		return nil, badParams("params.pattern is missing")
	}
	expr := *p.Pattern
	if p.Literal {
		expr = regexp.QuoteMeta(expr)
	}
	if p.Fold {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, failed("invalid regular expression: %v", err)
	}
	meant, err := choose(p.Include, p.Exclude)
	if err != nil {
		return nil, err
	}
	var files []entry
	var cut bool
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, failed("%s does not exist", *p.Path)
	case info.IsDir():
		if files, cut, err = walk(path, *p.Path, 0); err != nil {
			return nil, err
		}
	default:
		files, meant.include, meant.exclude = []entry{{path: ""}}, regexp.MustCompile(""), nil
	}
	f := finder{re: re, numbers: p.Numbers || p.Around > 0, around: min(max(p.Around, 0), mostResults)}
	deadline := time.Now().Add(mostWalk)
	for _, e := range files {
		if e.folder || !meant.has(e.path) {
			continue
		}
		if f.total == mostResults || f.full || time.Now().After(deadline) {
			cut = true
			break
		}
		f.file(filepath.Join(path, filepath.FromSlash(e.path)), cmp.Or(e.path, *p.Path))
	}
	fmt.Fprintf(&f.out, "\n---\nTotal matches: %d\n", f.total)
	if cut || f.full {
		f.out.WriteString("[not all was searched; a narrower path or pattern has fewer matches]\n")
	}
	return plain(f.out.String()), nil
}

// A finder finds lines.
type finder struct {
	re      *regexp.Regexp
	numbers bool
	around  int
	out     strings.Builder
	full    bool // out has no place for more
	total   int
}

// file shows the lines of a file; one that is no text or cannot be read has none.
func (f *finder) file(path, name string) {
	file, info, err := open(path, name)
	if err != nil {
		return
	}
	defer file.Close()
	if info.Size() > mostText {
		return
	}
	data, err := io.ReadAll(io.LimitReader(file, mostText))
	if err != nil || bytes.IndexByte(data[:min(len(data), 8<<10)], 0) >= 0 {
		return
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	next, until := 0, -1 // the first line that was not shown, and the last one around what was found
	for i, line := range lines {
		switch {
		case f.total < mostResults && f.re.MatchString(line):
			f.total++
			first := max(i-f.around, next)
			if f.around > 0 && next > 0 && first > next {
				f.out.WriteString("--\n")
			}
			for j := first; j < i; j++ {
				f.line(name, "-", j, lines[j])
			}
			f.line(name, ":", i, line)
			next, until = i+1, i+f.around
		case i <= until:
			f.line(name, "-", i, line)
			next = i + 1
		}
		if f.full || f.total == mostResults && i >= until {
			break
		}
	}
	if f.around > 0 && next > 0 {
		f.out.WriteString("--\n")
	}
}

// line shows a line, the first being 0, if there is place for it.
func (f *finder) line(name, mark string, number int, text string) {
	if len(text) > mostLine {
		text = strings.ToValidUTF8(text[:mostLine], "") + "..."
	}
	shown := name + mark
	if f.numbers {
		shown += fmt.Sprintf("%d%s", number+1, mark)
	}
	shown += text + "\n"
	if f.full = f.full || f.out.Len()+len(shown) > mostRead; !f.full {
		f.out.WriteString(shown)
	}
}
