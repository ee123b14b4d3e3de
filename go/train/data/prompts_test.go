package data_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/train/data"
)

// Prompts of conversations are what comes before answers that are learnt, with the answers before, and the whole if it waits for
// one; those of texts are their prompts, or all of them.
func TestPrompts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prompts.jsonl")
	in := `{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two","weight":0},{"role":"user","content":"three"},{"role":"assistant","content":"four"},{"role":"user","content":"five"}]}
{"messages":[{"role":"user","content":"six"}]}
`
	if err := os.WriteFile(path, []byte(in), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := data.Read([]string{path}, data.Auto); err == nil || !strings.Contains(err.Error(), "prompts.jsonl:2: messages: no message of the assistant") {
		t.Errorf("to be learnt: %v", err)
	}
	set, err := data.ReadPrompts([]string{path}, data.Auto)
	if err != nil {
		t.Fatal(err)
	}
	r := renderer(t, "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")
	prompts, err := r.Prompts(append(set.Examples, data.Example{Prompt: "seven", Text: "eight"}, data.Example{Text: "nine"}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ids := range prompts {
		var text []byte
		for _, id := range ids {
			text = append(text, r.Tokenizer.Piece(id, true)...)
		}
		got = append(got, string(text))
	}
	const one = "<|begin|><|user|>one<|end|><|assistant|>two<|end|><|user|>three<|end|><|assistant|>"
	want := []string{one, one + "four<|end|><|user|>five<|end|><|assistant|>", "<|begin|><|user|>six<|end|><|assistant|>", "<|begin|>seven", "<|begin|>nine"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	texts, c := data.Answered([][]int32{{1, 2}, {3}}, [][]int32{{4, 5}, {}})
	if len(texts) != 1 || len(texts[0].Tokens) != 4 || texts[0].Weights[1] != 0 || texts[0].Weights[2] != 1 || c.Examples != 2 || c.Learnt != 2 || c.Empty != 1 {
		t.Errorf("%+v, %+v", texts, c)
	}
}

// Tokens that a server kept are wanted whole, and fields of their names that are of something else are nothing.
func TestKeptTokens(t *testing.T) {
	const text = `{"prompt":"a","completion":"b"`
	for more, want := range map[string]string{
		`,"model":1,"prompt_ids":"x","completion_ids":[[1]]}`:                            "",
		`,"vocabulary":"v","model":"m","prompt_ids":[1],"completion_ids":[2]}`:           "",
		`,"vocabulary":"v","prompt_ids":[1],"completion_ids":[2]}`:                       "model: missing",
		`,"vocabulary":"v","model":"m","prompt_ids":[],"completion_ids":[2]}`:            "empty",
		`,"vocabulary":"v","model":"m","prompt_ids":[1],"completion_ids":[2,"x"]}`:       "completion_ids: 1:",
		`,"vocabulary":"v","model":"m","prompt_ids":[99999999999],"completion_ids":[2]}`: "prompt_ids: 0:",
		`,"vocabulary":["v"],"model":"m","prompt_ids":[1],"completion_ids":[2]}`:         "vocabulary: ",
	} {
		set, err := data.ReadFrom(strings.NewReader(text+more), "kept.jsonl", data.Auto)
		switch {
		case want == "" && (err != nil || set.Examples[0].Text != "b" || (set.Examples[0].Kept != nil) != strings.Contains(more, "vocabulary")):
			t.Errorf("%s: %+v, %v", more, set, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), "kept.jsonl:1: ") || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %q", more, err, want)
		}
	}
}
