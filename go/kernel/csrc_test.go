package kernel

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Sources of C are compiled by the go command, folder by folder, and by CMake, which reads the flags from csrc.go: so
// all folders have the same, and go/kernel imports each.
func TestFoldersOfC(t *testing.T) {
	const root = "../../csrc"
	folders := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		switch {
		case err != nil:
			return err
		case d.IsDir() && rel == "tests":
			return fs.SkipDir
		case !d.IsDir() && strings.Count(rel, "/") > 1:
			t.Errorf("%s: csrc.go embeds the headers of csrc and of its folders, and none below", path)
		case filepath.Ext(rel) == ".c":
			folders[filepath.ToSlash(filepath.Dir(rel))] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) < 8 {
		t.Fatalf("folders with sources: %v", slices.Sorted(maps.Keys(folders)))
	}
	imports := readAll(t, "csrc.go", "csrc_amd64.go", "csrc_arm64.go", "csrc_riscv64.go")
	want := cgoFlags(readAll(t, root+"/csrc.go"))
	if !strings.Contains(want, " -std=c11 ") {
		t.Fatalf("flags of csrc.go: %q", want)
	}
	for folder := range folders {
		file, path := "csrc.go", "csrc"
		if folder != "." {
			file, path = folder+"/"+folder+".go", "csrc/"+folder
		}
		text := readAll(t, root+"/"+file)
		got := cgoFlags(text)
		if folder != "." {
			got = strings.ReplaceAll(got, "${SRCDIR}/..", "${SRCDIR}")
		}
		if got != want {
			t.Errorf("flags of csrc/%s:\n%s\nwant those of csrc.go:\n%s", file, got, want)
		}
		if folder == "mpi" || folder == "ucx" { // which programs have by a tag, also where the library of CMake is linked
			if !strings.Contains(readAll(t, "ranks_"+folder+".go"), `_ "github.com/quern-llm/quern/`+path+`"`) {
				t.Errorf("go/kernel does not import %s", path)
			}
			continue
		}
		line, _, _ := strings.Cut(text, "\n")
		if !strings.HasPrefix(line, "//go:build") || !strings.HasSuffix(line, "!quernlib") {
			t.Errorf("csrc/%s begins with %q: where the library of CMake is linked, it is left out", file, line)
		}
		if !strings.Contains(imports, `_ "github.com/quern-llm/quern/`+path+`"`) {
			t.Errorf("go/kernel does not import %s", path)
		}
	}
}

// cgoFlags returns the flags of C in a file, with a space on both sides.
func cgoFlags(text string) string {
	flags := " "
	for line := range strings.Lines(text) {
		if f, ok := strings.CutPrefix(line, "// #cgo CFLAGS: "); ok {
			flags += strings.TrimSpace(f) + " "
		}
	}
	return flags
}

func readAll(t *testing.T, paths ...string) string {
	t.Helper()
	var all strings.Builder
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}
