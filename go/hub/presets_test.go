package hub

import (
	"os"
	"strings"
	"testing"
)

// A repository's file of presets is copied when it is asked for; what was copied is there offline, until the repository has none.
func TestPresets(t *testing.T) {
	s := newBadServer(t)
	s.put("a-Q4_K_M.gguf", model(300_000, 1))
	h := s.cache(t.TempDir())
	ref := Ref{Kind: HuggingFace, Repo: "org/repo"}
	if path, err := h.Presets(t.Context(), ref); path != "" || err != nil {
		t.Errorf("of a repository with a model alone: %q, %v", path, err)
	}
	before := s.repo
	for _, text := range []string{"[a]\ntemp = 0.5\n", "[b]\n", ""} {
		s.put("preset.ini", []byte(text))
		path, err := h.Presets(t.Context(), ref)
		if b, _ := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%q, want %q; %v", b, text, err)
		}
	}
	offline := s.cache(h.c.Dir)
	offline.c.Offline = true
	path, err := offline.Presets(t.Context(), ref)
	if path == "" || err != nil || h.KeptPresets(ref) != path || h.KeptPresets(Ref{Kind: HuggingFace, Repo: "org/other"}) != "" {
		t.Errorf("offline: %q, %v", path, err)
	}
	if path, err := offline.Presets(t.Context(), Ref{Kind: HuggingFace, Repo: "org/other"}); path != "" || err != nil {
		t.Errorf("offline, of another: %q, %v", path, err)
	}
	for _, r := range []Ref{{Kind: HuggingFace, Repo: "org/repo", File: "a-Q4_K_M.gguf"}, {Kind: Ollama, Repo: "library/tiny"}} {
		if path, err := h.Presets(t.Context(), r); path != "" || err != nil {
			t.Errorf("%+v: %q, %v", r, path, err)
		}
	}
	s.put("preset.ini", make([]byte, maxPresets+1))
	if _, err := h.Presets(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "preset.ini") {
		t.Errorf("one that is too large: %v", err)
	}
	s.repo = before
	if got, err := h.Presets(t.Context(), ref); got != "" || err != nil {
		t.Errorf("one that is gone: %q, %v", got, err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("its copy: %v", err)
	}
	for _, repo := range []string{"{", `{"sha":"../x","siblings":[{"rfilename":"preset.ini"}]}`} {
		s.repo = repo
		if _, err := h.Presets(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "org/repo") {
			t.Errorf("%s: %v", repo, err)
		}
	}
}
