package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// equivalents are mutants that make no difference, by package: an entry of the file is the path, the line before and
// after, and the reason.
//
//	go/sched/sched.go
//	- const unknownReply = 256
//	+ const unknownReply = 257
//	  how much is kept for a reply of unknown length: no value is right
type equivalents map[string][]equivalent

type equivalent struct {
	file, before, after string
	at                  int // its line in the list
}

func readEquivalents(name string) (equivalents, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	all := equivalents{}
	var e equivalent
	for i, line := range strings.Split(string(b), "\n") {
		mark, text, _ := strings.Cut(line, " ")
		switch {
		case line == "" || mark == "#":
		case mark == "-":
			e.before, e.after, e.at = text, "", i+1
		case mark == "+":
			e.after = text
		case mark == "" && e.at > 0: // the reason, whose further lines say nothing new
			pkg := e.file[:strings.LastIndexByte(e.file, '/')]
			if !slices.Contains(all[pkg], e) {
				all[pkg] = append(all[pkg], e)
			}
		case strings.Contains(mark, "/"):
			file, _, _ := strings.Cut(mark, ":") // the report has the line as well
			e = equivalent{file: file}
		default:
			return nil, fmt.Errorf("%s:%d: want a file's path, -, + or the reason after two spaces", name, i+1)
		}
	}
	return all, nil
}

// remove returns the sites of a package without those that are equivalent. An entry that is no site any more is an error:
// the line has changed, and so perhaps the reason.
func (all equivalents) remove(pkg string, sites []mutant) ([]mutant, error) {
	found := map[equivalent]bool{}
	text := map[string]string{}
	for _, e := range all[pkg] {
		found[e] = false
		b, err := os.ReadFile(e.file)
		if err != nil {
			return nil, err
		}
		text[e.file] = string(b)
	}
	sites = slices.DeleteFunc(sites, func(m mutant) bool {
		src, ok := text[m.file]
		if !ok {
			return false
		}
		before, after := m.diff(src)
		for e := range found {
			if e.file == m.file && e.before == before && e.after == after {
				found[e] = true
				return true
			}
		}
		return false
	})
	for e, ok := range found {
		if !ok {
			return nil, fmt.Errorf("equivalent.txt:%d: %s has no line `%s` that can become `%s`: see whether the reason still holds", e.at, e.file, e.before, e.after)
		}
	}
	return sites, nil
}
