package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// Which projector belongs to a model: of the nearest folder, the type that is computed fastest.
func TestProjectorOf(t *testing.T) {
	for _, c := range []struct{ files, folder, want string }{
		{"a-Q4_K_M.gguf mmproj-F16.gguf mmproj-BF16.gguf mmproj-Q8_0.gguf mmproj-F32.gguf", ".", "mmproj-Q8_0.gguf"},
		{"a.gguf mmproj-BF16.gguf mmproj-F32.gguf mmproj-F16.gguf", ".", "mmproj-F16.gguf"},
		{"a.gguf mmproj-F32.gguf mmproj-BF16.gguf", ".", "mmproj-BF16.gguf"},
		{"a.gguf mmproj-model-f16.gguf mmproj-a.gguf", ".", "mmproj-model-f16.gguf"},
		{"a.gguf a-mmproj.gguf", ".", "a-mmproj.gguf"},
		{"Q4/a.gguf mmproj-F16.gguf", "Q4", "mmproj-F16.gguf"},
		{"x/Q4/a.gguf x/mmproj-F32.gguf mmproj-Q8_0.gguf", "x/Q4", "x/mmproj-F32.gguf"},
		{"a.gguf other/mmproj-F16.gguf", ".", ""},
		{"a.gguf mmproj.txt mmproj-F16.bin", ".", ""},
		{"a.gguf", ".", ""},
	} {
		got := ""
		if f := projectorOf(filesOf(c.files), c.folder); f != nil {
			got = f.Path
		}
		if got != c.want {
			t.Errorf("%s in %s: %q, want %q", c.files, c.folder, got, c.want)
		}
	}
}

// A model of Hugging Face or a registry brings its projector along, unless that is dropped; one that is named is pulled
// alone.
func TestPullProjector(t *testing.T) {
	s := newBadServer(t)
	b, eyes := model(60_000, 1), model(30_000, 2)
	s.put("a-Q4_K_M.gguf", b)
	s.put("mmproj-F32.gguf", model(20_000, 3))
	s.put("mmproj-F16.gguf", eyes)
	h := s.cache(t.TempDir())
	m := must(t, h, "hf.co/org/repo", b)
	path := gguf.ProjectorBeside(h.Path(m))
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, eyes) || filepath.Dir(path) != filepath.Dir(h.Path(m)) {
		t.Errorf("the projector %q of %+v: %v", path, m, err)
	}
	if m.Bytes() != int64(len(b)+len(eyes)) {
		t.Errorf("%d bytes", m.Bytes())
	}
	again, err := h.Find("hf.co/org/repo")
	if err != nil || gguf.ProjectorBeside(h.Path(again)) != path {
		t.Errorf("%+v, %v", again, err)
	}
	alone := must(t, h, "hf.co/org/repo/mmproj-F32.gguf", model(20_000, 3))
	if len(alone.Files) != 1 || gguf.ProjectorBeside(h.Path(alone)) != "" {
		t.Errorf("%+v", alone)
	}

	blind := s.cache(t.TempDir())
	ref, err := ParseRef("hf.co/org/repo")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := blind.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	plan.DropProjector()
	if m, err = blind.Pull(t.Context(), plan, Options{}); err != nil || len(m.Files) != 1 || gguf.ProjectorBeside(blind.Path(m)) != "" {
		t.Errorf("%+v, %v", m, err)
	}

	layers := ""
	for i, l := range []struct {
		kind string
		b    []byte
	}{{"projector", eyes}, {"model", b}} {
		sum := sha256.Sum256(l.b)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		s.files["/v2/library/seeing/blobs/"+digest] = l.b
		if i > 0 {
			layers += ","
		}
		layers += fmt.Sprintf(`{"mediaType":"application/vnd.ollama.image.%s","digest":"%s","size":%d}`, l.kind, digest, len(l.b))
	}
	s.files["/v2/library/seeing/manifests/latest"] = []byte(`{"layers":[` + layers + `]}`)
	m = must(t, h, "ollama.com/seeing", b)
	if got, err := os.ReadFile(gguf.ProjectorBeside(h.Path(m))); err != nil || !bytes.Equal(got, eyes) {
		t.Errorf("%+v, %v", m, err)
	}
}
