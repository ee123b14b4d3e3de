package launch

import (
	"fmt"
	"os"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Template says which chat template a model has. The zero value is its own.
type Template struct {
	Source string // a template, or the name of a known one
	File   string // with a template
	Trust  bool   // control tokens in messages are control tokens
}

// maxTemplateFile is the size of the largest template that is read.
const maxTemplateFile = 16 << 20

// Template returns the template that is given, or else the model's own. If that is missing or unusable, it is a
// built-in one for its vocabulary, and warning says why.
func (h *Head) Template(given Template) (t *chat.Template, warning string, err error) {
	t, warning, err = h.template(given)
	if err == nil && given.Trust {
		t.Trust()
	}
	return t, warning, err
}

func (h *Head) template(given Template) (t *chat.Template, warning string, err error) {
	tokens := h.specialTokens()
	if given.Source == "" && given.File == "" {
		why := "the model has no chat template"
		if own, err := h.File.GGUF.Str("tokenizer.chat_template"); err == nil {
			t, err = chat.Parse(own, tokens)
			if err == nil {
				return t, "", nil
			}
			why = "the model's " + usage.OneLine(err)
		}
		name := chat.For(h.isToken)
		t, err = builtinTemplate(name, tokens)
		return t, why + ": " + name + " is used; --chat-template gives another", err
	}
	switch {
	case given.File != "":
		var source string
		if source, err = readTemplate(given.File); err != nil {
			return nil, "", err
		}
		t, err = chat.Parse(source, tokens)
	case strings.Contains(given.Source, "{"): // as every template does
		t, err = chat.Parse(given.Source, tokens)
	default:
		if t, err = builtinTemplate(given.Source, tokens); err != nil {
			err = fmt.Errorf("--chat-template: %w; or give a template", err)
		}
	}
	if err != nil {
		return nil, "", usage.Errorf("%w", err)
	}
	return t, "", nil
}

func readTemplate(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return "", fmt.Errorf("%s is a directory; give a text file", path)
	case info.Size() > maxTemplateFile:
		return "", fmt.Errorf("%s is longer than %d MiB; give a shorter text", path, maxTemplateFile>>20)
	}
	b, err := os.ReadFile(path)
	return string(b), err
}

// isToken reports whether text is one token of the vocabulary, and not plain text.
func (h *Head) isToken(text string) bool {
	ids := h.Tokenizer.Encode(text, tokenizer.Options{NoSpecial: true, ParseSpecial: true})
	return len(ids) == 1 && h.Tokenizer.Token(ids[0]) == text
}

func builtinTemplate(name string, tokens chat.SpecialTokens) (*chat.Template, error) {
	source, err := chat.Builtin(name)
	if err != nil {
		return nil, err
	}
	return chat.Parse(source, tokens)
}

// specialTokens returns the special tokens that templates may use.
func (h *Head) specialTokens() (tokens chat.SpecialTokens) {
	if id, ok := h.Tokenizer.BOS(); ok {
		tokens.BOS = h.Tokenizer.Token(id)
	}
	if id, ok := h.Tokenizer.EOS(); ok {
		tokens.EOS = h.Tokenizer.Token(id)
	}
	return tokens
}
