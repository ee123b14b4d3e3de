package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// FuzzEncode gives any text to small vocabularies of all kinds and of every
// pre-tokenizer. Ids are in range, and plain text comes back as it was where the
// vocabulary can spell it.
func FuzzEncode(f *testing.F) {
	for _, seed := range []string{"", " ", "abc the  the\n", "<s>a</s>", "é字🦙", "\xff\xc3", "it's 1234 <|end|>x", "\u2581", "e\u0301"} {
		f.Add(seed)
	}
	toks := map[string]*Tokenizer{
		"spm":        mustNew(f, spmFields("▁", "t", "h", "e", "th", "▁t", "▁th", "▁the", "é", "▁▁", "▁▁▁▁")),
		"spm-across": mustNew(f, spmFields("▁", "t", "e", "e▁", "e▁t", "te", "▁t")),
		"spm-merges": mustNew(f, mergedFields("t h", "th e", "▁ the", "▁ ▁", "▁▁ ▁▁", "> ▁", ">▁ t", "é é", "th x")),
		"no-bytes": mustNew(f, fields{
			prefix + "model":  "llama",
			prefix + "tokens": []string{"<unk>", "<s>", "</s>", "▁", "a", "▁a"},
			prefix + "scores": make([]float32, 6),
		}),
	}
	toks["bert"] = mustNew(f, bertFields("▁the", "the", "▁t", "h", "e", "▁字", "▁'", "▁é", "s"))
	toks["rwkv"] = mustNew(f, rwkvFields("th", "the", " the", `\xc3\xa9`, `\n\n`, "  "))
	toks["unigram"] = mustNew(f, unigramFields("▁", "t", "h", "e", "th", "▁the", "é", "s"))
	toks["unigram-across"] = mustNew(f, unigramFields("▁", "t", "e", "e▁t", "▁t").with("remove_extra_whitespaces", false))
	for _, name := range names() {
		toks[name] = mustNew(f, bpeFields([]string{"<s>", "</s>", "<|end|>"}, "t h", "th e", "Ġ the", "Ġ Ġ", "1 2", "Ã ©").with("pre", name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, tok := range toks {
			for _, o := range []Options{{}, {ParseSpecial: true}, {NoSpecial: true}} {
				ids := tok.Encode(text, o)
				for _, id := range ids {
					if !tok.valid(id) {
						t.Fatalf("%s: %q: id %d", name, text, id)
					}
				}
				checkUpTo(t, name, tok, text, o, ids)
				if o.ParseSpecial || o.NoSpecial || slices.Contains([]string{"no-bytes", "bert", "unigram", "unigram-across"}, name) {
					tok.Detokenize(ids, true)
					continue
				}
				want := text
				switch {
				case name == "qwen2" || name == "qwen35":
					want = norm.NFC.String(text)
				case strings.HasPrefix(name, "spm"):
					want = strings.ReplaceAll(text, escapedSpace, " ")
				}
				if got := tok.Detokenize(ids, false); got != want {
					t.Fatalf("%s: got %q, want %q", name, got, want)
				}
			}
		}
	})
}

// FuzzNew reads vocabularies with hostile entries. It gives an error or a
// tokenizer that works.
func FuzzNew(f *testing.F) {
	f.Add("a b", "<0x41>", int32(6), uint32(1), true)
	f.Add("ab", "▁a", int32(1), uint32(70000), false)
	f.Add(" ", "", int32(-1), uint32(1<<32-1), true)
	f.Add("a b", `\\x4\\`, int32(1), uint32(3), true)
	f.Fuzz(func(t *testing.T, merge, token string, typ int32, id uint32, flag bool) {
		spm := spmFields(token)
		spm[prefix+"token_type"].([]int32)[259] = typ
		bpe := bpeFields(nil, "a b").with("merges", []string{"a b", merge})
		bpe[prefix+"tokens"] = append(bpe[prefix+"tokens"].([]string), token)
		bpe[prefix+"token_type"] = append(bpe[prefix+"token_type"].([]int32), typ)
		merged := mergedFields("a b").with("merges", []string{"a b", merge})
		merged[prefix+"tokens"] = append(merged[prefix+"tokens"].([]string), token)
		merged[prefix+"token_type"] = append(merged[prefix+"token_type"].([]int32), typ)
		unigram := spm.with("model", "t5", "precompiled_charsmap", []byte(merge))
		for _, m := range []fields{spm, bpe, merged, unigram, spm.with("model", "bert"), rwkvFields(token)} {
			tok, err := New(m.with("eos_token_id", id, "add_eos_token", flag, "add_space_prefix", flag, "unknown_token_id", id))
			if err != nil {
				continue
			}
			text := "ab " + token + merge
			for _, o := range []Options{{}, {ParseSpecial: true}} {
				ids := tok.Encode(text, o)
				for _, id := range ids {
					if !tok.valid(id) {
						t.Fatalf("%q: id %d", text, id)
					}
				}
				tok.Detokenize(ids, flag)
			}
		}
	})
}

// FuzzCharsMap normalizes with any map. It gives UTF-8, or refuses the map.
func FuzzCharsMap(f *testing.F) {
	f.Add([]byte(nil), "a")
	f.Add(charsMapOf(map[string]string{"a": "b", "ab": "", "é": "xyz"}), "abaé\xff")
	f.Fuzz(func(t *testing.T, blob []byte, text string) {
		tok, err := New(unigramFields("▁", "a").with("precompiled_charsmap", blob))
		if err != nil {
			return
		}
		for _, id := range tok.Encode(text, Options{}) {
			if !tok.valid(id) {
				t.Fatalf("%q: id %d", text, id)
			}
		}
	})
}
