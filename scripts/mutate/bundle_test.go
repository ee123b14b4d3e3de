package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoFunctions = `package some

const n = 1

func f(a, b int) (c int, err error) {
	if a < b {
		return a, nil
	}
	return a + b, nil
}

func (x *t) g() {
	x.clear()
}

func labeled(a int) {
loop:
	for a > 1 {
		continue loop
	}
}
`

// Mutants of one file are in one program, each where its number is chosen; what is outside of functions is not, nor is a
// function with labels, which a copy would have twice.
func TestManyMutantsInAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("f.go", []byte(twoFunctions), 0o644); err != nil {
		t.Fatal(err)
	}
	sites, err := goSites(".", "f.go")
	if err != nil {
		t.Fatal(err)
	}
	s := &goSuite{pkg: ".", scratch: "scratch"}
	b, err := s.dir("shared")
	if err != nil {
		t.Fatal(err)
	}
	outside, labels := 0, 0
	for i := range sites {
		switch m := &sites[i]; {
		case !m.inside:
			outside++
		case !m.shares:
			labels++
		default:
			b.mutants = append(b.mutants, m)
		}
	}
	if outside != 1 || labels == 0 || len(b.mutants) < 4 {
		t.Fatalf("%d mutants are outside of functions, %d beside labels, %d share a program", outside, labels, len(b.mutants))
	}
	places, err := s.spread(b)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "f.go"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "f.go", text, 0); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	lines := strings.Split(string(text), "\n")
	for k, p := range places {
		body := strings.Join(lines[p.from-1:p.to], "\n")
		if p.m.new != "" && !strings.Contains(body, p.m.new) || strings.Contains(body, "x.clear()") || strings.Contains(body, "\nreturn") != p.m.void {
			t.Errorf("mutant %d, %v:\n%s", k, p.m, body)
		}
	}
}
