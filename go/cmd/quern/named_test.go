package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWithoutScale(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a:2")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := "@sha256:" + strings.Repeat("1", 64)
	for _, c := range []struct{ arg, name, scale string }{
		{file, file, ""},
		{file + ":0.5", file, ":0.5"},
		{"a.gguf:-1e-1", "a.gguf", ":-1e-1"},
		{"a.gguf", "a.gguf", ""},
		{"tiny:8b", "tiny:8b", ""},
		{"hf.co/org/repo:0.5", "hf.co/org/repo", ":0.5"},
		{"hf.co/org/repo:Q4_K_M:2", "hf.co/org/repo:Q4_K_M", ":2"},
		{"https://example.com/a.gguf:2", "https://example.com/a.gguf", ":2"},
		{"oci://example.com/a:2", "oci://example.com/a:2", ""},
		{"oci://example.com/a:nan", "oci://example.com/a:nan", ""},
		{"oci://example.com/a:2:0.5", "oci://example.com/a:2", ":0.5"},
		{"oci://example.com:5000/b/a:2", "oci://example.com:5000/b/a:2", ""},
		{"oci://example.com:5000/b/a:x:2", "oci://example.com:5000/b/a:x", ":2"},
		{"oci://example.com/a" + sum, "oci://example.com/a" + sum, ""},
		{"oci://example.com/a" + sum + ":2", "oci://example.com/a" + sum, ":2"},
		{"ollama.com/a:7", "ollama.com/a:7", ""},
		{"ollama://a:7", "ollama://a:7", ""},
		{"ollama://a:7:2", "ollama://a:7", ":2"},
	} {
		if name, scale, err := withoutScale(c.arg); err != nil || name != c.name || scale != c.scale {
			t.Errorf("%s: %q and %q, %v, want %q and %q", c.arg, name, scale, err, c.name, c.scale)
		}
	}
	for _, arg := range []string{"a.gguf:inf", "a.gguf:-Infinity", "hf.co/org/repo:NaN", "oci://example.com/a:2:inf"} {
		if _, _, err := withoutScale(arg); err == nil || !strings.Contains(err.Error(), "is no scale") {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
