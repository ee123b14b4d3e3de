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

// modelName is a model's name in reports: a file without its directory, or a shape.
func modelName(model string) string {
	if _, err := synth.ParseShape(model); err == nil {
		return model
	}
	return filepath.Base(model)
}

// fileName returns a model's name as part of a file's: shapes have a colon, and a slash before fewer layers.
func fileName(model string) string { return strings.NewReplacer(":", "-", "/", "-").Replace(model) }
