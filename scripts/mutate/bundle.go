package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Compiling and linking takes longer than the tests that notice a mutant. So many mutants are in the same programs: a
// function with mutants begins with a changed copy of its body for each, which runs where the environment says so.
//
//	func f(n int) int {
//		if quernMutant == 7 { return n - 1 }
//		return n + 1
//	}

// built is programs with mutants.
type built struct {
	dir, overlay string
	mutants      []*mutant         // mutant k runs where the variable is k+1
	programs     map[string]string // by the folder of the tests, built where they are needed
	sound        map[string]bool   // tests that pass in them without a mutant
}

// variable is the environment variable with the number of the mutant.
const variable = "QUERN_MUTANT"

const chooser = `package %s

import (
	"os"
	"strconv"
)

var quernMutant, _ = strconv.Atoi(os.Getenv("` + variable + `"))
`

// bundle returns the programs of those mutants that are inside of functions and compile.
func (s *goSuite) bundle(batch []mutant) (*built, error) {
	b, err := s.dir("shared")
	if err != nil {
		return nil, err
	}
	for i := range batch {
		if batch[i].shares {
			b.mutants = append(b.mutants, &batch[i])
		}
	}
	own := slices.ContainsFunc(s.tests, func(t test) bool { return t.Folder == s.pkg })
	for len(b.mutants) > 0 {
		places, err := s.spread(b)
		if err != nil {
			return nil, err
		}
		build := []string{"build"}
		if own {
			b.programs[s.pkg] = filepath.Join(b.dir, "own.test")
			build = []string{"test", "-c", "-vet=off", "-o", b.programs[s.pkg]}
		}
		out, err := command(10*time.Minute, "", "scripts/go.sh", append(build, "-gcflags=-e", "-overlay", b.overlay, "./"+s.pkg)...)
		if err == nil {
			break
		}
		wrong := map[*mutant]bool{}
		for _, m := range compileError.FindAllSubmatch(out, -1) {
			line, _ := strconv.Atoi(string(m[2]))
			for _, p := range places {
				if filepath.Base(p.file) == string(m[1]) && p.from <= line && line <= p.to {
					wrong[p.m] = true
				}
			}
		}
		if len(wrong) == 0 {
			return nil, fmt.Errorf("%v\n%s", err, tail(out))
		}
		b.mutants = slices.DeleteFunc(b.mutants, func(m *mutant) bool { return wrong[m] })
	}
	return b, nil
}

var compileError = regexp.MustCompile(`(?m)^(?:.*/)?([^/\s]+\.go):(\d+):\d+: `)

// dir returns an empty folder for programs.
func (s *goSuite) dir(name string) (*built, error) {
	dir, err := filepath.Abs(filepath.Join(s.scratch, name))
	if err == nil {
		err = os.RemoveAll(dir)
	}
	return &built{dir: mkdir(dir), overlay: filepath.Join(dir, "overlay.json"), programs: map[string]string{}, sound: map[string]bool{}}, err
}

// A place is the lines of a mutant in the changed file.
type place struct {
	m        *mutant
	file     string
	from, to int
}

// spread writes the files with a copy of a body for each mutant.
func (s *goSuite) spread(b *built) ([]place, error) {
	type body struct {
		at      int
		mutants []int
	}
	files := map[string][]body{}
	for k, m := range b.mutants {
		list := files[m.file]
		i := slices.IndexFunc(list, func(o body) bool { return o.at == m.body[0] })
		if i < 0 {
			i, list = len(list), append(list, body{at: m.body[0]})
		}
		list[i].mutants = append(list[i].mutants, k)
		files[m.file] = list
	}
	var places []place
	changed := map[string][]byte{}
	name := ""
	for file, list := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name = packageName(src)
		slices.SortFunc(list, func(a, b body) int { return a.at - b.at })
		var out bytes.Buffer
		from := 0
		for _, f := range list {
			out.Write(src[from : f.at+1]) // with the brace
			from = f.at + 1
			for _, k := range f.mutants {
				m := b.mutants[k]
				fmt.Fprintf(&out, "\nif quernMutant == %d {", k+1)
				line := bytes.Count(out.Bytes(), []byte("\n"))
				out.Write(src[m.body[0]+1 : m.from])
				out.WriteString(m.new)
				out.Write(src[m.to:m.body[1]])
				if m.void {
					out.WriteString("\nreturn")
				}
				out.WriteString("\n}\n")
				places = append(places, place{m, file, line + 1, bytes.Count(out.Bytes(), []byte("\n"))})
			}
		}
		out.Write(src[from:])
		changed[file] = out.Bytes()
	}
	changed[filepath.Join(s.pkg, "quern_mutant.go")] = fmt.Appendf(nil, chooser, name)
	return places, b.write(changed)
}

// single returns the program of one mutant.
func (s *goSuite) single(m *mutant) (*built, error) {
	b, err := s.dir("single")
	if err != nil {
		return nil, err
	}
	text, err := m.apply()
	if err != nil {
		return nil, err
	}
	return b, b.write(map[string][]byte{m.file: text})
}

// write makes the go command take these files.
func (b *built) write(changed map[string][]byte) error {
	replace := map[string]string{}
	for file, text := range changed {
		original, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		replace[original] = filepath.Join(b.dir, filepath.Base(file))
		if err := os.WriteFile(replace[original], text, 0o644); err != nil {
			return err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	return errors.Join(err, os.WriteFile(b.overlay, overlay, 0o644))
}

var packageClause = regexp.MustCompile(`(?m)^package (\w+)`)

func packageName(src []byte) string { return string(packageClause.FindSubmatch(src)[1]) }
