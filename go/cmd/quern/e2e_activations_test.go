package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/kernel"
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

// sameOnAllSets asserts that the demo's logits with some flags are the same on all sets, with any number of threads and in
// passes of any size, here up to `batch`, and others than without. Chunks have ctx tokens.
func sameOnAllSets(t *testing.T, ctx, batch string, flags ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "logits")
	logits := func(isa string, args ...string) []byte {
		t.Helper()
		args = append([]string{"perplexity", "-m", "demo", "-f", heldOut, "-c", ctx, "--chunks", "1", "--save-all-logits", file, "--force"}, args...)
		if r := (invocation{args: args, env: []string{"QUERN_ISA=" + isa}}).run(t); r.code != 0 {
			t.Fatalf("%s: %s", isa, r.stderr)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := logits("", append([]string{"-t", "2"}, flags...)...)
	if slices.Equal(want, logits("")) {
		t.Errorf("with %v logits are no others", flags)
	}
	for _, isa := range kernel.Ladder(kernel.Best) {
		names := strings.Fields(isa.String()) // the last implies the others
		if !slices.Equal(want, logits(names[len(names)-1], append([]string{"-t", "1", "-b", batch}, flags...)...)) {
			t.Errorf("%v has other bits", isa)
		}
	}
}

// The bits are others than those of 8 bits.
func TestActivationsOnAllSets(t *testing.T) {
	t.Parallel()
	sameOnAllSets(t, "64", "7", "--activations", "16")
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
