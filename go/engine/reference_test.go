package engine

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
)

// Real models give the text that an independent implementation recorded. Where
// one of its steps was nearly a tie, rounding may decide otherwise: then the
// logits after the prompt are held instead, and the text up to that step.
func TestReferences(t *testing.T) {
	t.Parallel()
	type run struct {
		Prompt    string
		PromptIDs []int32      `json:"prompt_ids"`
		GreedyIDs []int32      `json:"greedy_ids"`
		Top5      [][2]float64 `json:"first_logits_top5"`
		Gap       float64      `json:"min_top2_gap"`
	}
	models, exact := 0, 0
	for _, index := range []string{"reference_numpy.json", "reference_numpy_derived.json"} {
		raw, err := os.ReadFile(testdata.Path(t, "models/"+index))
		if err != nil {
			t.Fatal(err)
		}
		var files map[string][]run
		if err := json.Unmarshal(raw, &files); err != nil {
			t.Fatal(err)
		}
		for file, runs := range files {
			if strings.Contains(file, "+") {
				continue // see TestAdapterReference
			}
			models++
			t.Run(file, func(t *testing.T) {
				e := open(t, testdata.Path(t, "models/"+file), Config{KV: kvcache.Both(kvcache.F32), Device: device(t, 2)})
				for _, r := range runs {
					after := len(r.PromptIDs) - 1
					first := logits(t, e, r.PromptIDs, []int{after})[after]
					for _, top := range r.Top5 {
						got := float64(first[int(top[0])])
						if math.Abs(got-top[1]) > 1e-3*math.Abs(top[1]) {
							t.Errorf("%q: logit of %v is %v, want %v", r.Prompt, top[0], got, top[1])
						}
					}
					ids := greedy(t, e, r.PromptIDs, len(r.GreedyIDs))
					same := commonPrefix(ids, r.GreedyIDs)
					switch {
					case same == len(r.GreedyIDs):
						exact++
					case r.Gap > 0.02:
						t.Errorf("%q: token %d is %d, want %d", r.Prompt, same, ids[same], r.GreedyIDs[same])
					default:
						// The two best there must be the tie.
						l := logits(t, e, slices.Concat(r.PromptIDs, ids[:same]), []int{after + same})[after+same]
						if gap := math.Abs(float64(l[ids[same]] - l[r.GreedyIDs[same]])); gap > 0.02 {
							t.Errorf("%q: token %d is %d, want %d, whose logit is %g away", r.Prompt, same, ids[same], r.GreedyIDs[same], gap)
						}
					}
				}
			})
		}
	}
	if models < 8 {
		t.Errorf("%d models have references, want 8", models)
	}
	t.Logf("%d models, %d texts exact", models, exact)
}

func commonPrefix(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
