package engine

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
)

// Models with windows, with recurrent states, with experts and with queries that depend on
// their position say in company, and going on from a text that was kept, what another
// implementation says alone.
func TestArchitecturesTogether(t *testing.T) {
	for _, name := range []string{
		"gemma2", "gemma3", "gemma3n", "gemma4", "gemma4-moe", "cohere2", "olmo3", "lfm2", "lfm2moe", "gpt-oss", "llama4", "mistral3", "glm4moe", "bailingmoe2",
		"granitemoe", "minimax-m2", "phi3-long", "apertus", "qwen35", "qwen35moe", "qwen3next",
		"mamba", "mamba2", "rwkv7", "jamba", "falcon-h1", "granitehybrid", "granitehybrid-dense", "nemotron_h", "nemotron_h_moe",
		"bitnet",
		"deepseek2", "deepseek2-lite", "deepseek2-mha", "mistral4", "kimi-linear", "deepseek32", "glm-dsa",
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(testdata.Path(t, "archs/"+name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var w struct{ IDs, Greedy []int32 }
			if err := json.Unmarshal(raw, &w); err != nil {
				t.Fatal(err)
			}
			c := Config{Sequences: 3, Ctx: 256, Batch: 32, KV: kvcache.Both(kvcache.F32)}
			l := openLoop(t, testdata.Path(t, "archs/"+name+".gguf"), c, LoopConfig{})
			check := func(what string, got []int32) {
				t.Helper()
				if !slices.Equal(got, w.Greedy) {
					t.Errorf("%s: %v, want %v", what, got, w.Greedy)
				}
			}
			var sinks []*catcher
			for range 3 {
				_, s := submit(t, l, greedyRequest(w.IDs, len(w.Greedy)))
				sinks = append(sinks, s)
			}
			for _, s := range sinks {
				s.wait(t)
				check("together", s.ids)
			}
			// A second turn: the first text, its answer, and more.
			n := len(w.IDs) + 8
			_, s := submit(t, l, greedyRequest(append(slices.Clone(w.IDs), w.Greedy[:8]...), len(w.Greedy)-8))
			r := s.wait(t)
			check("going on", append(slices.Clone(w.Greedy[:8]), s.ids...))
			if r.CachedTokens < n/2 {
				t.Errorf("%d of %d tokens were in the cache", r.CachedTokens, n)
			}
		})
	}
}
