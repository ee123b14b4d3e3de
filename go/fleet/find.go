package fleet

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/usage"
)

// A found is a model in a folder.
type found struct{ name, path string }

// firstShard is how the names of first shards end.
const firstShard = "-00001-of-"

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
		case isModel(e.Name()):
			all = append(all, found{strings.TrimSuffix(e.Name(), ".gguf"), path})
		}
	}
	return all, nil
}

func isModel(file string) bool {
	return strings.HasSuffix(file, ".gguf") && !gguf.IsProjector(file) && !strings.HasPrefix(file, ".")
}

// modelIn returns the model's file in a folder of its own, the first where there are several; empty if there is none.
func modelIn(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	file := ""
	for _, e := range entries {
		switch {
		case !isModel(e.Name()):
		case strings.Contains(e.Name(), firstShard):
			return filepath.Join(dir, e.Name())
		case file == "":
			file = filepath.Join(dir, e.Name())
		}
	}
	return file
}
