package gguf

import (
	"os"
	"path/filepath"
	"strings"
)

// FirstShard is how the names of first shards end, before their number and suffix.
const FirstShard = "-00001-of-"

// IsModel reports whether a file, by its name, is of a model: a GGUF file that is no projector and not hidden.
func IsModel(name string) bool {
	return strings.HasSuffix(name, ".gguf") && !IsProjector(name) && !strings.HasPrefix(name, ".")
}

// ModelsIn returns the paths of the models in a folder, by name: its GGUF files without projectors and hidden ones, and of
// a model in shards the first.
func ModelsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		name := e.Name()
		stem := strings.TrimSuffix(name, ".gguf")
		if !IsModel(name) || shardInName.MatchString(stem) && !strings.Contains(name, FirstShard) {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() { // follows links
			all = append(all, filepath.Join(dir, name))
		}
	}
	return all, nil
}
