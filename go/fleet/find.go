package fleet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/usage"
)

// A found is a model in a folder.
type found struct{ name, path string }

// findModels returns the models in a folder: its GGUF files, and folders with one, or with the shards of one.
// Projectors (mmproj) are none: they belong to models beside them.
func findModels(dir string) ([]found, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, usage.Errorf("--models-dir: %w", err)
	}
	var all []found
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // follows links
		switch {
		case err != nil || strings.HasPrefix(e.Name(), "."):
			continue
		case info.IsDir():
			if file := modelIn(path); file != "" {
				all = append(all, found{e.Name(), file})
			}
		case gguf.IsModel(e.Name()):
			all = append(all, found{strings.TrimSuffix(e.Name(), ".gguf"), path})
		}
	}
	return all, nil
}

// modelIn returns the model's file in a folder of its own: where there are several that in shards, or else the first; empty
// if there is none.
func modelIn(dir string) string {
	all, err := gguf.ModelsIn(dir)
	if err != nil || len(all) == 0 {
		return ""
	}
	return all[max(slices.IndexFunc(all, func(path string) bool { return strings.Contains(path, gguf.FirstShard) }), 0)]
}
