package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/verify"
)

// With activations of 16 bits a model predicts what its weights as floats do: the same weights, in a file of F32.
func TestActivations(t *testing.T) {
	t.Parallel()
	exact := filepath.Join(t.TempDir(), "f32.gguf")
	succeed(t, "quantize", "--allow-requantize", demo.Name, exact, "F32")
	var got comparison
	out := succeed(t, "compare", exact, demo.Name, "demo --activations 16", "-ctk", "f32", "-ctv", "f32",
		"-f", heldOut, "-c", "128", "--chunks", "2", "--json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Models) != 3 {
		t.Fatalf("%v: %s", err, out)
	}
	coarse, fine := got.Models[1].Divergence.KLD.Value, got.Models[2].Divergence.KLD.Value
	if !(coarse > 1e-5 && fine < coarse/1000) {
		t.Errorf("a divergence of %g with 16 bits, %g with 8", fine, coarse)
	}
}

// The bits are the same on all sets and with any number of threads, and others than those of 8 bits.
func TestVerifyActivations(t *testing.T) {
	t.Parallel()
	args := []string{"verify", "-m", "demo", "-n", "8", "-p", "Once upon a time"}
	eight := succeed(t, args...)
	args = append(args, "--activations", "16")
	best := succeed(t, append(args, "-t", "2")...)
	var row, other struct{ Logits string }
	if json.Unmarshal([]byte(best), &row) != nil || json.Unmarshal([]byte(eight), &other) != nil || row == other {
		t.Errorf("16 bits: %s, 8 bits: %s", best, eight)
	}
	for _, isa := range []string{"scalar", "avx2"} {
		if r := (invocation{args: append(args, "-t", "1"), env: []string{"QUERN_ISA=" + isa}}).run(t); r.code != 0 || r.stdout != best {
			t.Errorf("%s: %s %s, want %s", isa, r.stdout, r.stderr, best)
		}
	}
	quern(t, "run", "-m", "demo", "-p", "a", "--activations", "12").refused(t, 2, "--activations", `"12"`)
}

// Answers name activations that are not the default, and so do slots that were saved: others do not take them.
func TestActivationsInFingerprints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	prompt := `{"prompt":"Once upon a time there was a dog","max_tokens":4,"temperature":0,"id_slot":0}`
	fine := serve(t, "demo", "--activations", "16", "--slot-save-path", dir)
	status, answer := fine.post("/v1/completions", prompt)
	if print, _ := answer["system_fingerprint"].(string); status != 200 || !strings.HasPrefix(print, verify.Profile()+"-") || !strings.HasSuffix(print, "-a16") {
		t.Errorf("%d %v", status, answer)
	}
	if status, answer := fine.post("/slots/0?action=save", `{"filename":"a.bin"}`); status != 200 {
		t.Fatalf("%d %v", status, answer)
	}
	if status, answer := fine.post("/slots/0?action=restore", `{"filename":"a.bin"}`); status != 200 {
		t.Errorf("its own: %d %v", status, answer)
	}
	coarse := serve(t, "demo", "--slot-save-path", dir)
	if status, answer := coarse.post("/slots/0?action=restore", `{"filename":"a.bin"}`); status == 200 {
		t.Errorf("with other activations: %d %v", status, answer)
	}
}
