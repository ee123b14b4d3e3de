package form

import (
	"fmt"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
)

// Warm makes what all grammars of a vocabulary share, and strings of JSON: for a quarter of a million tokens it takes a
// quarter of a second, for which the first client with a schema would wait.
func Warm(tokens int, vocabulary func() *constrain.Vocabulary) {
	v := vocabulary()
	char := grammar.NewClass(grammar.Range{Lo: '"', Hi: '"'}, grammar.Range{Lo: '\\', Hi: '\\'}, grammar.Range{Lo: 0, Hi: 0x1F}).Negate()
	g := &grammar.Grammar{}
	g.Add("root", grammar.Repeat{Expr: char, Max: -1})
	if a, err := v.Compile(g); err == nil {
		a.New(true).Mask(constrain.NewSet(tokens))
	}
}

// Prepare makes the automata of all formats of JSON Schema, which are kept for whatever schema has them: some take
// ten times as long as an ordinary schema, and the first client with one would wait for them.
func Prepare() error {
	v := constrain.NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	for _, name := range jsonschema.Formats() {
		g, err := jsonschema.Grammar(fmt.Appendf(nil, `{"type":"string","format":%q}`, name), jsonschema.Options{})
		if err == nil {
			_, err = v.Compile(g)
		}
		if err != nil {
			return fmt.Errorf("format %q: %w", name, err)
		}
	}
	return nil
}
