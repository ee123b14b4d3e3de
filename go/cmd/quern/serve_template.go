package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server"
)

// errNoTemplate is not the fault of a command line: chats are refused, and the
// rest is served.
var errNoTemplate = errors.New("the model has no chat template")

// chatTemplate returns the template that the flags name, or else the model's own.
func (f *serveFlags) chatTemplate(in *head) (server.Template, error) {
	source := f.template
	if f.tmplFile != "" {
		var err error
		if source, err = readFile(f.tmplFile); err != nil {
			return nil, err
		}
	}
	var tokens chat.SpecialTokens
	if id, ok := in.tok.BOS(); ok {
		tokens.BOS = in.tok.Token(id)
	}
	if id, ok := in.tok.EOS(); ok {
		tokens.EOS = in.tok.Token(id)
	}
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
	if f.tmplFile == "" && !strings.Contains(source, "{") { // as every template does
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
