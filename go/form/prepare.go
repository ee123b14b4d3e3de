package form

import (
	"fmt"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
)

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
