package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Types are chosen for a size, of tensors that count alike or as a text says; what contradicts that is refused.
func TestQuantizeTarget(t *testing.T) {
	t.Parallel()
	in, dir := modelPath(t, "stories260K-f16.gguf"), t.TempDir()
	out, text := filepath.Join(dir, "out.gguf"), filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("Once upon a time there was a little dog. ", 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	said := succeed(t, "quantize", "--dry-run", "--target-bpw", "7.5", "--tensor-type", "attn_v=Q5_1", in)
	m := regexp.MustCompile(`\((\d+\.\d+)\)`).FindStringSubmatch(said)
	if m == nil || strings.Count(said, "-> Q5_1") < 5 {
		t.Fatalf("got %q", said)
	}
	if bpw, err := strconv.ParseFloat(m[1], 64); err != nil || bpw > 7.5 || bpw < 7.3 {
		t.Errorf("%s bits per weight, want 7.5", m[1])
	}
	succeed(t, "quantize", "--target-size", "250k", "-f", text, "-c", "16", "--chunks", "1", in, out, "auto", "2")
	if info, err := os.Stat(out); err != nil || info.Size() > 250e3 || info.Size() < 245e3 {
		t.Errorf("%v, %v, want a file of 250000 bytes", info, err)
	}
	succeed(t, "run", "-m", out, "-p", "Once", "-n", "4", "--temp", "0")
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("left %v, %v", names, err)
	}
	no := filepath.Join(dir, "no.gguf")
	quern(t, "quantize", "--target-bpw", "1", in, no).refused(t, 1, "too small", "--imatrix")
	quern(t, "quantize", "--target-bpw", "20", in, no).refused(t, 1, "too large", "bits per weight")
	quern(t, "quantize", "--target-size", "1k", in, no).refused(t, 1, "too small", "bytes")
	quern(t, "quantize", "--target-size", "1G", in, no).refused(t, 1, "too large", "bytes")
	quern(t, "quantize", "--target-size", "1M", "--target-bpw", "4", in, no).refused(t, 2, "together")
	quern(t, "quantize", "--target-bpw", "6", in, no, "Q4_K_M").refused(t, 2, "Q4_K_M", "together")
	quern(t, "quantize", "--target-bpw", "6", "--pure", in, no).refused(t, 2, "--pure")
	quern(t, "quantize", "--target-bpw", "nan", in, no).refused(t, 2, "target-bpw")
	quern(t, "quantize", "-f", text, in, no, "Q4_0").refused(t, 2, "--file", "--target-bpw")
	quern(t, "quantize", "--target-size", "250k", "-f", text, in, no).refused(t, 1, "--file", "longer text")
	quern(t, "quantize", in).refused(t, 2, "no type")
	quern(t, "quantize", "--trellis", in, no, "Q4_0").refused(t, 2, "--trellis", "--target-bpw")
}
