package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/verify"
)

// One set is enough here: a test of the package checks the others.
func TestVerify(t *testing.T) {
	t.Parallel()
	r := invocation{args: []string{"verify"}, env: []string{"QUERN_ISA=scalar"}}.run(t)
	if r.code != 0 || !strings.Contains(r.stdout, verify.Profile()) || !strings.Contains(r.stdout, "scalar ") {
		t.Errorf("code %d, %q and %q", r.code, r.stdout, r.stderr)
	}
}

// The row of a model is the same whatever computes it, and can be asked for.
func TestVerifyModel(t *testing.T) {
	t.Parallel()
	args := []string{"verify", "-m", "demo", "-n", "8", "-p", "Once upon a time"}
	best := succeed(t, args...)
	var row struct{ Profile, Logits string }
	if err := json.Unmarshal([]byte(best), &row); err != nil || row.Profile != verify.Profile() || len(row.Logits) != 64 {
		t.Fatalf("%v: %s", err, best)
	}
	scalar := invocation{args: append(args, "-t", "1"), env: []string{"QUERN_ISA=scalar"}}.run(t)
	if scalar.stdout != best {
		t.Errorf("scalar: %s, want %s", scalar.stdout, best)
	}
	succeed(t, append(args, "--expect", row.Logits)...)
	r := quern(t, append(args, "--expect", "0123")...)
	if r.code != 1 || !strings.Contains(r.stderr, row.Logits) || !strings.Contains(r.stderr, "0123") {
		t.Errorf("--expect of another: code %d, %q", r.code, r.stderr)
	}
	fine := succeed(t, append(args, "--activations", "16")...)
	if !strings.Contains(fine, `"activations":16`) || strings.Contains(fine, row.Logits) {
		t.Errorf("with activations of 16 bits: %s", fine)
	}
	quern(t, "verify", "--activations", "16").refused(t, 2, "--activations", "-m FILE")
	quern(t, "verify", "--expect", "0123").refused(t, 2, "--expect", "-m FILE")
	quern(t, "verify", "-m", "missing.gguf").refused(t, 1, "missing.gguf")
}

// Answers say by which profile they were computed, and with which types of keys and values.
func TestAnswersNameTheProfile(t *testing.T) {
	s := serve(t, "demo", "-ctk", "q8_0", "-ctv", "f16")
	status, answer := s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}`)
	if want := verify.Profile() + "-q8_0/f16"; status != 200 || answer["system_fingerprint"] != want {
		t.Errorf("%d %v, want the fingerprint %s", status, answer, want)
	}
}
