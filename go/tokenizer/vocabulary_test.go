package tokenizer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// spmFields is a small SentencePiece vocabulary with all bytes: 0 to 2 are
// <unk>, <s> and </s>, bytes begin at 3, texts at 259.
func spmFields(texts ...string) fields {
	tokens := []string{"<unk>", "<s>", "</s>"}
	types := []int32{2, 3, 3}
	for b := range 256 {
		tokens = append(tokens, fmt.Sprintf("<0x%02X>", b))
		types = append(types, 6)
	}
	for _, text := range texts {
		tokens = append(tokens, text)
		types = append(types, 1)
	}
	scores := make([]float32, len(tokens))
	for i := range scores {
		scores[i] = -float32(i)
	}
	return fields{
		prefix + "model":        "llama",
		prefix + "tokens":       tokens,
		prefix + "scores":       scores,
		prefix + "token_type":   types,
		prefix + "bos_token_id": uint32(1),
		prefix + "eos_token_id": uint32(2),
	}
}

// mergedFields is a small vocabulary of merges in SentencePiece's spelling: bytes, the parts of the
// merges, and what these make.
func mergedFields(merges ...string) fields {
	var texts []string
	for _, m := range merges {
		left, right, _ := strings.Cut(m, " ")
		for _, text := range []string{left, right, left + right} {
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return spmFields(texts...).with("model", "gemma4", "scores", nil, "merges", merges)
}

// bpeFields is a small byte-level vocabulary: 0 to 255 are the bytes, then
// what the merges make, then special tokens.
func bpeFields(special []string, merges ...string) fields {
	var tokens []string
	var types []int32
	have := map[string]bool{}
	add := func(text string, typ int32) {
		if !have[text] {
			have[text] = true
			tokens = append(tokens, text)
			types = append(types, typ)
		}
	}
	for _, r := range byteChars {
		add(string(r), 1)
	}
	for _, m := range merges {
		add(strings.Replace(m, " ", "", 1), 1)
	}
	for _, text := range special {
		add(text, 3)
	}
	return fields{
		prefix + "model":      "gpt2",
		prefix + "pre":        "gpt-2",
		prefix + "tokens":     tokens,
		prefix + "token_type": types,
		prefix + "merges":     merges,
	}
}

// with returns the fields with some changed, or removed where the value is nil.
func (f fields) with(pairs ...any) fields {
	f = maps.Clone(f)
	for i := 0; i < len(pairs); i += 2 {
		key := prefix + pairs[i].(string)
		if pairs[i+1] == nil {
			delete(f, key)
		} else {
			f[key] = pairs[i+1]
		}
	}
	return f
}

func mustNew(tb testing.TB, f fields) *Tokenizer {
	tb.Helper()
	t, err := New(f)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func TestNewErrors(t *testing.T) {
	spm := spmFields("▁", "a")
	bpe := bpeFields(nil, "a b")
	nan := make([]float32, 261)
	nan[7] = float32(math.NaN())
	infinite := make([]float32, 261)
	infinite[259] = float32(math.Inf(-1))
	for _, c := range []struct {
		name string
		f    fields
		want []string // parts of the error
	}{
		{"nothing", fields{}, []string{"tokenizer.ggml.model", "missing"}},
		{"model of wrong type", spm.with("model", uint32(3)), []string{"tokenizer.ggml.model", "uint32", "string"}},
		{"unknown model", spm.with("model", "klingon"), []string{`"klingon"`, "llama gpt2 gemma4 bert t5 rwkv plamo2 whitespace"}},
		{"no tokens", spm.with("tokens", nil), []string{"tokenizer.ggml.tokens", "missing"}},
		{"tokens of wrong type", spm.with("tokens", []int32{1}), []string{"tokenizer.ggml.tokens", "[]int32", "strings"}},
		{"empty vocabulary", spm.with("tokens", []string{}), []string{"tokenizer.ggml.tokens", "empty"}},
		{"duplicate", spmFields("a", "b", "a"), []string{`"a" twice`, "259", "261"}},
		{"duplicate of a control token", spmFields("<s>"), []string{`"<s>" twice`}},
		{"no scores", spm.with("scores", nil), []string{"tokenizer.ggml.scores", "missing"}},
		{"few scores", spm.with("scores", []float32{1}), []string{"tokenizer.ggml.scores", "1 entries", "261"}},
		{"scores of wrong type", spm.with("scores", "high"), []string{"tokenizer.ggml.scores", "string", "numbers"}},
		{"score that is no number", spm.with("scores", nan), []string{"tokenizer.ggml.scores[7]", "not a number"}},
		{"few types", spm.with("token_type", []int32{1, 1}), []string{"tokenizer.ggml.token_type", "2 entries"}},
		{"a type for none but the first tokens", spmFields("<|im_end|>").with("token_type", []int32{1}), []string{"tokenizer.ggml.token_type", "1 entries"}},
		{"types of wrong type", spm.with("token_type", []float32{1}), []string{"tokenizer.ggml.token_type", "[]float32"}},
		{"unknown type", spmFields("a").with("tokens", []string{"a"}, "scores", []float32{0}, "token_type", []int32{9}, "bos_token_id", nil, "eos_token_id", nil), []string{"token_type[0]", "1 to 6"}},
		{"type that is right in its low bits", spm.with("token_type", append(make([]int64, 260), 1<<32+1)), []string{"token_type[260]"}},
		{"byte that is none", spmFields("a").with("tokens", []string{"a"}, "scores", []float32{0}, "token_type", []int32{6}, "bos_token_id", nil, "eos_token_id", nil), []string{"tokens[0]", `"a"`, "byte"}},
		{"BOS outside", spm.with("bos_token_id", uint32(261)), []string{"bos_token_id", "261"}},
		{"EOS negative", spm.with("eos_token_id", int32(-2)), []string{"eos_token_id", "-2"}},
		{"EOT huge", spm.with("eot_token_id", uint64(math.MaxUint64)), []string{"eot_token_id"}},
		{"EOS of wrong type", spm.with("eos_token_id", "</s>"), []string{"eos_token_id", "string", "integer"}},
		{"flag of wrong type", spm.with("add_space_prefix", uint8(1)), []string{"add_space_prefix", "uint8", "bool"}},
		{"BOS wanted, none there", bpe.with("add_bos_token", true), []string{"add_bos_token", "bos_token_id"}},
		{"EOS wanted, none there", bpe.with("add_eos_token", true), []string{"add_eos_token", "eos_token_id"}},
		{"infinite score", spm.with("model", "t5", "scores", infinite), []string{"tokenizer.ggml.scores[259]", "infinite"}},
		{"long token", spmFields(strings.Repeat("a", 1025)).with("model", "t5"), []string{"tokenizer.ggml.tokens", "1025 bytes"}},
		{"map of wrong type", spm.with("model", "t5", "precompiled_charsmap", "abc"), []string{"precompiled_charsmap", "string"}},
		{"map cut short", spm.with("model", "t5", "precompiled_charsmap", []uint8{8, 0, 0, 0, 1}), []string{"precompiled_charsmap", "5 bytes", "8"}},
		{"no merges", bpe.with("merges", nil), []string{"tokenizer.ggml.merges", "missing"}},
		{"merge of one part", bpe.with("merges", []string{"a b", "ab"}), []string{"merges[1]", `"ab"`}},
		{"merge with nothing left", bpe.with("merges", []string{" b"}), []string{"merges[0]"}},
		{"merge with nothing right", bpe.with("merges", []string{"a "}), []string{"merges[0]"}},
		{"no merges in SentencePiece's spelling", spm.with("model", "gemma4"), []string{"tokenizer.ggml.merges", "missing"}},
		{"empty merge", bpe.with("merges", []string{""}), []string{"merges[0]"}},
		{"unknown pre-tokenizer", bpe.with("pre", "klingon"), []string{"tokenizer.ggml.pre", "klingon", "llama-bpe", "tekken"}},
	} {
		_, err := New(c.f)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.name, err, part)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q is more than a line", c.name, err)
		}
	}
}

// TestForgiven holds what real files have and what is not an error.
func TestForgiven(t *testing.T) {
	spm := spmFields("▁", "a")
	for name, f := range map[string]fields{
		"ids that say none":  spm.with("padding_token_id", uint32(math.MaxUint32), "eot_token_id", uint32(math.MaxUint32), "eom_token_id", int32(-1)),
		"ids of any width":   spm.with("bos_token_id", uint8(1), "eos_token_id", int64(2)),
		"int scores":         spm.with("scores", make([]int32, 261)),
		"wide types":         spm.with("token_type", make([]uint64, 261)),
		"empty tokens":       spmFields("", "a", ""),
		"no pre-tokenizer":   bpeFields(nil, "a b").with("pre", nil),
		"no types":           bpeFields(nil, "a b").with("token_type", nil),
		"no merges in list":  bpeFields(nil),
		"merges out of it":   bpeFields(nil, "a b").with("merges", []string{"x y", "xy z", "a b", "a b"}),
		"default BOS absent": bpeFields(nil).with("pre", "llama-bpe"),
	} {
		if _, err := New(f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoTypes reads a vocabulary from before there were types.
func TestNoTypes(t *testing.T) {
	tok := mustNew(t, spmFields("▁", "a").with("token_type", nil, "bos_token_id", nil, "eos_token_id", nil))
	for id, want := range map[int32]TokenType{0: Unknown, 1: Control, 2: Control, 3: Byte, 258: Byte, 259: Normal} {
		if got := tok.TokenType(id); got != want {
			t.Errorf("%q: got %v, want %v", tok.Token(id), got, want)
		}
	}
	bos, ok := tok.BOS()
	eos, ok2 := tok.EOS()
	if bos != 1 || eos != 2 || !ok || !ok2 || !tok.AddBOS() || tok.AddEOS() {
		t.Errorf("BOS %d, EOS %d, %v, %v", bos, eos, tok.AddBOS(), tok.AddEOS())
	}
	if got := tok.Detokenize(tok.Encode("a\n", Options{}), false); got != "a\n" {
		t.Errorf("got %q", got)
	}
}

func TestTokens(t *testing.T) {
	tok := mustNew(t, spmFields("▁", "▁a"))
	for _, c := range []struct {
		id      int32
		token   string
		typ     TokenType
		piece   string
		special string
	}{
		{0, "<unk>", Unknown, "", "<unk>"},
		{1, "<s>", Control, "", "<s>"},
		{13, "<0x0A>", Byte, "\n", "\n"},
		{260, "▁a", Normal, " a", " a"},
		{261, "", 0, "", ""},
		{-1, "", 0, "", ""},
		{math.MinInt32, "", 0, "", ""},
	} {
		if got := tok.Token(c.id); got != c.token {
			t.Errorf("%d: token %q, want %q", c.id, got, c.token)
		}
		if got := tok.TokenType(c.id); got != c.typ {
			t.Errorf("%d: type %v, want %v", c.id, got, c.typ)
		}
		if got := string(tok.Piece(c.id, false)); got != c.piece {
			t.Errorf("%d: piece %q, want %q", c.id, got, c.piece)
		}
		if got := string(tok.Piece(c.id, true)); got != c.special {
			t.Errorf("%d: special piece %q, want %q", c.id, got, c.special)
		}
	}
	if tok.Len() != 261 || tok.IsEOG(1) || !tok.IsEOG(2) || tok.IsEOG(-1) {
		t.Errorf("length %d, EOG %v", tok.Len(), tok.EOG())
	}
}
