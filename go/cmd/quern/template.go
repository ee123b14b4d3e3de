package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/tokenizer"
)

// templateFlags select the chat template.
type templateFlags struct {
	source string // a template, or the name of a built-in one
	file   string
}

func (f *templateFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.source, "chat-template", "", "chat template, or the `NAME` of a known one (default: the model's)")
	fs.StringVar(&f.file, "chat-template-file", "", "`FILE` with the chat template")
}

// check validates combinations of flags.
func (f *templateFlags) check() error {
	if f.source != "" && f.file != "" {
		return usagef("--chat-template and --chat-template-file both give a template; give one of them")
	}
	return nil
}

// read returns the template that the flags select, or else the model's own. If that is
// missing or unusable, it is a built-in one for its vocabulary, and warning says why.
func (f *templateFlags) read(in *head) (t *chat.Template, warning string, err error) {
	tokens := specialTokens(in)
	if f.source == "" && f.file == "" {
		why := "the model has no chat template"
		if own, err := in.file.GGUF.Str("tokenizer.chat_template"); err == nil {
			t, err = chat.Parse(own, tokens)
			if err == nil {
				return t, "", nil
			}
			why = "the model's " + oneLine(err)
		}
		name := chat.For(in.isToken)
		t, err = builtinTemplate(name, tokens)
		return t, why + ": " + name + " is used; --chat-template gives another", err
	}
	switch {
	case f.file != "":
		var source string
		if source, err = readFile(f.file); err != nil {
			return nil, "", err
		}
		t, err = chat.Parse(source, tokens)
	case strings.Contains(f.source, "{"): // as every template does
		t, err = chat.Parse(f.source, tokens)
	default:
		if t, err = builtinTemplate(f.source, tokens); err != nil {
			err = fmt.Errorf("--chat-template: %w; or give a template", err)
		}
	}
	if err != nil {
		return nil, "", usagef("%w", err)
	}
	return t, "", nil
}

// isToken reports whether text is one token of the vocabulary, and not plain text.
func (h *head) isToken(text string) bool {
	ids := h.tok.Encode(text, tokenizer.Options{NoSpecial: true, ParseSpecial: true})
	return len(ids) == 1 && h.tok.Token(ids[0]) == text
}

func builtinTemplate(name string, tokens chat.SpecialTokens) (*chat.Template, error) {
	source, err := chat.Builtin(name)
	if err != nil {
		return nil, err
	}
	return chat.Parse(source, tokens)
}

// specialTokens returns the special tokens that templates may use.
func specialTokens(in *head) (tokens chat.SpecialTokens) {
	if id, ok := in.tok.BOS(); ok {
		tokens.BOS = in.tok.Token(id)
	}
	if id, ok := in.tok.EOS(); ok {
		tokens.EOS = in.tok.Token(id)
	}
	return tokens
}
