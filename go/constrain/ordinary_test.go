package constrain_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
	"github.com/quern-llm/quern/go/grammar/regex"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/tokenizer"
)

// ordinary are schemas and regular expressions that every model takes, with a text of each.
var ordinary = []struct{ schema, regex, text string }{
	{schema: `{"type":"string"}`, text: `"så 日本"`},
	{schema: `{"type":"string","minLength":1,"maxLength":1024}`, text: `"some words"`},
	{schema: `{"type":"string","minLength":40}`, text: `"` + strings.Repeat("word ", 9) + `"`},
	{schema: `{"type":"array","items":{"type":"string","minLength":2},"minItems":3}`, text: `["ab", "cd", "ef"]`},
	{schema: `{"type":"object","properties":{"a":{"type":"string","minLength":3},"b":{"type":"integer"}},"required":["a"]}`, text: `{"a": "xyz", "b": 3}`},
	{schema: `{"type":"object","additionalProperties":{"type":"number"}}`, text: `{"any": 1.5}`},
	{schema: `{"type":"string","pattern":"^[a-z]{2,80}$"}`, text: `"letters"`},
	{schema: `{"type":"string","format":"date"}`, text: `"2026-11-24"`},
	{schema: `{"enum":["red","grün",3]}`, text: `"red"`},
	{regex: `.{1,10}`, text: "ten chars!"},
	{regex: `.{100,}`, text: strings.Repeat("long ", 30)},
	{regex: `(\p{L}|\p{N}|[ ,.]){1,300}`, text: "words, 12 of them."},
	{regex: `[^"]+`, text: "no quotes"},
	{regex: `(yes|no)(, (yes|no)){2}`, text: "yes, no, yes"},
}

// No vocabulary refuses an ordinary grammar, whatever bytes its tokens lack: those of GPT-2, of DeepSeek, which has no token for bytes
// that UTF-8 never has, of models with a token for each byte, and of encoders whose tokens are characters.
func TestOrdinaryGrammars(t *testing.T) {
	files, err := os.ReadDir(testdata.Path(t, "tokenizers/cases"))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, f := range files {
		name, is := strings.CutPrefix(f.Name(), "ggml-vocab-")
		if ext := filepath.Ext(name); !is || ext != ".gguf" && ext != ".zst" {
			continue
		}
		tried++
		t.Run(name, func(t *testing.T) {
			tok, v := load(t, name)
			spaces := len(tok.Encode(" ", tokenizer.Options{NoSpecial: true})) > 0
			for _, x := range ordinary {
				g := &grammar.Grammar{}
				var err error
				if x.schema != "" {
					g, err = jsonschema.Grammar([]byte(x.schema), jsonschema.Options{})
				} else {
					var e grammar.Expr
					e, err = regex.Full(x.regex, regex.DotAll)
					g.Add("root", e)
				}
				if err != nil {
					t.Fatal(err)
				}
				a, err := v.Compile(g)
				if err != nil {
					t.Errorf("%s: %v", cmp.Or(x.schema, x.regex), err)
				} else if spaces {
					follow(t, tok, a, cmp.Or(x.schema, x.regex), x.text)
				}
			}
		})
	}
	if tried < 9 {
		t.Errorf("only %d vocabularies", tried)
	}
}

// follow fails if a text, by the longest tokens, is not allowed.
func follow(t *testing.T, tok *tokenizer.Tokenizer, a *constrain.Automaton, name, text string) {
	t.Helper()
	ids := map[string]int32{}
	for id := range int32(tok.Len()) {
		ids[string(tok.Piece(id, false))] = id
	}
	c := a.New(true)
	next := constrain.NewSet(tok.Len())
	for at := 0; at < len(text); {
		to := min(len(text), at+40)
		for ; to > at; to-- {
			if _, is := ids[text[at:to]]; is {
				break
			}
		}
		clear(next)
		if c.Mask(next); to == at || !next.Has(ids[text[at:to]]) || !c.Accept(ids[text[at:to]]) {
			t.Errorf("%s: %q is not allowed after %q", name, text[at:to], text[:at])
			return
		}
		at = to
	}
	clear(next)
	if c.Mask(next); !next.Has(tok.EOG()[0]) {
		t.Errorf("%s: %q may not end", name, text)
	}
}
