package hub

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// preferred lists the default quantizations in order of preference: about four bits, then more.
var preferred = []string{"Q4_K_M", "Q4_K_S", "Q4_0", "IQ4_XS", "Q4_K_XL", "MXFP4", "Q5_K_M", "Q5_K_S", "Q6_K", "Q8_0", "BF16", "F16", "F32"}

// shardForm matches a shard number at the end of a file's name.
var shardForm = regexp.MustCompile(`-(\d{5})-of-(\d{5})$`)

// A group is a model in a repository: one file, or all shards of one.
type group struct {
	stem  string // the path without the number of the shard and .gguf
	files []File // by shard
	count int    // of shards that there should be
}

// quant returns the group's quantization in upper case; empty if its name has none.
func (g *group) quant() string { return gguf.TypeInName(path.Base(g.stem)) }

// complete returns an error unless all shards are present.
func (g *group) complete() error {
	if len(g.files) != g.count {
		return fmt.Errorf("%s has %d of its %d files", g.stem, len(g.files), g.count)
	}
	return nil
}

// cutShard splits a stem into the part before its shard number, the number and the count. A stem without a
// valid shard number is a single file's.
func cutShard(stem string) (rest string, shard, count int) {
	m := shardForm.FindStringSubmatch(stem)
	if m == nil {
		return stem, 1, 1
	}
	shard, _ = strconv.Atoi(m[1]) // five digits
	count, _ = strconv.Atoi(m[2])
	if shard < 1 || shard > count {
		return stem, 1, 1
	}
	return strings.TrimSuffix(stem, m[0]), shard, count
}

// groups returns the models among the files of a repository, sorted by name, without projectors, draft heads
// and importance matrices.
func groups(files []File) []*group {
	by := map[string]*group{}
	var all []*group
	sorted := slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	for _, f := range sorted {
		stem, isModel := strings.CutSuffix(f.Path, ".gguf")
		base := strings.ToLower(path.Base(stem))
		if !isModel || gguf.IsProjector(f.Path) || strings.Contains(base, "imatrix") || strings.HasPrefix(base, "mtp-") {
			continue
		}
		key := stem
		stem, shard, count := cutShard(stem)
		if stem != key {
			key = fmt.Sprintf("%s-of-%05d", stem, count)
		}
		g := by[key]
		if g == nil {
			g = &group{stem: stem, count: count}
			by[key], all = g, append(all, g)
		}
		if shard == len(g.files)+1 { // sorted, so that a gap leaves the group incomplete
			g.files = append(g.files, f)
		}
	}
	return all
}

// projectorOf returns the projector of a model of a repository, whose files are in a folder: one of those in the nearest
// folder that has some, outwards. It returns nil if there is none.
func projectorOf(files []File, folder string) *File {
	for {
		var here []string
		for _, f := range files {
			if gguf.IsProjector(f.Path) && path.Dir(f.Path) == folder {
				here = append(here, f.Path)
			}
		}
		if best := gguf.BestProjector(here); best != "" {
			return &files[slices.IndexFunc(files, func(f File) bool { return f.Path == best })]
		}
		if folder == "." {
			return nil
		}
		folder = path.Dir(folder)
	}
}

// choose returns the model with a tag, or the default one.
func choose(files []File, tag string) (*group, error) {
	all := groups(files)
	if len(all) == 0 {
		return nil, fmt.Errorf("the repository has no GGUF files; look for one whose name ends in GGUF")
	}
	if tag != "" {
		return match(all, tag)
	}
	for _, quant := range preferred {
		if g, err := match(all, quant); err == nil {
			return g, nil
		}
	}
	if len(all) == 1 {
		return all[0], all[0].complete()
	}
	return nil, fmt.Errorf("there are %d models, and no default among them: %s", len(all), offer(all))
}

// match returns the model that a tag refers to: by its quantization, else by a part of its name.
func match(all []*group, tag string) (*group, error) {
	tag = strings.ToUpper(tag)
	tests := []func(g *group) bool{
		func(g *group) bool { return g.quant() == tag },
		func(g *group) bool { return g.quant() == "UD-"+tag },
		func(g *group) bool { return hasPart(strings.ToUpper(g.stem), tag) },
	}
	for _, test := range tests {
		var found []*group
		for _, g := range all {
			if test(g) {
				found = append(found, g)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], found[0].complete()
		case len(found) > 1:
			return nil, fmt.Errorf("%d models are %s: %s", len(found), tag, offer(found))
		}
	}
	return nil, fmt.Errorf("no model is %s, want one of %s", tag, offer(all))
}

// hasPart reports whether name contains part between separators.
func hasPart(name, part string) bool {
	isSeparator := func(b byte) bool { return strings.IndexByte("-._/", b) >= 0 }
	for from := 0; ; {
		i := strings.Index(name[from:], part)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(part)
		if (i == 0 || isSeparator(name[i-1])) && (end == len(name) || isSeparator(name[end])) {
			return true
		}
		from = i + 1
	}
}

// offered is the maximum number of models listed in an error.
const offered = 24

// offer lists models by their tags.
func offer(all []*group) string {
	quants := map[string]int{}
	for _, g := range all {
		quants[g.quant()]++
	}
	var names []string
	for _, g := range all {
		if q := g.quant(); q != "" && quants[q] == 1 {
			names = append(names, ":"+q)
		} else {
			names = append(names, "/"+g.files0())
		}
	}
	if n := len(names); n > offered {
		names = append(names[:offered], fmt.Sprintf("and %d others", n-offered))
	}
	return strings.Join(names, " ")
}

// files0 is the path of the first file.
func (g *group) files0() string {
	if len(g.files) == 0 {
		return g.stem + ".gguf"
	}
	return g.files[0].Path
}

// containing returns the model that a file belongs to.
func containing(files []File, file string) (*group, error) {
	stem := strings.TrimSuffix(file, ".gguf")
	if rest, _, count := cutShard(stem); rest != stem {
		for _, g := range groups(files) {
			if g.stem == rest && g.count == count {
				return g, g.complete()
			}
		}
	}
	for _, f := range files {
		if f.Path == file {
			return &group{stem: stem, files: []File{f}, count: 1}, nil
		}
	}
	return nil, fmt.Errorf("there is no file %s, want one of %s", file, offer(groups(files)))
}
