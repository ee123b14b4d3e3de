package openai_test

import (
	"testing"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/openai"
)

// Every field of every endpoint, with every wrong type and just outside of its range.
func TestWrongFields(t *testing.T) {
	for path, fields := range map[string]string{"/v1/chat/completions": fake.Hi, "/v1/completions": `"prompt":"x"`, "/v1/responses": `"input":"x"`} {
		fake.WrongFields(t, (&openai.API{}).Routes(), path, fields, wrongValues)
	}
}

// wrongValues are values that a target of this API refuses.
func wrongValues(to field.Target) []string {
	switch to := to.(type) {
	case *openai.Kept:
		return []string{`1`, `true`, `[]`, `"x"`}
	case *openai.ResponseItems:
		return []string{
			`1`, `true`, `{}`, `[1]`, `[{}]`, `[{"type":1}]`, `[{"role":"user","content":1}]`, `[{"role":"user","content":[1]}]`,
			`[{"type":"reasoning","summary":1}]`,
		}
	case *openai.ResponseTools:
		return []string{
			`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"type":"function"}]`, `[{"type":"function","name":1}]`,
			`[{"type":"namespace","name":"n","tools":1}]`,
		}
	case openai.ChoiceOf:
		return fake.WrongValues(to.To)
	case *openai.ReasoningOptions:
		return []string{`1`, `true`, `[]`, `"x"`, `{"effort":1}`, `{"summary":"x"}`}
	case *openai.TextOptions:
		return []string{`1`, `true`, `[]`, `"x"`, `{"format":1}`, `{"format":{"type":"x"}}`, `{"verbosity":1}`}
	}
	return nil
}
