package vocab

import (
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/tokenizer"
)

// TestDeBERTaPieces reads spm.model: the token for what is masked comes behind it, unless another file has it or the model
// has no embedding for it.
func TestDeBERTaPieces(t *testing.T) {
	for _, c := range []struct {
		limit int
		added string
		want  []string
	}{
		{4, `{}`, []string{"[PAD]", "[CLS]", "a", "[MASK]"}},
		{5, `{"[MASK]": 4}`, []string{"[PAD]", "[CLS]", "a", "[PAD3]", "[MASK]"}},
		{3, `{}`, []string{"[PAD]", "[CLS]", "a"}},
	} {
		dir := t.TempDir()
		save(t, dir, "spm.model", unigramOf("[PAD]", "[CLS]", "a"))
		save(t, dir, "added_tokens.json", c.added)
		v, err := Read(dir, "deberta", "", c.limit, sizeOf(c.limit))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(v.Tokens, c.want) || v.Model != "t5" {
			t.Errorf("%q of the kind %s, want %q", v.Tokens, v.Model, c.want)
		}
	}
	for _, setting := range []string{"do_lower_case", "split_by_punct"} {
		dir := t.TempDir()
		save(t, dir, "spm.model", unigramOf("a"))
		save(t, dir, "tokenizer_config.json", `{"`+setting+`": true}`)
		_, err := Read(dir, "deberta", "", 4, sizeOf(4))
		refused(t, setting, err, setting)
	}
}

// TestLinesBecomeSpaces encodes ends of lines, tabs and an accent of its own with the tokenizer.json that transformers 5 writes.
func TestLinesBecomeSpaces(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, "tokenizer.json", `{"normalizer": {"type": "Sequence", "normalizers": [
{"type": "Replace", "pattern": {"Regex": "\\s{2,}|[\\n\\r\\t]"}, "content": " "}, {"type": "NFC"}, {"type": "Strip", "strip_left": false, "strip_right": true}]},
"pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "always"},
"model": {"type": "Unigram", "unk_id": 0, "vocab": [["[UNK]", 0], ["▁", -3], ["▁a", -1], ["b", -2], ["é", -2]]}}`)
	v, err := Read(dir, "deberta", "", 5, sizeOf(5))
	if err != nil {
		t.Fatal(err)
	}
	tok := must(tokenizer.New(keys(v.Keys())))
	encode := func(text string) []int32 { return tok.Encode(text, tokenizer.Options{NoSpecial: true}) }
	want := encode("a a a b aéb")
	if len(want) < 7 || slices.Contains(want, 0) {
		t.Fatalf("%v, want tokens that are known", want)
	}
	for _, text := range []string{"a\na\ta b\raéb", "\r\na \t a\n\na  b aéb\n", "a a a b ae\u0301b"} {
		if got := encode(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
