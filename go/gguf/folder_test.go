package gguf_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

func TestModelsIn(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.gguf", "a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "mmproj-b.gguf", ".hidden.gguf", "b.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.gguf"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b.gguf", filepath.Join(dir, "link.gguf")); err != nil {
		t.Fatal(err)
	}
	var names []string
	all, err := gguf.ModelsIn(dir)
	for _, path := range all {
		names = append(names, filepath.Base(path))
	}
	if want := []string{"a-00001-of-00002.gguf", "b.gguf", "link.gguf"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v; want %q", names, err, want)
	}
	if _, err := gguf.ModelsIn(filepath.Join(dir, "b.gguf")); err == nil {
		t.Error("a file is a folder")
	}
}
