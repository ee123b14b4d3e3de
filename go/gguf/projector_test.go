package gguf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// Which projector belongs to a model, by the names in a folder.
func TestProjectorBeside(t *testing.T) {
	for _, c := range []struct{ files, model, want string }{
		{"a-Q4_K_M.gguf mmproj-F16.gguf mmproj-Q8_0.gguf", "a-Q4_K_M.gguf", "mmproj-Q8_0.gguf"},
		{"a-Q4_K_M.gguf a-Q8_0.gguf mmproj-BF16.gguf", "a-Q8_0.gguf", "mmproj-BF16.gguf"},
		{"a-Q4_K_M.gguf b-Q4_K_M.gguf mmproj-F16.gguf", "a-Q4_K_M.gguf", ""},
		{"a-Q4_K_M.gguf b-Q4_K_M.gguf mmproj-a-f16.gguf mmproj-b-q8_0.gguf", "a-Q4_K_M.gguf", "mmproj-a-f16.gguf"},
		{"a-Q4_K_M.gguf b-Q4_K_M.gguf A-mmproj-F32.gguf", "a-Q4_K_M.gguf", "A-mmproj-F32.gguf"},
		{"a-Q4_K_M.gguf b-Q4_K_M.gguf a.mmproj.gguf", "a-Q4_K_M.gguf", "a.mmproj.gguf"},
		{"a-Q8_0-00001-of-00002.gguf a-Q8_0-00002-of-00002.gguf mmproj-model-f16.gguf", "a-Q8_0-00001-of-00002.gguf", "mmproj-model-f16.gguf"},
		{"a.gguf .mmproj-F16.gguf mmproj-F16.txt", "a.gguf", ""},
		{"mmproj-F16.gguf", "mmproj-F16.gguf", ""},
		{"mmproj-F16.gguf", "demo", ""}, // no file
		{"", "a.gguf", ""},
	} {
		dir := t.TempDir()
		for name := range strings.FieldsSeq(c.files) {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := ProjectorBeside(filepath.Join(dir, c.model))
		if got != "" {
			got = filepath.Base(got)
		}
		if got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.model, c.files, got, c.want)
		}
	}
	if got := ProjectorBeside(filepath.Join(t.TempDir(), "gone", "a.gguf")); got != "" {
		t.Errorf("%q in a folder that is not there", got)
	}
}

// What files say of themselves as projectors.
func TestProjector(t *testing.T) {
	for name, want := range map[string]string{
		"mmproj/mm/gemma3-f16.gguf":  "a projector of pictures (gemma3) for models that are 64 wide",
		"mmproj/mm/qwen2a-f16.gguf":  "a projector of sounds (qwen2a) for models that are 64 wide",
		"mmproj/mm/gemma4u-f16.gguf": "a projector of pictures (gemma4uv) and sounds (gemma4ua) for models that are 64 wide",
	} {
		b, err := os.ReadFile(testdata.Path(t, name))
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := f.Projector(); err != nil || fmt.Sprint(p) != want {
			t.Errorf("%s: %v, %v; want %s", name, p, err, want)
		}
	}
	for _, c := range []struct {
		keys map[string]any
		want string
	}{
		{map[string]any{}, "general.architecture"},
		{map[string]any{"general.architecture": "llama"}, `"llama"`},
		{map[string]any{"general.architecture": "clip"}, "no encoder"},
		{map[string]any{"general.architecture": "clip", "clip.has_vision_encoder": true}, "clip.vision.projector_type"},
		{map[string]any{"general.architecture": "clip", "clip.has_vision_encoder": true, "clip.projector_type": "x"},
			"clip.vision.projection_dim"},
		{map[string]any{"general.architecture": "clip", "clip.has_vision_encoder": true, "clip.has_audio_encoder": true,
			"clip.projector_type": "x", "clip.vision.projection_dim": uint32(8), "clip.audio.projection_dim": uint32(9)}, "8"},
	} {
		w := NewWriter()
		for key, value := range c.keys {
			w.Set(key, value)
		}
		f, err := w.Outline()
		if err != nil {
			t.Fatal(err)
		}
		if p, err := f.Projector(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, %v; want %s", c.keys, p, err, c.want)
		}
	}
}

// The first scripts of llama.cpp wrote no width of rows, or another number: tensors have it.
func TestWidthsOfOldProjectors(t *testing.T) {
	for kind, tensor := range map[string]struct {
		name string
		dims []uint64
	}{
		"mlp": {"mm.2.weight", []uint64{64, 24}}, "ldpv2": {"mm.model.mlp.2.weight", []uint64{64, 24}},
		"adapter": {"adapter.boi", []uint64{24}}, "resampler": {"resampler.proj.weight", []uint64{24, 64}},
	} {
		for _, key := range []uint32{0, 768} {
			w := NewWriter()
			w.Set("general.architecture", "clip")
			w.Set("clip.has_vision_encoder", true)
			w.Set("clip.projector_type", kind)
			w.Set("clip.vision.projection_dim", key)
			w.AddTensor(tensor.name, F32, tensor.dims, nil)
			f, err := w.Outline()
			if err != nil {
				t.Fatal(err)
			}
			if p, err := f.Projector(); err != nil || p.Width != 24 {
				t.Errorf("%s with %d: %v, %v; want 24", kind, key, p, err)
			}
		}
	}
}
