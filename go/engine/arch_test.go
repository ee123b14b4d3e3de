package engine

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/draft"
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
		"deepseek2", "deepseek2-lite", "deepseek2-mha", "mistral4", "kimi-linear", "deepseek32", "deepseek4", "glm-dsa",
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
			freely(l)
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
			// With drafts, of which some are right, all, or none.
			text := slices.Concat(w.IDs, w.Greedy)
			wrong := append(slices.Clone(w.IDs), randomIDs(l.e, 1, len(w.Greedy))...)
			sinks = sinks[:0]
			for i, record := range []draft.Recording{{Text: text, Right: 0.6}, {Text: text, Right: 1}, {Text: wrong, Right: 0.9}} {
				r := greedyRequest(w.IDs, len(w.Greedy))
				r.Draft, r.NoCache = draft.Options{Max: 5 + i, Record: &record, Sources: draft.All}, i == 0
				_, s := submit(t, l, r)
				sinks = append(sinks, s)
			}
			for _, s := range sinks {
				s.wait(t)
				check("with drafts", s.ids)
			}
			if guessed, _ := l.Status().Counts.Drafted.Total(); guessed == 0 {
				t.Error("no draft was verified")
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
