package llamaserver_test

import (
	"testing"

	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/llamaserver"
)

// Every field of the endpoints that generate, with every wrong type and just outside of its range.
func TestWrongFields(t *testing.T) {
	t.Parallel()
	for path, fields := range map[string]string{"/completion": `"prompt":"x"`, "/infill": `"input_prefix":"x"`} {
		fake.WrongFields(t, (&llamaserver.API{List: &catalog.Catalog{}}).Routes(), path, fields, map[string][]string{
			"*llamaserver.extraFiles": {`1`, `true`, `{}`, `"x"`, `[1.5]`, `[[]]`},
		})
	}
}
