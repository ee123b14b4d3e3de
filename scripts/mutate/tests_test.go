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
