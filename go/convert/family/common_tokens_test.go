package family

import (
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

// TestEndsOfTurns finds the tokens that end texts and turns in vocabularies whose files do not name them.
func TestEndsOfTurns(t *testing.T) {
	for _, c := range []struct {
		arch, model string
		tokens      []string
		want        map[string]int
	}{
		{"rwkv7", "rwkv", []string{"<s>", "a", `\n\n`}, map[string]int{"bos": 0, "eos": 0, "eot": 2}},
		{"rwkv7", "gpt2", []string{"<s>", "a", `\n\n`}, map[string]int{"bos": -1, "eos": -1, "eot": -1}},
		{"plamo2", "plamo2", []string{"<|plamo:unk|>", "<|plamo:op|>"}, map[string]int{"eot": 1, "bos": -1}},
		{"laguna", "gpt2", []string{"a", "</assistant>"}, map[string]int{"eot": 1}},
		{"glm4", "gpt2", []string{"a", "<|endoftext|>", "<|user|>"}, map[string]int{"bos": 1, "eos": 1, "eot": 2, "unk": 1}},
	} {
		f := families[slices.IndexFunc(families, func(f lang.Family) bool { return f.Arch == c.arch })]
		v := &vocab.Vocabulary{Model: c.model, Tokens: c.tokens, Types: make([]int32, len(c.tokens))}
		f.Vocab(new(hf.Config), v)
		for name, id := range c.want {
			if got := v.Special(name); got != id {
				t.Errorf("%s of %s: %s is %d, want %d", c.arch, c.model, name, got, id)
			}
		}
	}
}
