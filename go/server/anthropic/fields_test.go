package anthropic_test

import (
	"testing"

	"github.com/quern-llm/quern/go/server/anthropic"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// Every field with every wrong type and just outside of its range.
func TestWrongFields(t *testing.T) {
	t.Parallel()
	fake.WrongFields(t, (&anthropic.API{}).Routes(), "/v1/messages", ask1, map[string][]string{
		"*anthropic.absentFeature": {`1`, `true`, `{}`, `"x"`, `[1]`},
		"*anthropic.system": {`1`, `true`, `{}`, `[1]`, `[{}]`, `[{"type":"text"}]`, `[{"type":"text","text":1}]`,
			`[{"type":"image"}]`},
		"*anthropic.turns": {
			`1`, `true`, `{}`, `"x"`, `[]`, `[1]`, `[{}]`, `[{"role":1}]`, `[{"role":"user"}]`, `[{"role":"user","content":1}]`,
			`[{"role":"user","content":[{"type":1}]}]`,
		},
		"anthropic.tools": {
			`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"name":"f"}]`, `[{"name":1,"input_schema":{}}]`,
			`[{"name":"f","input_schema":[]}]`, `[{"type":"web_search_20250305","name":"web_search"}]`, `[{"type":"mcp_toolset"}]`,
		},
		"anthropic.mcpServers": {`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"type":"url","name":1}]`, `[{"type":"url","name":"x"}]`},
		"*anthropic.choice":    {`1`, `true`, `[]`, `"x"`, `{}`, `{"type":1}`, `{"type":"x"}`},
		"*anthropic.thinking":  {`1`, `true`, `[]`, `"x"`, `{}`, `{"type":1}`, `{"type":"x"}`},
		"*anthropic.outputConfig": {`1`, `true`, `[]`, `"x"`, `{"effort":1}`, `{"effort":"x"}`, `{"format":1}`,
			`{"format":{"type":"x"}}`},
	})
}
