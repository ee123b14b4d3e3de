package form_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
)

// After Prepare a schema with a format takes what its own automaton does, and not what the format's does, which is
// more than 10,000 allocations.
func TestPrepare(t *testing.T) {
	if err := form.Prepare(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"email", "hostname", "uri"} {
		v := constrain.NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		g, err := jsonschema.Grammar(fmt.Appendf(nil, `{"type":"array","items":{"type":"string","format":%q}}`, name), jsonschema.Options{})
		if err == nil {
			_, err = v.Compile(g)
		}
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if made := after.Mallocs - before.Mallocs; made > 5000 {
			t.Errorf("%s: %d allocations", name, made)
		}
	}
}
