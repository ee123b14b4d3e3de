package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// presetsName is the file of presets in a repository, in llama-server's form.
const presetsName = "preset.ini"

// maxPresets bounds its size.
const maxPresets = 1 << 20

// presets returns the path of the copy of a repository's file of presets.
func (h *Hub) presets(r Ref) string {
	return filepath.Join(h.c.Dir, "presets", strings.TrimSuffix(fileName(r.Repo), ".json")+".ini")
}

// Presets returns the path of a copy of the file of presets that a repository on Hugging Face has in place of a model; empty: it
// has none. The copy of an earlier call is all there is where nothing is downloaded.
func (h *Hub) Presets(ctx context.Context, r Ref) (string, error) {
	if r.Kind != HuggingFace || r.File != "" {
		return "", nil
	}
	path := h.presets(r)
	if h.c.Offline {
		return h.KeptPresets(r), nil
	}
	text, has, err := h.presetsText(ctx, r)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Shown(), err)
	}
	if !has {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", diskError(err)
		}
		return "", nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", diskError(err)
	}
	return path, replaceFile(path, text)
}

// KeptPresets returns the path of the copy of an earlier call; empty: there is none.
func (h *Hub) KeptPresets(r Ref) string {
	path := h.presets(r)
	if _, err := os.Stat(path); r.Kind != HuggingFace || r.File != "" || err != nil {
		return ""
	}
	return path
}

// presetsText returns the file of presets of a repository, and whether it has one.
func (h *Hub) presetsText(ctx context.Context, r Ref) (text []byte, has bool, err error) {
	repo, err := h.describe(ctx, r)
	if err != nil {
		return nil, false, err
	}
	if !slices.ContainsFunc(repo.Files, func(f repositoryFile) bool { return f.Path == presetsName }) {
		return nil, false, nil
	}
	if !isComponent(repo.Commit) {
		return nil, false, fmt.Errorf("the commit %.60q, want a name", repo.Commit)
	}
	address := h.c.HuggingFace + "/" + r.Repo + "/resolve/" + url.PathEscape(repo.Commit) + "/" + presetsName
	if text, err = h.get(ctx, h.huggingFace(), address, nil, maxPresets); err != nil {
		err = fmt.Errorf("%s: %w", presetsName, h.explain(err))
	}
	return text, true, err
}
