package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/chat"
)

// errNoTemplate is not the fault of a command line: a server refuses chats, and
// serves the rest.
var errNoTemplate = errors.New("the model has no chat template")

// templateFlags say which chat template to use.
type templateFlags struct {
	source string // of one, or the name of a builtin
	file   string
}

func (f *templateFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.source, "chat-template", "", "chat template, or the `NAME` of a known one (default: the model's)")
	fs.StringVar(&f.file, "chat-template-file", "", "`FILE` with the chat template")
}

// check finds what no single flag can.
func (f *templateFlags) check() error {
	if f.source != "" && f.file != "" {
		return usagef("--chat-template and --chat-template-file both give a template; give one of them")
	}
	return nil
}

// read returns the template that the flags name, or else the model's own.
func (f *templateFlags) read(in *head) (*chat.Template, error) {
	source := f.source
	if f.file != "" {
		var err error
		if source, err = readFile(f.file); err != nil {
			return nil, err
		}
	}
	tokens := specialTokens(in)
	if source == "" {
		own, err := in.file.GGUF.Str("tokenizer.chat_template")
		if err != nil {
			return nil, errNoTemplate
		}
		t, err := chat.Parse(own, tokens)
		if err != nil {
			return nil, fmt.Errorf("%w that can be read: %v", errNoTemplate, err)
		}
		return t, nil
	}
	if f.file == "" && !strings.Contains(source, "{") { // as every template does
		var err error
		if source, err = chat.Builtin(source); err != nil {
			return nil, usagef("--chat-template: %w; or give a template", err)
		}
	}
	t, err := chat.Parse(source, tokens)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return t, nil
}

// specialTokens returns the tokens of the model that templates write.
func specialTokens(in *head) (tokens chat.SpecialTokens) {
	if id, ok := in.tok.BOS(); ok {
		tokens.BOS = in.tok.Token(id)
	}
	if id, ok := in.tok.EOS(); ok {
		tokens.EOS = in.tok.Token(id)
	}
	return tokens
}
