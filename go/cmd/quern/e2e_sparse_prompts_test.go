package main

import (
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/demo"
)

// "quern compare" shows what prompts lose that read some of their keys, and that they lose nothing where they read all.
func TestSparsePromptsCompared(t *testing.T) {
	t.Parallel()
	var got comparison
	out := succeed(t, "compare", demo.Name, "demo --sparse-prompts 1:0", "demo --sparse-prompts 0.95:0", "demo --sparse-prompts 0.5:0",
		"-f", heldOut, "-c", "1024", "--chunks", "1", "--json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Models) != 4 {
		t.Fatalf("%v: %s", err, out)
	}
	var loss []float64
	for _, m := range got.Models[1:] {
		loss = append(loss, m.Divergence.KLD.Value)
	}
	if !(loss[0] == 0 && loss[1] > 0 && loss[2] > loss[1]) {
		t.Errorf("all keys, 95 and 50 %% of the weight lose %v", loss)
	}
	quern(t, "run", "-m", "demo", "-p", "a", "--sparse-prompts", "2").refused(t, 2, "--sparse-prompts", `"2"`, "0.95")
	quern(t, "run", "-m", "demo", "-p", "a", "--sparse-prompts", "0.9", "--kv-tiers", "64:i16,*:q8_0").refused(t, 1, "--sparse-prompts", "--kv-tiers")
}

// The bits are others than those of all keys.
func TestSparsePromptsOnAllSets(t *testing.T) {
	t.Parallel()
	sameOnAllSets(t, "512", "96", "--sparse-prompts", "0.8:64")
}

// Requests of a server get the answers that they get alone, from a server that has seen nothing: with company, with cached
// prefixes of any length, and as turns of a conversation.
func TestSparsePromptsServed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(heldOut)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--sparse-prompts", "0.5:64", "-np", "3"}
	answer := func(s *service, prompt string) (string, float64) {
		body, _ := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": 70, "temperature": 0, "ignore_eos": true})
		status, got := s.post("/v1/completions", string(body))
		if status != 200 {
			t.Errorf("%d %v", status, got)
			return "", 0
		}
		usage := got["usage"].(map[string]any)
		cached := usage["prompt_tokens_details"].(map[string]any)["cached_tokens"].(float64)
		return got["choices"].([]any)[0].(map[string]any)["text"].(string), cached
	}
	var prompts []string
	for _, n := range []int{1500, 1507, 200} {
		prompts = append(prompts, string(text[:n]), string(text[3000:3000+n]))
	}
	s := serve(t, "demo", args...)
	got := make([]string, len(prompts))
	found := 0.0
	for range 2 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i, p := range prompts {
			wg.Go(func() {
				text, cached := answer(s, p)
				mu.Lock()
				defer mu.Unlock()
				found += cached
				if got[i] != "" && got[i] != text {
					t.Errorf("prompt %d: %q, then %q", i, got[i], text)
				}
				got[i] = text
			})
		}
		wg.Wait()
	}
	if found == 0 {
		t.Error("no token was found in the cache: the test does not test that")
	}
	for i, p := range prompts {
		if i%2 == 1 {
			continue
		}
		turn := p + got[i] + " And then"
		after, _ := answer(s, turn)
		alone := serve(t, "demo", args...)
		if first, cached := answer(alone, turn); first != after || cached != 0 {
			t.Errorf("prompt %d and its answer: %q, alone %q", i, after, first)
		}
		if first, _ := answer(alone, p); first != got[i] {
			t.Errorf("prompt %d: %q, alone %q", i, got[i], first)
		}
	}
}
