package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
)

// Keys and values in tiers by age give one text: in passes of any length, by a server, with what the cache has.
func TestTiers(t *testing.T) {
	prompt := strings.Repeat("Once upon a time there was a little dog. ", 12)
	args := []string{"run", "-m", demo.Name, "-p", prompt, "--temp", "0", "-n", "60", "--ignore-eos", "-c", "400", "--kv-tiers", "64:i16,128:q8_0,*:q4_0"}
	want := succeed(t, args...)
	if got := succeed(t, append(args, "-b", "7", "-t", "1")...); got != want {
		t.Errorf("in short passes %q, want %q", got, want)
	}
	s := serve(t, "", "-m", demo.Name, "-c", "400", "--kv-tiers", "64:i16,128:q8_0,*:q4_0")
	for i := range 2 {
		status, r := s.post("/completion", fmt.Sprintf(`{"prompt":%q,"n_predict":60,"temperature":0,"ignore_eos":true}`, prompt))
		if cached := r["timings"].(map[string]any)["cache_n"].(float64); status != 200 || r["content"] != want || cached == 0 != (i == 0) {
			t.Errorf("%d: %v tokens cached: %q, want %q", status, cached, r["content"], want)
		}
	}
	quern(t, "run", "-m", demo.Name, "-p", "a", "--kv-tiers", "100:i16,*:q8_0").refused(t, 2, "multiple of 64")
	quern(t, "run", "-m", demo.Name, "-p", "a", "--kv-tiers", "64:i16,*:q8_0", "-ctk", "f16").refused(t, 2, "give one")
	quern(t, "run", "-m", demo.Name, "-p", "a", "--kv-tiers", "64:i16,*:q8_0", "--context-shift").refused(t, 1, "leave out")
}
