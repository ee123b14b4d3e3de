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
