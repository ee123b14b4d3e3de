package hub

import (
	"errors"
	"strings"
	"testing"
)

var sum64 = strings.Repeat("0a", 32)

func TestParseRef(t *testing.T) {
	for in, want := range map[string]string{
		"hf.co/a/b":                 "hf.co/a/b",
		"hf.co/a/b:Q4_K_M":          "hf.co/a/b:Q4_K_M",
		"hf.co/a/b:latest":          "hf.co/a/b",
		"huggingface.co/a/b:q8_0":   "hf.co/a/b:q8_0",
		"hf.co/a/b@v1.0:UD-Q4_K_XL": "hf.co/a/b@v1.0:UD-Q4_K_XL",
		"hf.co/a/b/c/d.gguf":        "hf.co/a/b/c/d.gguf",
		"https://huggingface.co/a/b/blob/main/c/d%20e.gguf?download=true": "hf.co/a/b/c/d e.gguf",
		"https://huggingface.co/a/b/resolve/v1/d.gguf":                    "hf.co/a/b@v1/d.gguf",
		"https://hf.co/a/b/tree/main":                                     "hf.co/a/b",
		"https://hf.co/a/b/":                                              "hf.co/a/b",
		"ollama.com/qwen3":                                                "ollama.com/qwen3",
		"ollama.com/library/qwen3:0.6b":                                   "ollama.com/qwen3:0.6b",
		"ollama.com/me/mine":                                              "ollama.com/me/mine",
		"https://ollama.com/library/qwen3":                                "ollama.com/qwen3",
		"oci://ghcr.io/a/b/c":                                             "oci://ghcr.io/a/b/c:latest",
		"oci://localhost:5000/a:v1":                                       "oci://localhost:5000/a:v1",
		"oci://ghcr.io/a@sha256:" + sum64:                                 "oci://ghcr.io/a@sha256:" + sum64,
		"https://example.com/a.gguf?x=1":                                  "https://example.com/a.gguf?x=1",
		"http://example.com/a.gguf#sha256=" + strings.ToUpper(sum64):      "http://example.com/a.gguf",
	} {
		r, err := ParseRef(in)
		if err != nil || r.String() != want {
			t.Errorf("%s is %s, %v; want %s", in, r, err, want)
		}
	}
	for _, in := range []string{
		"hf.co/", "hf.co/a", "hf.co/../b", "hf.co/a/..", "hf.co/a/b:", "hf.co/a/b:../c", "hf.co/a/b/c", "hf.co/a/b/../c.gguf", "hf.co/a/b//c.gguf", "hf.co/a/b/.c.gguf",
		"hf.co/a/b@../c", "hf.co/a/b/c\n.gguf", "hf.co/a b/c", "ollama.com/", "ollama.com/a/b/c", "ollama.com/a:b:c", "ollama.com/..", "oci://", "oci://host", "oci://ho st/a", "oci://host/a//b",
		"oci://host/a@sha256:12", "oci://host/a@md5:12", "https://", "https:///a.gguf", "https://me:secret@example.com/a.gguf", "https://example.com/a.gguf#sha256=1",
		"https://example.com/", "https://example.com/a/%2e%2e", "http://exa mple.com/a", "hf.co/" + strings.Repeat("a", 2000),
	} {
		if r, err := ParseRef(in); err == nil || errors.Is(err, ErrNoRef) {
			t.Errorf("%q is %s, %v; want an error about it", in, r, err)
		}
	}
	for _, in := range []string{"", "model.gguf", "./a/b", "a/b:Q4_K_M", "qwen3", "ftp://a/b"} {
		if _, err := ParseRef(in); !errors.Is(err, ErrNoRef) {
			t.Errorf("%q: %v, want that no server is named", in, err)
		}
	}
}

// The name of a model means it again, and names no file outside of the folders that it may be in.
func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"hf.co/a/b@v1:Q4_K_M", "hf.co/a/b/c/d.gguf", "https://huggingface.co/a/b/blob/main/c%2Fd.gguf", "ollama.com/me/mine:1b", "oci://localhost:5000/a/b@sha256:" + sum64, "https://example.com/a/b.gguf?x#sha256=" + sum64} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRef(s)
		if err != nil {
			return
		}
		again, err := ParseRef(r.String())
		again.Sum = r.Sum // which the name leaves out
		if err != nil || again != r {
			t.Errorf("%q is %q, which is %+v, %v; want %+v", s, r, again, err, r)
		}
		for _, part := range strings.Split(r.Repo+"/"+r.File, "/") {
			if part == ".." || part == "." {
				t.Errorf("%q has the part %q", s, part)
			}
		}
		if name := r.fileName(); r.Kind != HuggingFace && checkName(name) != nil {
			t.Errorf("%q is the file %q", s, name)
		}
	})
}
