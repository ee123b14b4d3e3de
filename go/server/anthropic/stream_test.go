package anthropic_test

import (
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/anthropic"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// A stream begins with what the prompt took and nothing generated, and says how far a prompt is only to those who ask.
func TestStreamBegins(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(_ *server.Config, _ *ask.Model, f *fake.Engine) { f.Parts = 3 })
	for asked, want := range map[string]int{"": 0, `,"return_progress":true`: 5} {
		progress := 0
		for i, data := range s.NamedEvents("/v1/messages", `{`+ask1+`,"stream":true`+asked+`}`) {
			e := fake.Parse[struct {
				Type     string
				Message  *claude
				Progress *struct{ Total, Processed int } `json:"prompt_progress"`
			}](t, []byte(data))
			if n := len(s.Last().Prompt); i == 0 && (e.Type != "message_start" || e.Message == nil || e.Message.Usage.Output != 0 ||
				e.Message.Usage.Read != 4 || e.Message.Usage.Input != n-4 || len(e.Message.Content) != 0) {
				t.Errorf("it begins with %s", data)
			}
			if e.Progress != nil {
				progress++
			}
			if i > 0 && e.Type == "message_start" {
				t.Errorf("it begins twice: %s", data)
			}
		}
		if progress != want {
			t.Errorf("with %q it says %d times how far the prompt is, want %d", asked, progress, want)
		}
	}
}

// Ids of calls come back as the model had them, whatever they are.
func TestCallIDsComeBack(t *testing.T) {
	t.Parallel()
	letters := strings.Repeat("a", 24)
	for sent, want := range map[string]string{"": "", "toolu_": "toolu_", "toolu_x": "x", "x": "x", "call_x": "call_x", "toolu_" + letters: "call_" + letters, "toolu_" + letters + "b": letters + "b"} {
		if got := anthropic.ModelID(sent); got != want {
			t.Errorf("%q is %q, want %q", sent, got, want)
		}
	}
	for own, want := range map[string]string{"x": "toolu_x", "call_" + letters: "toolu_" + letters} {
		if got := anthropic.NewID(own); got != want {
			t.Errorf("%q is sent as %q, want %q", own, got, want)
		}
	}
}

// What is no text in the system prompt, and what is no tool, is refused by name.
func TestAnthropicRefuses(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		`"system":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"x"}]`: `system: block 1: type: "tool_result", want text`,
		`"tools":[{"name":"f","input_schema":{}},{"name":5,"input_schema":{}}]`:          `tools: element 1: number at "/name", want string`,
		`"tools":[{"type":"bash_20250124","name":"bash"}]`:                               `tools: element 0: type: "bash_20250124" is a tool that Anthropic defines or runs, want one with an input_schema`,
		`"tools":[{"input_schema":{}}]`:                                                  `tools: element 0: name: missing`,
	} {
		if _, err := anthropic.Converse([]byte(`{` + ask1 + `,` + fields + `}`)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", fields, err, want)
		}
	}
	for _, fields := range []string{`"system":[{"type":"text","text":"a"}]`, `"system":"a"`, `"tools":[{"type":"custom","name":"f","input_schema":{}}]`, `"tools":[{"type":null,"name":"f","input_schema":{}}]`} {
		if _, err := anthropic.Converse([]byte(`{` + ask1 + `,` + fields + `}`)); err != nil {
			t.Errorf("%s: %v", fields, err)
		}
	}
}

// A budget of thinking is of one token at least, and what is wrong with a count is told as with a message.
func TestThinkingBudget(t *testing.T) {
	t.Parallel()
	for thinking, want := range map[string]int{`{"type":"enabled","budget_tokens":1}`: 1, `{"type":"enabled","budget_tokens":2147483647}`: 2147483647} {
		c, err := anthropic.Converse([]byte(`{` + ask1 + `,"thinking":` + thinking + `}`))
		if err != nil || c.Budget.Tokens != want {
			t.Errorf("%s: %+v, %v", thinking, c, err)
		}
	}
	for thinking, want := range map[string]string{
		`{"type":"enabled","budget_tokens":0}`: "thinking: budget_tokens: 0, want an integer from 1 to 2147483647",
		`{"budget_tokens":5}`:                  "thinking: type: missing, want enabled, adaptive or disabled",
	} {
		if _, err := anthropic.Converse([]byte(`{` + ask1 + `,"thinking":` + thinking + `}`)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", thinking, err, want)
		}
	}
	s := fake.New(t, "Hello", nil)
	for body, want := range map[string]string{`{}`: "messages: missing", `{"messages":5}`: "messages: 5, want", `{`: "the body ends"} {
		if status, b, _ := s.Do("POST", "/v1/messages/count_tokens", body); status != 400 || !strings.Contains(string(b), want) {
			t.Errorf("%s: %d %s, want %s", body, status, b, want)
		}
	}
}
