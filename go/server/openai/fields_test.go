package openai_test

import (
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/openai"
)

// Every field of every endpoint, with every wrong type and just outside of its range.
func TestWrongFields(t *testing.T) {
	t.Parallel()
	for path, fields := range map[string]string{"/v1/chat/completions": fake.Hi, "/v1/completions": `"prompt":"x"`,
		"/v1/responses": `"input":"x"`} {
		fake.WrongFields(t, (&openai.API{}).Routes(), path, fields, map[string][]string{
			"*openai.kept": {`1`, `true`, `[]`, `"x"`},
			"*openai.responseItems": {
				`1`, `true`, `{}`, `[1]`, `[{}]`, `[{"type":1}]`, `[{"role":"user","content":1}]`,
				`[{"role":"user","content":[1]}]`,
				`[{"type":"reasoning","summary":1}]`,
			},
			"*openai.responseTools": {
				`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"type":"function"}]`, `[{"type":"function","name":1}]`,
				`[{"type":"namespace","name":"n","tools":1}]`,
			},
			"openai.choiceOf":          {`1`, `true`, `[]`, `{}`, `"x"`, `{"name":1}`, `{"function":{"name":[]}}`},
			"*openai.reasoningOptions": {`1`, `true`, `[]`, `"x"`, `{"effort":1}`, `{"summary":"x"}`},
			"*openai.textOptions":      {`1`, `true`, `[]`, `"x"`, `{"format":1}`, `{"format":{"type":"x"}}`, `{"verbosity":1}`},
		})
	}
}
