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

// modelFile returns the path of a model: the file called model, or one with
// random weights, which is made once and kept in the cache directory.
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
	path := filepath.Join(cache, strings.ReplaceAll(m.String(), ":", "-")+".gguf")
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

// modelName is what reports call a model: results do not tell of directories.
func modelName(model string) string { return filepath.Base(model) }
