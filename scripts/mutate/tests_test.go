package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What was measured holds until the sources of the packages or the test data change, whatever the tests are.
func TestSources(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hash := func() string {
		t.Helper()
		sum, err := sourcesOf("a", []string{"./a", "./b"})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	for _, path := range []string{"a/a.go", "a/a_test.go", "a/testdata/x/y.txt", "b/b.go", "b/text.txt", "b/testdata/z"} {
		write(path, "1")
	}
	for path, changes := range map[string]bool{
		"a/a.go": true, "a/a_test.go": false, "a/testdata/x/y.txt": true, "b/b.go": true, "b/text.txt": true,
		"b/testdata/z": false, "a/testdata/new": true,
	} {
		was := hash()
		write(path, "2")
		if is := hash() != was; is != changes {
			t.Errorf("%s: the hash changes: %v", path, is)
		}
	}
}

// The tests of a folder are measured once for all packages that they reach.
func TestMeasuredOnce(t *testing.T) {
	m := measured{"go/a": {{Folder: "go/a", Name: "TestA"}}, "go/none": nil}
	for folder, want := range map[string]int{"go/a": 1, "go/none": 0} {
		if tests, err := m.of(folder, t.TempDir()); err != nil || len(tests) != want {
			t.Errorf("%s: %v, %v", folder, tests, err)
		}
	}
}

// What is reached of a mutant is the statement that it is in: a profile has no line of what follows a function in one.
func TestReach(t *testing.T) {
	const text = `package some

func f(n int) map[string]func() int {
	all := map[string]func() int{
		"a": func() int {
			return 1
		},
		"b": g(2),
	}
	switch {
	case n > 3,
		n < 4:
		return all
	}
	return nil
}
`
	path := filepath.Join(t.TempDir(), "f.go")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	sites, err := goSites("go/some", path)
	if err != nil {
		t.Fatal(err)
	}
	reach := map[string]int{}
	for _, m := range sites {
		reach[m.old] = m.reach
	}
	for old, line := range map[string]int{"1": 6, "2": 4, "3": 10, "<": 10, "4": 10} {
		if reach[old] != line {
			t.Errorf("%s is reached with line %d, want %d", old, reach[old], line)
		}
	}
}
