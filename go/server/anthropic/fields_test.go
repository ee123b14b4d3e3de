package anthropic_test

import (
	"testing"

	"github.com/quern-llm/quern/go/server/anthropic"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// Every field with every wrong type and just outside of its range.
func TestAnthropicWrongFields(t *testing.T) {
	fake.WrongFields(t, anthropic.Routes(), "/v1/messages", ask1, func(to field.Target) []string {
		switch to.(type) {
		case *anthropic.AbsentFeature:
			return []string{`1`, `true`, `{}`, `"x"`, `[1]`}
		case *anthropic.System:
			return []string{`1`, `true`, `{}`, `[1]`, `[{}]`, `[{"type":"text"}]`, `[{"type":"text","text":1}]`, `[{"type":"image"}]`}
		case *anthropic.Turns:
			return []string{
				`1`, `true`, `{}`, `"x"`, `[]`, `[1]`, `[{}]`, `[{"role":1}]`, `[{"role":"user"}]`, `[{"role":"user","content":1}]`,
				`[{"role":"user","content":[{"type":1}]}]`,
			}
		case anthropic.Tools:
			return []string{
				`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"name":"f"}]`, `[{"name":1,"input_schema":{}}]`, `[{"name":"f","input_schema":[]}]`,
			}
		case *anthropic.Choice, *anthropic.Thinking:
			return []string{`1`, `true`, `[]`, `"x"`, `{}`, `{"type":1}`, `{"type":"x"}`}
		case *anthropic.OutputConfig:
			return []string{`1`, `true`, `[]`, `"x"`, `{"effort":1}`, `{"effort":"x"}`, `{"format":1}`, `{"format":{"type":"x"}}`}
		}
		return nil
	})
}
