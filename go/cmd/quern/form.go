package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/tokenizer"
)

// formFlags say what the text is held to.
type formFlags struct {
	grammar, grammarFile string
	schema, schemaFile   string
	reading              string
	flags                *pflag.FlagSet
	tok                  *tokenizer.Tokenizer
	vocabulary           *constrain.Vocabulary // of tok
}

func (f *formFlags) define(fs *pflag.FlagSet) {
	f.flags = fs
	fs.StringVar(&f.grammar, "grammar", "", "`GRAMMAR` that constrains the text, in GBNF or Lark")
	fs.StringVar(&f.grammarFile, "grammar-file", "", "the same, from a `FILE`")
	fs.StringVarP(&f.schema, "json-schema", "j", "", "`SCHEMA` of the JSON that the text is held to; {} is any object")
	fs.StringVar(&f.schemaFile, "json-schema-file", "", "the same, from a `FILE`")
	choiceVar(fs, &f.reading, "schema", form.Readings[0], form.Readings, "how schemas are read: as their authors mean it, or to the letter")
}

// maxFormFile is the size of the largest grammar or schema that is read.
const maxFormFile = 4 << 20

// read returns the form, nil where no flag gives one, and the flag that does.
func (f *formFlags) read() (*form.Form, string, error) {
	var out *form.Form
	by := ""
	for _, flag := range []struct {
		name, text string
		kind       form.Kind
		file       bool
	}{
		{"grammar", f.grammar, form.Grammar, false}, {"grammar-file", f.grammarFile, form.Grammar, true},
		{"json-schema", f.schema, form.Schema, false}, {"json-schema-file", f.schemaFile, form.Schema, true},
	} {
		if !f.flags.Changed(flag.name) || flag.text == "" {
			continue
		}
		if out != nil {
			return nil, "", usagef("--%s and --%s are both given; want one of them", by, flag.name)
		}
		by = flag.name
		out = &form.Form{Kind: flag.kind, Text: flag.text, Exact: f.reading == "exact"}
		if flag.file {
			info, err := os.Stat(flag.text)
			if err == nil && info.Size() > maxFormFile {
				err = fmt.Errorf("%s has %d bytes, want at most %d", flag.text, info.Size(), maxFormFile)
			}
			var text []byte
			if err == nil {
				text, err = os.ReadFile(flag.text)
			}
			if err != nil {
				return nil, "", usagef("--%s: %v", by, err)
			}
			out.Text = string(text)
		}
	}
	return out, by, nil
}

// constraint returns the constraint of a text, nil where there is none. For a reply,
// prompt is what it replies to.
func (f *formFlags) constraint(tok *tokenizer.Tokenizer, prompt *chat.Prompt, ends bool) (constrain.Constraint, error) {
	held, by, err := f.read()
	if held == nil || err != nil {
		return nil, err
	}
	if f.tok != tok {
		f.tok, f.vocabulary = tok, form.Vocabulary(tok)
	}
	a, err := held.Compile(context.Background(), tok, f.vocabulary, prompt, nil)
	if err != nil {
		return nil, usagef("--%s: %v", by, err)
	}
	return a.New(ends), nil
}
