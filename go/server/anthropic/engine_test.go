package anthropic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// A block is one of an answer, or of a stream.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
}

// message is an answer of the engine, whole or put together from a stream.
type message struct {
	Content []block `json:"content"`
	Reason  string  `json:"stop_reason"`
	Word    *string `json:"stop_sequence"`
	Usage   struct {
		Input  int `json:"input_tokens"`
		Read   int `json:"cache_read_input_tokens"`
		Output int `json:"output_tokens"`
	} `json:"usage"`
}

// shown is an answer in a line.
func (m *message) shown() string {
	var all []string
	for _, b := range m.Content {
		var input any
		if len(b.Input) > 0 {
			_ = json.Unmarshal(b.Input, &input)
		}
		all = append(all, fmt.Sprintf("%s %s%s%s %v", b.Type, b.Thinking, b.Text, b.Name, input))
	}
	word := ""
	if m.Word != nil {
		word = *m.Word
	}
	return strings.Join(all, "; ") + " | " + m.Reason + " " + word
}

// streamed puts the events of a stream together.
func streamed(t *testing.T, s *fake.Site, body string) (m message) {
	t.Helper()
	input := map[int]string{}
	for _, data := range s.NamedEvents("/v1/messages", body) {
		e := fake.Parse[struct {
			Type  string `json:"type"`
			Index int    `json:"index"`
			Block block  `json:"content_block"`
			Delta struct {
				Text     string  `json:"text"`
				Thinking string  `json:"thinking"`
				JSON     string  `json:"partial_json"`
				Reason   string  `json:"stop_reason"`
				Word     *string `json:"stop_sequence"`
			} `json:"delta"`
		}](t, []byte(data))
		switch e.Type {
		case "content_block_start":
			if e.Index != len(m.Content) {
				t.Errorf("block %d begins as number %d", len(m.Content), e.Index)
			}
			m.Content = append(m.Content, e.Block)
		case "content_block_delta":
			m.Content[e.Index].Text += e.Delta.Text
			m.Content[e.Index].Thinking += e.Delta.Thinking
			input[e.Index] += e.Delta.JSON
		case "content_block_stop":
			if text := input[e.Index]; text != "" {
				m.Content[e.Index].Input = json.RawMessage(text)
			}
		case "message_delta":
			m.Reason, m.Word = e.Delta.Reason, e.Delta.Word
		}
	}
	return m
}

// A real engine's answers: thoughts, text, calls and their results, and how they end; streams have the same.
func TestMessagesOnTheEngine(t *testing.T) {
	t.Parallel()
	s := fake.Says(t,
		scripted.Script{When: "messages[-1].role == 'tool'", Text: "It is 21 °C in Rome."},
		scripted.Script{When: "tools", Text: "<think>\nA tool?\n</think>\n\nOne moment.\n<tool_call>\n{\"name\": " +
			"\"get_weather\", \"arguments\": {\"place\": \"Rome\"}}\n</tool_call>"},
		scripted.Script{When: "messages[0].role == 'system'", Text: "Briefly: no."},
		scripted.Script{Text: "<think>\nHm.\n</think>\n\nHello there, and more."})
	const tools = `"tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}}]`
	const result = `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"One moment."},{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"place":"Rome"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"21"}]}]`
	for fields, want := range map[string]string{
		fake.Hi:                        "thinking Hm. <nil>; text Hello there, and more. <nil> | end_turn ",
		fake.Hi + `,"system":"Short."`: "text Briefly: no. <nil> | end_turn ",
		fake.Hi + `,"stop_sequences":["xyz",", and"]`: "thinking Hm. <nil>; text Hello there <nil> | stop_sequence , and",
		fake.Hi + "," + tools: "thinking A tool? <nil>; text One moment. <nil>; tool_use " +
			"get_weather map[place:Rome] | tool_use ",
		result + "," + tools: "text It is 21 °C in Rome. <nil> | end_turn ",
	} {
		body := `{"max_tokens":200,"temperature":0,` + fields
		whole := fake.Post[message](s, "/v1/messages", body+"}")
		if got := whole.shown(); got != want {
			t.Errorf("%s: got\n%s, want\n%s", fields, got, want)
		}
		in := streamed(t, s, body+`,"stream":true}`)
		if got := in.shown(); got != want {
			t.Errorf("%s: as a stream\n%s, want\n%s", fields, got, want)
		}
		count := fake.Post[struct {
			Input int `json:"input_tokens"`
		}](s, "/v1/messages/count_tokens", body+"}")
		if count.Input != whole.Usage.Input+whole.Usage.Read || whole.Usage.Output == 0 {
			t.Errorf("%s: counted %d, used %+v", fields, count.Input, whole.Usage)
		}
	}
	if m := fake.Post[message](s, "/v1/messages", `{"max_tokens":2,`+fake.Hi+`}`); m.Reason != "max_tokens" ||
		m.Usage.Output != 2 {
		t.Errorf("two tokens: %s, %+v", m.shown(), m.Usage)
	}
}
