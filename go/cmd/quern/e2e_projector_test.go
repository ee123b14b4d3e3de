package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// hearing writes a checkpoint whose encoders have no layers, and returns its folder.
func hearing(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hearing")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("config.json", []byte(`{"architectures": ["Gemma4UnifiedForConditionalGeneration"], "text_config": {"hidden_size": 64},
		"vision_config": {"patch_size": 2, "pooling_kernel_size": 2, "mm_embed_dim": 64}, "audio_config": {"audio_embed_dim": 64}}`))
	put("preprocessor_config.json", []byte(`{"image_mean": [0, 0, 0], "image_std": [1, 1, 1]}`))
	header, size := map[string]any{}, 0
	for name, shape := range map[string][]int{
		"model.vision_embedder.patch_dense.weight": {64, 48}, "model.vision_embedder.pos_embedding": {8, 2, 64},
		"model.embed_vision.embedding_projection.weight": {64, 64}, "model.embed_audio.embedding_projection.weight": {64, 64},
		"model.language_model.embed_tokens.weight": {8, 64},
	} {
		n := 4
		for _, d := range shape {
			n *= d
		}
		header[name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{size, size + n}}
		size += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	put("model.safetensors", append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), make([]byte, size)...))
	return dir
}

// The encoders of a checkpoint become a file, which is said to be a projector, is quantized, and goes with a model.
func TestProjectors(t *testing.T) {
	src, dir := hearing(t), t.TempDir()
	out, small := filepath.Join(dir, "mmproj.gguf"), filepath.Join(dir, "mmproj-q8_0.gguf")
	if said := succeed(t, "convert", src, "--mmproj", "--outtype", "f16", "-o", out); !strings.HasPrefix(said, out+": ") {
		t.Errorf("got %q", said)
	}
	if said := succeed(t, "convert", src, "--mmproj", "--dry-run"); !strings.Contains(said, "mm.a.input_projection.weight") || strings.Contains(said, "token_embd") {
		t.Errorf("got %q", said)
	}
	quern(t, "convert", src, "--mmproj", "--outtype", "Q4_K_M").refused(t, 1, "Q4_K_M", "q8_0")
	quern(t, "convert", testdata.Path(t, "models/src/TinyStories-656K"), "--mmproj").refused(t, 1, "LlamaForCausalLM", "no projector", "Gemma3For")
	what := "a projector of pictures (gemma4uv) and sounds (gemma4ua) for models that are 64 wide"
	if said := succeed(t, "inspect", out); !strings.Contains(said, what) || !strings.Contains(said, "--mmproj") {
		t.Errorf("got %q", said)
	}
	var facts struct {
		Projector struct {
			Vision, Audio string
			Width         int
		}
	}
	if err := json.Unmarshal([]byte(succeed(t, "inspect", "--json", out)), &facts); err != nil || facts.Projector.Vision != "gemma4uv" ||
		facts.Projector.Audio != "gemma4ua" || facts.Projector.Width != 64 {
		t.Errorf("%+v, %v", facts, err)
	}
	quern(t, "quantize", out, small, "Q8_0")
	types := tensorsOf(t, small)
	for _, name := range []string{"mm.input_projection.weight Q8_0", "mm.a.input_projection.weight Q8_0", "v.patch_embd.weight F16", "v.position_embd.weight F32"} {
		if _, ok := types[name]; !ok {
			t.Errorf("quantized: no %s", name)
		}
	}
	model := testdata.Path(t, "mmproj/text/qwen2vl-4k.gguf")
	say := []string{"run", "-m", model, "-p", "the", "-n", "8", "--temp", "0"}
	want := succeed(t, say...)
	for _, projector := range []string{small, src} { // whose patches have other sizes than their settings say
		quern(t, append(slices.Clone(say), "--mmproj", projector)...).refused(t, 1, projector, "v.patch_embd.weight")
	}
	eyes := testdata.Path(t, "mmproj/mm/qwen2vl-f16.gguf")
	if r := quern(t, append(slices.Clone(say), "--mmproj", eyes)...); r.code != 0 || r.stdout != want || r.stderr != "" {
		t.Errorf("with a projector: exit code %d, %q, %q; want %q", r.code, r.stdout, r.stderr, want)
	}
	seen := succeed(t, append(slices.Clone(say), "--mmproj", eyes, "--image", testdata.Path(t, "mmproj/media/shapes-640x488.png"))...)
	other := succeed(t, append(slices.Clone(say), "--mmproj", eyes, "--image", testdata.Path(t, "mmproj/media/wide-1500x300.png"))...)
	if seen == "" || seen == want && other == want {
		t.Errorf("with pictures: %q and %q, without %q", seen, other, want)
	}
	picture, tone := testdata.Path(t, "mmproj/media/dot-1x1.png"), testdata.Path(t, "mmproj/media/tone-8k-mono-u8.wav")
	quern(t, append(slices.Clone(say), "--image", picture)...).refused(t, 1, "takes no picture", "--mmproj FILE")
	quern(t, append(slices.Clone(say), "--mmproj", eyes, "--image", tone)...).refused(t, 1, "--image: ", "is a sound")
	quern(t, append(slices.Clone(say), "--mmproj", eyes, "--image", model)...).refused(t, 1, "--image: ", "neither a picture nor a sound")
	quern(t, append(say, "--mmproj", model)...).refused(t, 1, model, "no projector")
	quern(t, append(say, "--mmproj", small, "--no-mmproj")...).refused(t, exitUsage, small, "--no-mmproj")
	quern(t, "run", "-m", "demo", "--mmproj", small, "x").refused(t, 1, small, "64 wide", "demo is")
	quern(t, append(say, "--mmproj", filepath.Join(dir, "none.gguf"))...).refused(t, 1, "none.gguf")
	quern(t, "run", "-m", small, "x").refused(t, 1, "clip")
}

// A pulled model brings its projector along, unless that is not wanted.
func TestPullProjector(t *testing.T) {
	text, err := os.ReadFile(testdata.Path(t, "mmproj/text/qwen2vl-4k.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	eyes, err := os.ReadFile(testdata.Path(t, "mmproj/mm/qwen2vl-f16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	s := newHubSite(t, map[string][]byte{"tiny-F16.gguf": text, "mmproj-F16.gguf": eyes, "mmproj-BF16.gguf": nil})
	run := func(env []string, args ...string) string {
		t.Helper()
		r := invocation{args: args, env: env}.run(t)
		if r.code != 0 {
			t.Fatalf("quern %q: exit code %d, %s", args, r.code, r.stderr)
		}
		return r.stdout
	}
	type shown struct {
		Projector string
		Files     []struct{ Name string }
	}
	show := func(env []string) (c shown) {
		t.Helper()
		if err := json.Unmarshal([]byte(run(env, "show", "--json", "hf.co/org/repo")), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	seeing, blind, drafting := s.environment(t), s.environment(t), s.environment(t)
	run(seeing, "pull", "hf.co/org/repo")
	if c := show(seeing); filepath.Base(c.Projector) != "mmproj-F16.gguf" || len(c.Files) != 2 {
		t.Errorf("%+v", c)
	}
	run(seeing, "run", "-m", "hf.co/org/repo", "-p", "the", "-n", "1")
	run(blind, "run", "-hf", "org/repo", "--no-mmproj", "-p", "the", "-n", "1")
	if c := show(blind); c.Projector != "" || len(c.Files) != 1 {
		t.Errorf("%+v", c)
	}
	run(blind, "pull", "hf.co/org/repo")
	if c := show(blind); c.Projector == "" {
		t.Errorf("pulled again: %+v", c)
	}
	run(drafting, "run", "-m", "demo", "-hfd", "org/repo", "-p", "the", "-n", "1")
	if c := show(drafting); c.Projector != "" {
		t.Errorf("a draft model: %+v", c)
	}
	r := invocation{args: []string{"run", "-m", testdata.Path(t, "mmproj/text/qwen2vl-4k.gguf"), "--mmproj-url",
		s.URL + "/org/repo/resolve/c0ffee/mmproj-F16.gguf", "-p", "the", "-n", "1"}, env: seeing}.run(t)
	if r.code != 0 || !strings.Contains(r.stderr, "mmproj-F16.gguf: downloading") {
		t.Errorf("by URL: exit code %d, %s", r.code, r.stderr)
	}
}
