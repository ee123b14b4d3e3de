package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
)

const anthropicCalls = `{"max_tokens":400,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"get_weather","description":"The weather","cache_control":{"type":"ephemeral"},"input_schema":{"type":"object","properties":{"place":{"type":"string"}}}},{"type":"custom","name":"get_time","input_schema":{"type":"object"}}]`

// Calls are blocks, whole and streamed, and the tools are in the prompt.
func TestAnthropicTools(t *testing.T) {
	t.Parallel()
	s := fake.New(t, fake.Calls, nil)
	a := fake.Post[struct {
		Content []struct {
			Type, Text, ID, Name string
			Input                json.RawMessage
		}
		StopReason string `json:"stop_reason"`
	}](s, "/v1/messages", anthropicCalls+`}`)
	if len(a.Content) != 3 || a.StopReason != "tool_use" || a.Content[0].Text != "Let me see." ||
		a.Content[1].Type != "tool_use" || a.Content[1].Name != "get_weather" ||
		string(a.Content[1].Input) != `{"place":"Rome"}` || string(a.Content[2].Input) != `{}` || a.Content[1].ID == "" ||
		a.Content[1].ID == a.Content[2].ID {
		t.Errorf("%+v", a)
	}
	var names, input, stop string
	for _, data := range s.NamedEvents("/v1/messages", anthropicCalls+`,"stream":true}`) {
		e := fake.Parse[struct {
			Type  string
			Block struct {
				Type, Name string
				Input      *struct{}
			} `json:"content_block"`
			Delta struct {
				JSON string `json:"partial_json"`
				Stop string `json:"stop_reason"`
			}
		}](t, []byte(data))
		if e.Block.Type == "tool_use" {
			names, input = names+e.Block.Name+" ", input+" "
			if e.Block.Input == nil {
				t.Errorf("a call begins without input: %s", data)
			}
		}
		input += e.Delta.JSON
		stop += e.Delta.Stop
	}
	if names != "get_weather get_time " || strings.ReplaceAll(strings.TrimSpace(input), `": `,
		`":`) != `{"place":"Rome"} {}` || stop != "tool_use" {
		t.Errorf("calls %q with %q, stopped by %q", names, input, stop)
	}
	for choice, want := range map[string]string{
		`{"type":"auto","disable_parallel_tool_use":true}`: "",
		`{"type":"none"}`:                   "",
		`{"type":"tool","name":"get_fish"}`: `tool_choice: no tool has the name "get_fish"`,
	} {
		status, b, _ := s.Do("POST", "/v1/messages", anthropicCalls+`,"tool_choice":`+choice+`}`)
		if ok := status == 200; ok != (want == "") || want != "" && fake.Parse[failure](t, b).Error.Message != want {
			t.Errorf("%s: %d %s", choice, status, b)
		}
	}
}
