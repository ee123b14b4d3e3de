package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/quern-llm/quern/go/media/document"
)

// maxText bounds the size of a text read: far above any context, and still harmless.
const maxText = 256 << 20

// A textFlag is a text given as an argument, by -p, by -f, or on standard input.
type textFlag struct {
	args       []string // at most one, for commands that take the text as an argument
	text, file string
	optional   bool // none of these means empty
	flags      *pflag.FlagSet
}

func (t *textFlag) define(fs *pflag.FlagSet, what string) {
	t.flags = fs
	fs.StringVarP(&t.text, "prompt", "p", "", "`TEXT` "+what)
	fs.StringVarP(&t.file, "file", "f", "", "read it from a `FILE` instead; - is standard input")
}

// read returns the text. Without a flag it is read from stdin, unless that is a
// terminal: the program must not silently wait for input.
func (t *textFlag) read(stdin io.Reader) (string, error) {
	arg, prompt, file := len(t.args) > 0, t.flags.Changed("prompt"), t.flags.Changed("file")
	switch {
	case arg && (prompt || file):
		return "", usagef("%.40q and a flag, -p or -f, both give a text; give one of them", t.args[0])
	case prompt && file:
		return "", usagef("-p and -f both give a text; give one of them")
	case arg:
		return t.args[0], nil
	case prompt:
		return t.text, nil
	case file && t.file != "-":
		text, err := readFile(t.file)
		return inUTF8(text, t.file, err)
	case !file && isTerminal(stdin) && t.optional:
		return "", nil
	case !file && isTerminal(stdin):
		return "", usagef("no text; give one with -p \"...\", -f FILE or on standard input")
	}
	text, err := readAll(stdin, "standard input")
	return inUTF8(text, "standard input", err)
}

// inUTF8 refuses a text in another encoding, such as a code page of Windows, of which a model would read other letters.
func inUTF8(text, name string, err error) (string, error) {
	if err == nil && !utf8.ValidString(text) {
		return "", fmt.Errorf("%s is not UTF-8; give UTF-8, or UTF-16 with a byte order mark", name)
	}
	return text, err
}

// typed reports whether the text was given on the command line.
func (t *textFlag) typed() bool { return len(t.args) > 0 || t.flags.Changed("prompt") }

func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.IsDir() {
		return "", fmt.Errorf("%s is a directory; give a text file", name)
	}
	return readAll(f, name)
}

func readAll(r io.Reader, name string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxText+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxText:
		return "", fmt.Errorf("%s is longer than %d MiB; give a shorter text", name, maxText>>20)
	}
	text, err := document.Unmarked(b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// isTerminal reports whether f is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

var errNoPrompt = errors.New("the prompt is empty and the model has no BOS token to begin with; give a prompt")
