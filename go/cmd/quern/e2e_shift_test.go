package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// A text goes on where the context is full, the same in a run, by a server and among others, and ends there where it
// is not told to.
func TestContextShift(t *testing.T) {
	t.Parallel()
	const prompt = "Once upon a time"
	args := []string{"run", "-m", demo.Name, "-p", prompt, "--temp", "0", "-n", "120", "--ignore-eos", "-c", "48"}
	short := quern(t, args...).stdout
	long := succeed(t, append(args, "--context-shift", "--keep", "3")...)
	if !strings.HasPrefix(long, short) || len(long) < 2*len(short) {
		t.Fatalf("%q, without a shift %q", long, short)
	}
	if all := succeed(t, append(args, "--context-shift", "--keep", "-1")...); all == long || !strings.HasPrefix(all, short) {
		t.Error("what is kept makes no difference")
	}
	s := serve(t, "", "-m", demo.Name, "-c", "48", "--context-shift", "--keep", "3", "-np", "2")
	ask := func(more string) map[string]any {
		status, r := s.post("/completion", fmt.Sprintf(`{"prompt":%q,"n_predict":120,"temperature":0,"ignore_eos":true%s}`, prompt, more))
		if status != 200 {
			t.Fatalf("%d: %v", status, r)
		}
		return r
	}
	other := make(chan map[string]any)
	go func() { other <- ask(`,"seed":1`) }()
	for _, r := range []map[string]any{ask(""), <-other, ask("")} { // the last finds the prompt in the cache
		if r["content"] != long || r["truncated"] != true || r["tokens_predicted"] != 120.0 || r["stop_type"] != "limit" {
			t.Errorf("%v truncated, %v tokens: %q, want %q", r["truncated"], r["tokens_predicted"], r["content"], long)
		}
	}
	if r := ask(`,"n_keep":20`); r["content"] == long || r["truncated"] != true {
		t.Error("n_keep makes no difference")
	}
	if r := ask(`,"n_discard":5`); r["content"] == long {
		t.Error("n_discard makes no difference")
	}
	if status, r := s.post("/completion", fmt.Sprintf(`{"prompt":%q}`, strings.Repeat(prompt, 20))); status != 400 {
		t.Errorf("a prompt that is too long: %d %v", status, r)
	}
	quern(t, "run", "-m", testdata.Path(t, "archs/mamba.gguf"), "-p", "a", "--context-shift").refused(t, 1, "recurrent state")
	quern(t, "serve", "-m", testdata.Path(t, "archs/mamba.gguf"), "--chat-template", "chatml", "--context-shift").refused(t, 1, "recurrent state")
}
