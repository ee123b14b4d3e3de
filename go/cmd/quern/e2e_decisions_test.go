package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// The chances of choices are those of a reference in NumPy, from the characters of prompt and choices on.
func TestDecisionsMatchReference(t *testing.T) {
	raw, err := os.ReadFile(modelPath(t, "reference_numpy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var models map[string][]struct {
		Prompt string
		Top    [][2]float64 `json:"first_logits_top5"` // ids and logits
	}
	if err := json.Unmarshal(raw, &models); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stories260K-f32.gguf", "TinyStories-656K-f32.gguf"} {
		s := serve(t, name, "-ctk", "f32", "-ctv", "f32")
		ref := models[name][0]
		tokens := func(text string) []any {
			_, a := s.post("/tokenize", fmt.Sprintf(`{"content":%q,"add_special":true}`, text))
			return a["tokens"].([]any)
		}
		before := len(tokens(ref.Prompt))
		var choices []string
		var logits []float64
		for _, top := range ref.Top {
			_, a := s.post("/detokenize", fmt.Sprintf(`{"tokens":[%g]}`, top[0]))
			piece := a["content"].(string)
			if ids := tokens(ref.Prompt + piece); len(ids) == before+1 && ids[before] == top[0] { // else the texts have other tokens
				choices, logits = append(choices, piece), append(logits, top[1])
			}
		}
		if len(choices) < 2 {
			t.Fatalf("%s: only %q of the likeliest are choices", name, choices)
		}
		body, _ := json.Marshal(map[string]any{"prompt": ref.Prompt, "choices": choices})
		status, a := s.post("/v1/decisions", string(body))
		if status != 200 {
			t.Fatalf("%s: %d %v", name, status, a)
		}
		sum := 0.0
		for _, l := range logits {
			sum += math.Exp(l)
		}
		for i, c := range a["decisions"].([]any)[0].(map[string]any)["choices"].([]any) {
			if got, want := c.(map[string]any)["probability"].(float64), math.Exp(logits[i])/sum; math.Abs(got-want) > 1e-4 {
				t.Errorf("%s: %q has the probability %g, want %g", name, choices[i], got, want)
			}
		}
	}
}
