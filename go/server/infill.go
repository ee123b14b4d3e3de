package server

import (
	"context"
	"fmt"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

// fimTokens are the fill-in-the-middle tokens. -1: the vocabulary has none.
type fimTokens struct{ pre, suf, mid, rep, sep int32 }

// fimSpellings are the spellings of the model families, for files without metadata for
// them.
var fimSpellings = map[string][]string{
	"pre": {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uff5cfim\u2581begin\uff5c>", "<PRE>", "\u2581<PRE>", "<|code_prefix|>", "<|prefix|>"},
	"suf": {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uff5cfim\u2581hole\uff5c>", "<SUF>", "\u2581<SUF>", "<|code_suffix|>", "<|suffix|>"},
	"mid": {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uff5cfim\u2581end\uff5c>", "<MID>", "\u2581<MID>", "<|code_middle|>", "<|middle|>"},
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

// A file is additional context.
type file struct{ name, text string }

// An infill is the text around a gap to be filled.
type infill struct {
	files  []file
	before prompt
	after  string
	begin  string // the beginning of the text in the gap
}

// An infillQuery is a request to /infill.
type infillQuery struct {
	options
	prefix, suffix, begin string
	extra                 extraFiles
	wanted                field.Texts
}

func newInfillQuery(m *Model) *infillQuery {
	return filled(m, &infillQuery{options: newOptions(m)})
}

func (q *infillQuery) Fields() []field.Field {
	return append(q.options.Fields(),
		field.Input("input_prefix", field.Text(&q.prefix), "The text before the cursor."),
		field.Input("input_suffix", field.Text(&q.suffix), "The text after the cursor."),
		field.Input("input_extra", &q.extra, "Other files to know about."),
		field.Input("prompt", field.Text(&q.begin), "How the answer begins, in front of the cursor."),
		nProbs(&q.options), responseFields(&q.wanted),
	)
}

func (q *infillQuery) source(ctx context.Context, m *Model) (source, error) {
	ids, err := m.fillIn(infill{files: q.extra, before: prompt{{text: q.prefix}}, after: q.suffix, begin: q.begin})
	return source{prompts: [][]int32{ids}}, err
}

func (q *infillQuery) format(g *generation, _ envelope) format { return &nativeFormat{g, q.wanted} }

// fillIn returns the fill-in-the-middle prompt. No text is truncated: what is too long
// is refused like any prompt.
func (m *Model) fillIn(in infill) ([]int32, error) {
	fim := m.fim
	if fim.pre < 0 || fim.suf < 0 || fim.mid < 0 {
		return nil, reply.Unsupported("this model cannot fill in: its vocabulary has no tokens for the parts around a gap")
	}
	var ids []int32
	var long error
	plain := func(text string) {
		if long != nil {
			return
		}
		more, err := m.encode(text, tokenizer.Options{NoSpecial: true}, len(ids))
		ids, long = append(ids, more...), err
	}
	if bos, ok := m.Tokenizer.BOS(); ok && m.Tokenizer.AddBOS() {
		ids = append(ids, bos)
	}
	if len(in.files) > 0 && fim.rep >= 0 && fim.sep >= 0 {
		ids = append(ids, fim.rep)
		plain("myproject\n")
		for _, f := range in.files {
			ids = append(ids, fim.sep)
			plain(f.name + "\n" + f.text)
		}
		ids = append(ids, fim.sep)
		plain("filename\n")
	} else {
		for _, f := range in.files {
			plain(f.text)
		}
	}
	before := func() {
		ids = append(ids, fim.pre)
		for _, p := range in.before {
			ids = append(ids, p.ids...)
			plain(p.text)
		}
	}
	after := func() {
		ids = append(ids, fim.suf)
		plain(in.after)
	}
	if m.SuffixFirst {
		after()
		before()
	} else {
		before()
		after()
	}
	ids = append(ids, fim.mid)
	plain(in.begin)
	return ids, long
}

// extraFiles is the field input_extra.
type extraFiles []file

const wantExtra = `an array of objects such as {"filename": "a.go", "text": "package a"}`

func (f *extraFiles) Take(r *field.Reader) error {
	*f = nil
	return r.Elements(wantExtra, func(i int) error {
		one := file{name: "tmp"}
		given := false
		err := r.Members(wantExtra, func(name string) error {
			var err error
			switch name {
			case "filename":
				err = r.Optional(&one.name)
			case "text":
				given = true
				one.text, err = r.Text("a string")
			default:
				_, err = r.Raw()
			}
			return field.Within(name, err)
		})
		if err == nil && !given {
			err = reply.Bad("text: missing, want a string")
		}
		*f = append(*f, one)
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
}

func (f *extraFiles) Value() any { return nil }

func (f *extraFiles) Schema() field.Schema {
	s := field.Schema{"type": "string"}
	return field.Schema{"type": "array", "items": field.Schema{
		"type": "object", "required": []string{"text"}, "properties": field.Schema{"filename": s, "text": s},
	}}
}
