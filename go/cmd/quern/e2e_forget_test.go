package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// A server goes on where a conversation was, also with a model of windows or of
// recurrent state, and from a slot's file.
func TestServeForgetfulModels(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gemma3", "gemma4", "lfm2", "qwen35moe", "granitehybrid", "mamba2"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := serve(t, "", "-m", testdata.Path(t, "archs/"+name+".gguf"), "-np", "2", "--slot-save-path", dir)
			complete := func(ids []string, more string) (answer []string, cached float64) {
				t.Helper()
				status, r := s.post("/completion", fmt.Sprintf(`{"prompt":[%s],"n_predict":30,"temperature":0,"ignore_eos":true,"return_tokens":true,"id_slot":0%s}`, strings.Join(ids, ","), more))
				if status != 200 {
					t.Fatalf("%d: %v", status, r)
				}
				for _, id := range r["tokens"].([]any) {
					answer = append(answer, fmt.Sprint(id))
				}
				return answer, r["timings"].(map[string]any)["cache_n"].(float64)
			}
			var prompt []string
			for i := range 200 {
				prompt = append(prompt, fmt.Sprint(10+i*i%300))
			}
			answer, cached := complete(prompt, "")
			if len(answer) != 30 || cached != 0 {
				t.Fatalf("%d tokens, %v cached", len(answer), cached)
			}
			if status, r := s.post("/slots/0?action=save", `{"filename":"a.bin"}`); status != 200 || r["n_saved"] != 229.0 {
				t.Errorf("save: %d %v", status, r)
			}
			next := append(append(append([]string{}, prompt...), answer...), "20", "21", "22")
			first, cached := complete(next, "")
			if cached != 229 {
				t.Errorf("%v tokens of the next turn were cached, want 229", cached)
			}
			if fresh, n := complete(next, `,"cache_prompt":false`); n != 0 || fmt.Sprint(fresh) != fmt.Sprint(first) {
				t.Errorf("going on %v, anew %v with %v cached", first, fresh, n)
			}
			if status, r := s.post("/slots/0?action=erase", ""); status != 200 {
				t.Errorf("erase: %d %v", status, r)
			}
			if status, r := s.post("/slots/1?action=restore", `{"filename":"a.bin"}`); status != 200 || r["n_restored"] != 229.0 {
				t.Errorf("restore: %d %v", status, r)
			}
			if again, n := complete(next, ""); n < 229 || fmt.Sprint(again) != fmt.Sprint(first) {
				t.Errorf("from the file %v with %v cached, before %v", again, n, first)
			}
		})
	}
}
