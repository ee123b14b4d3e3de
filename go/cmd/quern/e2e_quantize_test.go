package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A quantized file runs and says what llama.cpp's says; flags choose types; a dry run writes nothing; what cannot be done is
// refused in a line, and leaves nothing.
func TestQuantize(t *testing.T) {
	t.Parallel()
	in, dir := modelPath(t, "TinyStories-656K-x2-f16.gguf"), t.TempDir()
	out := filepath.Join(dir, "q8.gguf")
	if said := succeed(t, "quantize", in, out, "q8_0", "2"); !strings.Contains(said, "F16 -> Q8_0") {
		t.Errorf("got %q", said)
	}
	say := func(path string) string {
		return succeed(t, "run", "-m", path, "-p", "Once upon a time", "-n", "16", "--temp", "0")
	}
	if got, want := say(out), say(modelPath(t, "quant/TinyStories-656K-x2-Q8_0.gguf")); got != want { // made by llama.cpp
		t.Errorf("got %q, want %q", got, want)
	}
	said := succeed(t, "quantize", "--dry-run", "--tensor-type", `blk\.0.*attn_v=Q6_K`, "--tensor-type", "ffn_down=IQ4_NL",
		"--token-embedding-type", "F16", "--output-tensor-type", "q5_1", "--leave-output-tensor", in, "Q4_K_S")
	for _, want := range []string{"blk.0.attn_v.weight", "-> Q6_K", "-> IQ4_NL", "-> Q4_K\n", "token_embd.weight"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	if r := quern(t, "quantize", "--dry-run", "--tensor-type", "ffn_dwon=Q8_0", in, "Q4_0"); r.code != 0 || !strings.Contains(r.stderr, `no tensor's name matches "ffn_dwon"`) {
		t.Errorf("a pattern of no tensor: %d, %q", r.code, r.stderr)
	}
	narrow := modelPath(t, "stories260K-f16.gguf")
	if said := succeed(t, "quantize", "--dry-run", narrow, "Q4_K_M"); !strings.Contains(said, "do not fit Q4_K") {
		t.Errorf("got %q", said)
	}
	set := filepath.Join(dir, "set.gguf")
	succeed(t, "quantize", "--override-kv", "general.name=str:another", "--override-kv", "x.n=int:7", in, set, "COPY")
	if said := succeed(t, "inspect", set); !strings.Contains(said, "another") || !strings.Contains(said, "x.n") {
		t.Errorf("got %q", said)
	}
	no := filepath.Join(dir, "no.gguf")
	quern(t, "quantize", in, out, "Q8_0").refused(t, 1, out, "--force")
	quern(t, "quantize", in, no, "Q9").refused(t, 2, "unknown quantization", "Q4_K_M")
	quern(t, "quantize", in, "Q9").refused(t, 2, "unknown quantization")
	quern(t, "quantize", in, no, "Q4_0", "many").refused(t, 2, "threads")
	quern(t, "quantize", in, no, "IQ2_XXS").refused(t, 1, "importance matrix")
	quern(t, "quantize", out, no, "Q4_0").refused(t, 1, "--allow-requantize")
	quern(t, "quantize", "--imatrix", in, in, no, "Q4_0").refused(t, 1, "no importance matrix")
	quern(t, "quantize", "--tensor-type", "attn_v", in, no, "Q4_0").refused(t, 2, "PATTERN=TYPE")
	quern(t, "quantize", "--tensor-type", "a=IQ4_KS", in, no, "Q4_0").refused(t, 2, "no encoder")
	quern(t, "quantize", "--override-kv", "a=b", in, no, "Q4_0").refused(t, 2, "KEY=TYPE:VALUE")
	quern(t, "quantize", "--force", in, in, "Q4_0").refused(t, 1, "another name")
	succeed(t, "quantize", "--allow-requantize", out, no, "Q4_0")
	if names, err := os.ReadDir(dir); err != nil || len(names) != 3 {
		t.Errorf("left %v, %v", names, err)
	}
}
