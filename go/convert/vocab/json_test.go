package vocab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestTokenizerJSON reads each kind of tokenizer.json, and compares all keys that a GGUF file has for it.
func TestTokenizerJSON(t *testing.T) {
	for _, c := range []struct {
		name, arch, file, settings string
		want                       []string
	}{
		{"WordPiece", "bert", `{"added_tokens": [{"id": 0, "content": "[PAD]", "special": true}, {"id": 1, "content": "[CLS]", "special": true}, {"id": 2, "content": "[SEP]", "special": true}],
"normalizer": {"type": "Sequence", "normalizers": [{"type": "BertNormalizer", "lowercase": true, "strip_accents": false}]},
"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
"model": {"type": "WordPiece", "continuing_subword_prefix": "##", "vocab": {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4}}}`, `{"pad_token": {"content": "[PAD]"}}`, []string{
			"model bert", "pre default", "tokens [[PAD] [CLS] [SEP] ▁a b [PAD5]]", "token_type [3 3 3 1 1 5]", "seperator_token_id 2",
			"padding_token_id 0", "cls_token_id 1", "add_sep_token true", "normalizer.lowercase true", "normalizer.strip_accents false",
		}},
		{"Unigram", "t5", `{"added_tokens": [{"id": 1, "content": "</s>", "special": true}, {"id": 4, "content": "▁x", "special": false}, {"id": 9, "content": "far"}],
"normalizer": {"type": "Precompiled", "precompiled_charsmap": "YWI="}, "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "never"},
"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}]},
"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["</s>", 0], ["▁a", -1.5], ["b", -2]]}}`, `{"unk_token": "<unk>", "eot_token": "▁x"}`, []string{
			"model t5", "pre default", "tokens [<unk> </s> ▁a b  x [PAD5]]", "scores [0 0 -1.5 -2 0 -10000]", "token_type [2 3 1 1 4 5]",
			"eos_token_id 1", "unknown_token_id 0", "eot_token_id 4", "add_eos_token true", "quern.tokenizer.keep_last_space true", "add_space_prefix false", "remove_extra_whitespaces true",
			"precompiled_charsmap [97 98]",
		}},
		{"scored BPE, merges in order", "llama", `{"added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "<s>", "special": true}],
"post_processor": {"type": "Sequence", "processors": [{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]}]},
"model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "vocab": {"<unk>": 0, "<s>": 1, "<0x41>": 2, "a": 3, "ab": 4, "abc": 5}, "merges": ["a b", "ab c"]}}`,
			`{"bos_token": "<s>", "add_bos_token": true, "add_eos_token": false, "unk_token": "<unk>"}`, []string{
				"model llama", "pre default", "tokens [<unk> <s> <0x41> a ab abc]", "scores [0 0 0 256 255 254]", "token_type [2 3 6 1 1 1]",
				"bos_token_id 1", "unknown_token_id 0", "add_bos_token true", "add_eos_token false",
			}},
		{"scored BPE, merges in another order", "llama", `{"model": {"type": "BPE", "byte_fallback": true, "vocab": {"a": 0, "abc": 1, "ab": 2}, "merges": [["a", "b"], ["ab", "c"], "a b"]}}`, `{}`, []string{
			"model llama", "pre default", "tokens [a abc ab [PAD3] [PAD4] [PAD5]]", "scores [0 -2 -1 -10000 -10000 -10000]", "token_type [1 1 1 5 5 5]",
		}},
		{"merged BPE", "gemma4", `{"added_tokens": [{"id": 0, "content": "<bos>", "special": true}], "model": {"type": "BPE", "byte_fallback": true,
"vocab": {"<bos>": 0, "<0x0A>": 1, "a": 2}, "merges": ["a a"]}}`, `{"bos_token": "<bos>"}`, []string{
			"model gemma4", "tokens [<bos> <0x0A> a [PAD3] [PAD4] [PAD5]]", "scores [-1000 -1000 -1000 -10000 -10000 -10000]",
			"token_type [3 6 1 5 5 5]", "merges [a a]", "bos_token_id 0",
		}},
		{"byte-level BPE", "qwen2", `{"added_tokens": [{"id": 3, "content": "<|im_end|>", "special": false}, {"id": 4, "content": "<tool>", "special": false}, {"id": 2, "content": "<end>", "special": true}],
"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {"a": 0, "Ġa": 1}, "merges": [[" ", "a"]]}}`,
			`{"eos_token": "<end>", "eot_token": "<|im_end|>", "bos_token": null, "pad_token": "a"}`, []string{
				"model gpt2", "pre gpt-2", "tokens [a Ġa <end> <|im_end|> <tool> [PAD5]]", "token_type [1 1 3 3 4 5]", "merges [Ġ a]", "eos_token_id 2",
				"eot_token_id 3",
			}},
		{"another end of texts", "llama", `{"added_tokens": [{"id": 0, "content": "<b>", "special": true}, {"id": 1, "content": "<e>", "special": true}, {"id": 2, "content": "<t>", "special": true}], "pre_tokenizer": {"type": "ByteLevel"},
"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<b>"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<e>"}}]},
"model": {"type": "BPE", "vocab": {"a": 3}, "merges": []}}`, `{"eos_token": "<t>"}`, []string{
			"model gpt2", "pre gpt-2", "tokens [<b> <e> <t> a [PAD4] [PAD5]]", "token_type [3 3 3 1 5 5]", "merges []", "bos_token_id 0",
			"eos_token_id 1", "eot_token_id 2", "add_bos_token true", "add_eos_token true",
		}},
		{"two tokens before texts", "llama", `{"added_tokens": [{"id": 0, "content": "[gMASK]", "special": true}, {"id": 1, "content": "<sop>", "special": true}], "pre_tokenizer": {"type": "ByteLevel"},
"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[gMASK]"}}, {"SpecialToken": {"id": "<sop>"}}, {"Sequence": {"id": "A"}}]},
"model": {"type": "BPE", "vocab": {"a": 2}, "merges": []}}`, `{}`, []string{
			"model gpt2", "pre gpt-2", "tokens [[gMASK] <sop> a [PAD3] [PAD4] [PAD5]]", "token_type [3 3 1 5 5 5]", "merges []", "bos_token_id 0",
			"add_bos_token true", "add_eos_token false", "quern.tokenizer.after_bos [1]",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			save(t, dir, "tokenizer.json", c.file)
			save(t, dir, "tokenizer_config.json", c.settings)
			v, err := Read(dir, c.arch, "", 7, sizeOf(6))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, kv := range v.Keys() {
				got = append(got, fmt.Sprintf("%s %v", strings.TrimPrefix(kv.Key, "tokenizer.ggml."), kv.Value))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%#v\nwant\n%#v", got, c.want)
			}
		})
	}
	for _, c := range []struct{ file, want string }{
		{`{"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": []}}`, "model.vocab is not an object"},
		{`{"model": {"type": "Unigram", "vocab": {}}}`, "model.vocab is not a list"},
		{`{"model": {"type": "Unigram", "vocab": [["a"]]}}`, "model.vocab[0]"},
		{`{"model": {"type": "Unigram", "vocab": [["a", "b"]]}}`, "model.vocab[0]"},
		{`{"model": {"type": "WordLevel"}}`, `"WordLevel" is not known`},
		{`{"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {"a": 1.5}}}`, `the number of "a"`},
		{`{"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {"a": 7}}}`, "has the number 7, and there are embeddings of 7"},
		{`{"pre_tokenizer": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {}, "merges": [["a"]]}}`, "merges[0]"},
		{`{"pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "BPE", "vocab": {}}}`, "Whitespace"},
		{`{"pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated"}, "model": {"type": "BPE", "vocab": {}}}`, "Split"},
		{`{"model": {"type": "BPE", "byte_fallback": true, "vocab": {}, "merges": [1]}}`, "merges[0]"},
		{`{`, "tokenizer.json"},
	} {
		dir := t.TempDir()
		save(t, dir, "tokenizer.json", c.file)
		_, err := Read(dir, "llama", "", 7, sizeOf(0))
		refused(t, c.file, err, "tokenizer.json", c.want)
	}
	_, err := Read(t.TempDir(), "llama", "", 7, sizeOf(8))
	refused(t, "a size beyond the embeddings", err, "vocab_size is 8", "7")
	_, err = Read(t.TempDir(), "llama", "", 7, sizeOf(0))
	refused(t, "no tokenizer", err, "has no tokenizer.json")
}
