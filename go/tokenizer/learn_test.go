package tokenizer

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// A vocabulary that is learnt takes the most frequent pairs first, of equals the first by spelling, and is one that a file
// has: the same texts come back from it, in fewer tokens than bytes.
func TestLearnBPE(t *testing.T) {
	text := strings.Repeat("low low low low low lower lower newest newest newest newest newest newest widest widest widest", 1)
	v, err := LearnBPE(slices.Values([]string{text}), 258+8, "gpt-2", []string{"<|a|>", "<|b|>"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"e s", "es t", "l o", "lo w", "e w", "ew est", "n ewest", "Ġ low"}
	if !slices.Equal(v.Merges, want) {
		t.Errorf("merges %q, want %q", v.Merges, want)
	}
	if len(v.Tokens) != 266 || v.Tokens[0] != "<|a|>" || v.Tokens[265] != "Ġlow" {
		t.Errorf("%d tokens: %q", len(v.Tokens), v.Tokens)
	}
	w := gguf.NewWriter()
	kinds := make([]int32, len(v.Tokens))
	for i := range kinds {
		kinds[i] = 1
	}
	kinds[0], kinds[1] = 3, 3
	for _, kv := range []gguf.KV{{Key: "tokenizer.ggml.model", Value: "gpt2"}, {Key: "tokenizer.ggml.pre", Value: v.Pre},
		{Key: "tokenizer.ggml.tokens", Value: v.Tokens}, {Key: "tokenizer.ggml.merges", Value: v.Merges},
		{Key: "tokenizer.ggml.token_type", Value: kinds}, {Key: "tokenizer.ggml.eos_token_id", Value: uint32(1)}} {
		w.Set(kv.Key, kv.Value)
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{text, "no merge: 日本 \x00\xff", "<|a|> is text"} {
		ids := tok.EncodePart(s)
		if got := tok.Detokenize(ids, false); got != s {
			t.Errorf("%q came back as %q", s, got)
		}
		if s == text && len(ids) >= len(s)/2 {
			t.Errorf("%d tokens of %d bytes", len(ids), len(s))
		}
	}
}

func TestLearnBPERefusals(t *testing.T) {
	for _, x := range []struct {
		size int
		pre  string
	}{{256, "gpt-2"}, {1 << 30, "gpt-2"}, {300, "none"}, {300, "qwen2"}, {-1, "gpt-2"}} {
		if _, err := LearnBPE(slices.Values([]string{"a"}), x.size, x.pre, []string{"<|a|>"}); err == nil {
			t.Errorf("%+v was taken", x)
		}
	}
	v, err := LearnBPE(slices.Values([]string{"aa"}), 1000, "gpt-2", nil)
	if err != nil || len(v.Tokens) != 257 {
		t.Errorf("%d tokens of a text that has one pair: %v", len(v.Tokens), err)
	}
}
