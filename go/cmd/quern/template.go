package main

import (
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/launch"
)

// templateFlags select the chat template.
type templateFlags struct {
	source string // a template, or the name of a built-in one
	file   string
	split  bool // control tokens in messages are text
}

func (f *templateFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.source, "chat-template", "", "chat template, or the `NAME` of a known one (default: the model's)")
	fs.StringVar(&f.file, "chat-template-file", "", "`FILE` with the chat template")
	switchVar(fs, &f.split, "split-special-tokens", true, "take control tokens of the model in messages for text; --no-split-special-tokens has messages use them")
}

// check validates combinations of flags.
func (f *templateFlags) check() error {
	if f.source != "" && f.file != "" {
		return usagef("--chat-template and --chat-template-file both give a template; give one of them")
	}
	return nil
}

// settings returns the flags as settings of a model.
func (f *templateFlags) settings() launch.Template {
	return launch.Template{Source: f.source, File: f.file, Trust: !f.split}
}
