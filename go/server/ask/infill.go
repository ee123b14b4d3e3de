package ask

import (
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

// fimTokens are the fill-in-the-middle tokens. -1: the vocabulary has none.
type fimTokens struct{ Pre, Suf, Mid, rep, sep int32 }

// fimSpellings are the spellings of the model families, for files without metadata for
// them.
var fimSpellings = map[string][]string{
	"pre": {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uff5cfim\u2581begin\uff5c>", "<PRE>", "\u2581<PRE>",
		"<|code_prefix|>", "<|prefix|>"},
	"suf": {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uff5cfim\u2581hole\uff5c>", "<SUF>", "\u2581<SUF>",
		"<|code_suffix|>", "<|suffix|>"},
	"mid": {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uff5cfim\u2581end\uff5c>", "<MID>", "\u2581<MID>",
		"<|code_middle|>", "<|middle|>"},
	"rep": {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
	"sep": {"<|file_sep|>"},
}

// fimOldKeys are what the keys were called before those of all names began with fim_.
var fimOldKeys = map[string]string{"pre": "prefix", "suf": "suffix", "mid": "middle"}

// findFIM finds the fill-in-the-middle tokens by the file's metadata, then by spelling.
func findFIM(t *tokenizer.Tokenizer, meta tokenizer.Metadata) fimTokens {
	bySpelling := map[string]int32{}
	for id := range int32(t.Len()) {
		if typ := t.TokenType(id); typ == tokenizer.Control || typ == tokenizer.UserDefined {
			bySpelling[t.Token(id)] = id
		}
	}
	find := func(name string) int32 {
		for _, key := range []string{"fim_" + name, fimOldKeys[name]} {
			v, _ := meta.Value("tokenizer.ggml." + key + "_token_id")
			if id, ok := v.(uint32); ok && int64(id) < int64(t.Len()) {
				return int32(id)
			}
		}
		for _, text := range fimSpellings[name] {
			if id, ok := bySpelling[text]; ok {
				return id
			}
		}
		return -1
	}
	return fimTokens{find("pre"), find("suf"), find("mid"), find("rep"), find("sep")}
}

// A File is additional context.
type File struct{ Name, Text string }

// An Infill is the text around a gap to be filled.
type Infill struct {
	Files  []File
	Before Prompt
	After  string
	Begin  string // the beginning of the text in the gap
}

// Fills reports whether the model can fill in.
func (m *Model) Fills() bool { return m.gap.Pre >= 0 && m.gap.Suf >= 0 && m.gap.Mid >= 0 }

// FillIn returns the fill-in-the-middle prompt. No text is truncated: what is too long
// is refused like any prompt.
func (m *Model) FillIn(in Infill) ([]int32, error) {
	fim := m.gap
	if !m.Fills() {
		return nil, reply.Unsupported("this model cannot fill in: its vocabulary has no tokens for the parts around a gap")
	}
	var ids []int32
	var long error
	plain := func(text string) {
		if long != nil {
			return
		}
		more, err := m.Encode(text, tokenizer.Options{NoSpecial: true}, len(ids))
		ids, long = append(ids, more...), err
	}
	if bos, ok := m.Tokenizer.BOS(); ok && m.Tokenizer.AddBOS() {
		ids = append(ids, bos)
	}
	if len(in.Files) > 0 && fim.rep >= 0 && fim.sep >= 0 {
		ids = append(ids, fim.rep)
		plain("myproject\n")
		for _, f := range in.Files {
			ids = append(ids, fim.sep)
			plain(f.Name + "\n" + f.Text)
		}
		ids = append(ids, fim.sep)
		plain("filename\n")
	} else {
		for _, f := range in.Files {
			plain(f.Text)
		}
	}
	before := func() {
		ids = append(ids, fim.Pre)
		for _, p := range in.Before {
			ids = append(ids, p.Ids...)
			plain(p.Text)
		}
	}
	after := func() {
		ids = append(ids, fim.Suf)
		plain(in.After)
	}
	if m.SuffixFirst {
		after()
		before()
	} else {
		before()
		after()
	}
	ids = append(ids, fim.Mid)
	plain(in.Begin)
	return ids, long
}
