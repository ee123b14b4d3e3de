package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quern-llm/quern/go/synth"
)

// modelFile returns the path of a model: the file called model, or one with random
// weights, which is generated once and cached.
func modelFile(ctx context.Context, model, cache string, stderr io.Writer) (string, error) {
	_, missing := os.Stat(model)
	if missing == nil {
		return model, nil
	}
	if strings.HasSuffix(model, ".gguf") || !errors.Is(missing, fs.ErrNotExist) {
		return "", missing
	}
	m, err := synth.ParseShape(model)
	if err != nil {
		return "", fmt.Errorf("%s is not a file, and as a shape: %w", model, err)
	}
	path := filepath.Join(cache, fileName(m.String())+".gguf")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	fmt.Fprintf(stderr, "compare: writing %s\n", path)
	_, err = m.WriteFile(ctx, path, false)
	return path, err
}

// modelNames are the names of models in reports: files without their directories, or with the last where two files have
// one name, and shapes.
func modelNames(models []string) []string {
	names := make([]string, len(models))
	count := map[string]int{}
	for i, model := range models {
		names[i] = model
		if _, err := synth.ParseShape(model); err != nil {
			names[i] = filepath.Base(model)
		}
		count[names[i]]++
	}
	for i, model := range models {
		if count[names[i]] > 1 {
			names[i] = filepath.Join(filepath.Base(filepath.Dir(model)), names[i])
		}
	}
	return names
}

// fileName returns a model's name as part of a file's: shapes have a colon, and a slash before fewer layers.
func fileName(model string) string { return strings.NewReplacer(":", "-", "/", "-").Replace(model) }
