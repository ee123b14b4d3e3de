package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

// bertFields is a small vocabulary of WordPiece: [PAD] [UNK] [CLS] [SEP], texts from 4 on.
func bertFields(texts ...string) fields {
	f := fields{
		prefix + "model":              "bert",
		prefix + "tokens":             append([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}, texts...),
		prefix + "unknown_token_id":   uint32(1),
		prefix + "cls_token_id":       uint32(2),
		prefix + "seperator_token_id": uint32(3),
	}
	types := []int32{3, 3, 3, 3}
	for range texts {
		types = append(types, 1)
	}
	f[prefix+"token_type"] = types
	return f
}

func TestWordPiece(t *testing.T) {
	f := bertFields("▁un", "aff", "able", "▁a", "b", "▁,", "▁字", "▁e", "▁É", "▁unaff", "▁é", "▁E")
	tok := mustNew(t, f)
	for _, c := range []struct{ text, want string }{
		{"", "[CLS] [SEP]"},
		{"unaffable", "[CLS] ▁unaff able [SEP]"}, // the longest first
		{"  ab,\tun", "[CLS] ▁a b ▁, ▁un [SEP]"},
		{"AB", "[CLS] ▁a b [SEP]"},
		{"É e\u0301", "[CLS] ▁e ▁e [SEP]"}, // letters lose their case and marks
		{"a字字b", "[CLS] ▁a ▁字 ▁字 [UNK] [SEP]"},
		{"xab a", "[CLS] [UNK] ▁a [SEP]"},                   // nothing of a word that cannot be spelled
		{"a\u200b\x00\ufffdb\x0b a", "[CLS] ▁a b ▁a [SEP]"}, // what is dropped does not end a word
		{"\xff", "[CLS] [SEP]"},
		{"a" + strings.Repeat("b", 99), "[CLS] ▁a" + strings.Repeat(" b", 99) + " [SEP]"},
		{"a" + strings.Repeat("b", 100), "[CLS] [UNK] [SEP]"},
		{"[SEP]", "[CLS] [UNK] [UNK] [UNK] [SEP]"},
	} {
		if got := spelled(tok, tok.Encode(c.text, Options{})); got != c.want {
			t.Errorf("%q: got %s, want %s", c.text, got, c.want)
		}
	}
	if got := spelled(tok, tok.Encode("a[SEP]a", Options{NoSpecial: true, ParseSpecial: true})); got != "▁a [SEP] ▁a" {
		t.Errorf("special: %s", got)
	}
	if got := tok.Detokenize(tok.Encode("unaffable, ab", Options{}), false); got != "unaffable , ab" {
		t.Errorf("text %q", got)
	}
	for _, c := range []struct {
		m    fields
		want string
	}{
		{f.with("normalizer.lowercase", false), "▁É ▁E ▁é"},
		{f.with("normalizer.strip_accents", false), "▁é ▁e ▁é"},
		{f.with("normalizer.lowercase", false, "normalizer.strip_accents", true), "▁E ▁E ▁e"},
	} {
		tok := mustNew(t, c.m)
		if got := spelled(tok, tok.Encode("É E é", Options{NoSpecial: true})); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// The first and the last of each block of ideographs are words of their own, their neighbors outside are not.
func TestIdeographs(t *testing.T) {
	for _, b := range [][2]rune{{0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
		{0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}} {
		if !ideograph(b[0]) || !ideograph(b[1]) {
			t.Errorf("%U to %U are none", b[0], b[1])
		}
		if ideograph(b[0]-1) != (b[0] == 0x2b740) || ideograph(b[1]+1) != (b[1] == 0x2b73f) {
			t.Errorf("more than %U to %U are", b[0], b[1])
		}
	}
}

// [CLS] and [SEP] are where the first vocabulary had them, if a file does not say.
func TestWordPieceFrame(t *testing.T) {
	var texts []string
	for i := range 96 {
		texts = append(texts, "▁"+string(rune('a'+i)))
	}
	texts = append(texts, "[UNK2]", "[CLS2]", "[SEP2]")
	f := bertFields(texts...).with("cls_token_id", nil, "seperator_token_id", nil)
	types := slices.Clone(f[prefix+"token_type"].([]int32))
	types[101], types[102] = 3, 3
	tok := mustNew(t, f.with("token_type", types))
	if got := tok.Encode("a", Options{}); !slices.Equal(got, []int32{101, 4, 102}) {
		t.Errorf("got %v", got)
	}
	tok = mustNew(t, f.with("bos_token_id", uint32(2), "eos_token_id", uint32(3)))
	if got := tok.Encode("a", Options{}); !slices.Equal(got, []int32{2, 4, 3}) {
		t.Errorf("got %v", got)
	}
}

// spelled returns the texts of tokens.
func spelled(tok *Tokenizer, ids []int32) string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, tok.Token(id))
	}
	return strings.Join(texts, " ")
}
