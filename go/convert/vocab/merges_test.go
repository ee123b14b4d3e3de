package vocab

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/tokenizer"
)

// Byte-level BPE in GPT-2's two files has the merges in their order, and the special tokens that tokenizer_config.json names.
func TestMerges(t *testing.T) {
	files := map[string]string{
		"vocab.json":            `{"</s>": 0, "<pad>": 1, "a": 2, "b": 3, "Ġ": 4, "ab": 5, "Ġab": 6, "c": 7}`,
		"merges.txt":            "#version: 0.2\na b\nĠ ab\n",
		"tokenizer_config.json": `{"bos_token": {"content": "</s>"}, "eos_token": "</s>", "pad_token": "<pad>", "add_bos_token": true}`,
	}
	v, err := readOf(t, "opt", 8, files)
	if err != nil {
		t.Fatal(err)
	}
	tok := must(tokenizer.New(keys(v.Keys())))
	for text, want := range map[string][]int32{"ab ab": {0, 5, 6}, "</s>cab": {0, 0, 7, 5}, " a": {0, 4, 2}} {
		if got := tok.Encode(text, tokenizer.Options{ParseSpecial: true}); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for name, text := range map[string]string{"vocab.json": `{"a": "b"}`, "merges.txt": "a b c\n"} {
		other := map[string]string{"vocab.json": files["vocab.json"], "merges.txt": files["merges.txt"], name: text}
		_, err := readOf(t, "opt", 8, other)
		refused(t, name, err, map[string]string{"vocab.json": "model.vocab", "merges.txt": "merges.txt"}[name])
	}
}

// Texts of mBART end with the token of their language, as tokenizer.json says. All white space parts words.
func TestTokensOfLanguages(t *testing.T) {
	v, err := readOf(t, "mbart", 8, map[string]string{"tokenizer.json": `{
		"added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true},
			{"id": 7, "content": "en_XX", "special": true}],
		"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "prepend_scheme": "always"}]},
		"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}},
			{"SpecialToken": {"id": "en_XX"}}]},
		"model": {"type": "Unigram", "unk_id": 3, "vocab": [["<s>", 0], ["<pad>", 0], ["</s>", 0], ["<unk>", 0], ["▁a", -1], ["▁", -2], ["b", -3], ["en_XX", 0]]}}`,
		"tokenizer_config.json": `{"bos_token": "<s>", "eos_token": "</s>"}`})
	if err != nil {
		t.Fatal(err)
	}
	v.SetAdd("bos", false)
	tok := must(tokenizer.New(keys(v.Keys())))
	for text, want := range map[string][]int32{"a": {4, 2, 7}, "a\ta\n b\v\fa": {4, 4, 5, 6, 4, 2, 7},
		"a\u00a0a\u2003\u3000a\u0085\u2028": {4, 4, 4, 2, 7}, "\u2001": {2, 7}, "\u2010": {5, 3, 2, 7}, "a ": {4, 2, 7}} {
		if got := tok.Encode(text, tokenizer.Options{ParseSpecial: true}); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// Texts of XGLM begin with the token that ends others, and end with none, as tokenizer.json says.
func TestTextsThatBeginWithTheirEnd(t *testing.T) {
	v, err := readOf(t, "opt", 6, map[string]string{"tokenizer.json": `{
		"added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true}],
		"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "</s>"}}, {"Sequence": {"id": "A"}}]},
		"model": {"type": "Unigram", "unk_id": 3, "vocab": [["<s>", 0], ["<pad>", 0], ["</s>", 0], ["<unk>", 0], ["▁a", -1], ["▁", -2]]}}`,
		"tokenizer_config.json": `{"bos_token": "<s>", "eos_token": "</s>"}`})
	if err != nil {
		t.Fatal(err)
	}
	tok := must(tokenizer.New(keys(v.Keys())))
	if got := tok.Encode("a a", tokenizer.Options{}); !slices.Equal(got, []int32{2, 4, 4}) {
		t.Errorf("%v, want the end, then the text", got)
	}
}

// RoBERTa's, BART's and DeBERTa's texts have a token before and one behind, which their two files do not say.
func TestMergesOfEncoders(t *testing.T) {
	for arch, ends := range around {
		v, err := readOf(t, arch, 4, map[string]string{
			"vocab.json": `{"` + ends[0] + `": 0, "a": 1, "` + ends[1] + `": 2, "b": 3}`, "merges.txt": "#version: 0.2\n",
			"tokenizer_config.json": `{"cls_token": "` + ends[0] + `", "sep_token": "` + ends[1] + `"}`})
		if err != nil {
			t.Fatal(err)
		}
		tok := must(tokenizer.New(keys(v.Keys())))
		if got := tok.Encode("ab", tokenizer.Options{}); !slices.Equal(got, []int32{0, 1, 3, 2}) {
			t.Errorf("%s: %v", arch, got)
		}
		two, _ := keys(v.Keys()).Value("tokenizer.ggml.add_sep_token")
		if pre, _ := keys(v.Keys()).Value("tokenizer.ggml.pre"); (two == true) == (arch == "deberta") || pre == "roberta-bpe" {
			t.Errorf("%s, %v: a separator beside the end of the first of two texts: %v", arch, pre, two)
		}
	}
}

// Helium's tokenizer keeps runs of spaces, and spells in bytes what has no token.
func TestBytesOfUnigram(t *testing.T) {
	vocab := `["<unk>", 0], ["<s>", 0], ["▁", -3], ["▁a", -1], ["b", -2], ["\n", -2]`
	for _, b := range []byte("é") {
		vocab += fmt.Sprintf(`, ["<0x%02X>", 0]`, b)
	}
	v, err := readOf(t, "llama", 8, map[string]string{"tokenizer.json": `{
		"added_tokens": [{"id": 1, "content": "<s>", "special": true}],
		"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": " "},
			{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
		"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"String": "\n"}, "behavior": "Contiguous"}]},
		"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]},
		"model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": [` + vocab + `]}}`,
		"tokenizer_config.json": `{"bos_token": "<s>"}`})
	if err != nil {
		t.Fatal(err)
	}
	tok := must(tokenizer.New(keys(v.Keys())))
	for text, want := range map[string][]int32{"a": {1, 3}, " a  ": {1, 2, 3, 2, 2}, "ab\n\nbé": {1, 3, 4, 5, 5, 4, 6, 7}, "éx": {1, 2, 6, 7, 0}} {
		if got := tok.Encode(text, tokenizer.Options{}); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// A space at the end of a text is a token where tokenizer.json does not cut it.
func TestLastSpace(t *testing.T) {
	for strip, want := range map[string][]int32{`, {"type": "Strip", "strip_left": false, "strip_right": true}`: {1, 1}, "": {1, 1, 2}} {
		v, err := readOf(t, "opt", 3, map[string]string{"tokenizer.json": `{
			"normalizer": {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}` + strip + `]},
			"pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "always"},
			"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["▁a", -1], ["▁", -2]]}}`})
		if err != nil {
			t.Fatal(err)
		}
		tok := must(tokenizer.New(keys(v.Keys())))
		if got := tok.Encode("  a  a  ", tokenizer.Options{NoSpecial: true}); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", strip, got, want)
		}
	}
}
