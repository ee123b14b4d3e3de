package openai_test

import (
	"fmt"
	"testing"

	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// The older form of tools, in which a model's call comes and its result goes back.
func TestFunctionsOnTheEngine(t *testing.T) {
	t.Parallel()
	s := fake.Says(t,
		scripted.Script{When: "messages[-1].role == 'tool'", Text: "Noon."},
		scripted.Script{Text: "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {\"place\": \"Rome\"}}\n</tool_call>"})
	const functions = `,"functions":[{"name":"get_time","parameters":{"type":"object","properties":{"place":{"type":"string"}}}}],"temperature":0`
	c := fake.Post[chatAnswer](s, "/v1/chat/completions", `{`+fake.Hi+functions+`}`).Choices[0]
	if c.Finish != "function_call" || c.Message.Call == nil || c.Message.Call.Name != "get_time" ||
		c.Message.Call.Arguments != `{"place": "Rome"}` || c.Message.Calls != nil {
		t.Errorf("%+v", c)
	}
	var name, arguments, finish string
	for _, e := range s.Events("/v1/chat/completions", `{`+fake.Hi+functions+`,"stream":true}`) {
		if e == "[DONE]" {
			break
		}
		c := fake.Parse[toolChunk](t, []byte(e)).Choices[0]
		if c.Delta.Call != nil {
			name, arguments = name+c.Delta.Call.Name, arguments+c.Delta.Call.Arguments
		}
		if c.Finish != nil {
			finish = *c.Finish
		}
	}
	if name != "get_time" || arguments != `{"place": "Rome"}` || finish != "function_call" {
		t.Errorf("streamed: %q %q %q", name, arguments, finish)
	}
	c = fake.Post[chatAnswer](s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"function_call":{"name":"get_time","arguments":"{}"}},
		{"role":"function","name":"get_time","content":"12"}]`+functions+`}`).Choices[0]
	if c.Message.Content == nil || *c.Message.Content != "Noon." || c.Finish != "stop" {
		t.Errorf("after a result: %+v", c)
	}
}

// Where thoughts go is the client's to say, whole and streamed, and stop words end an answer without being in it.
func TestReasoningOnTheEngine(t *testing.T) {
	t.Parallel()
	const says = "<think>\nLet me see.\n</think>\n\nHello there, and more."
	s := fake.Says(t, scripted.Script{Text: says})
	for fields, want := range map[string][2]string{
		``: {"Hello there, and more.", "Let me see."}, `,"reasoning_format":"none"`: {says, ""},
		`,"reasoning_format":"deepseek-legacy"`: {says, "Let me see."},
		`,"stop":[", and"]`:                     {"Hello there", "Let me see."}, `,"stop":"see"`: {"", "Let me"},
	} {
		body := `{` + fake.Hi + fields + `,"temperature":0`
		m := fake.Post[chatAnswer](s, "/v1/chat/completions", body+`}`).Choices[0].Message
		content, reasoning := "", ""
		for _, e := range s.Events("/v1/chat/completions", body+`,"stream":true}`) {
			if e != "[DONE]" {
				d := fake.Parse[chunk](t, []byte(e)).Choices[0].Delta
				content, reasoning = content+d.Content, reasoning+d.Reasoning
			}
		}
		if *m.Content != want[0] || m.Reasoning != want[1] || content != want[0] || reasoning != want[1] {
			t.Errorf("%s: whole %q and %q, streamed %q and %q, want %q", fields, *m.Content, m.Reasoning, content, reasoning,
				want)
		}
	}
}

// Log-probabilities are of the tokens of the answer, and the same in a stream.
func TestLogprobsOnTheEngine(t *testing.T) {
	t.Parallel()
	s := fake.Says(t, scripted.Script{Text: "Hello, 21 °C there."})
	type read struct {
		Choices []struct {
			Logprobs *chatProbs `json:"logprobs"`
		} `json:"choices"`
	}
	const body = `{` + fake.Hi + `,"temperature":0,"logprobs":true,"top_logprobs":3`
	whole := fake.Post[read](s, "/v1/chat/completions", body+`}`).Choices[0].Logprobs.Content
	var streamed []tokenProb
	for _, e := range s.Events("/v1/chat/completions", body+`,"stream":true}`) {
		if e != "[DONE]" {
			if p := fake.Parse[read](t, []byte(e)).Choices[0].Logprobs; p != nil {
				streamed = append(streamed, p.Content...)
			}
		}
	}
	text := ""
	for _, one := range whole {
		for _, b := range one.Bytes {
			text += string([]byte{byte(b)})
		}
		if len(one.Top) != 3 || one.Top[0].Token != one.Token || one.Top[0].Logprob != one.Logprob || one.Logprob > 0 ||
			one.Logprob < one.Top[1].Logprob {
			t.Errorf("%+v", one)
		}
	}
	if text != "Hello, 21 °C there." || fmt.Sprint(streamed) != fmt.Sprint(whole) {
		t.Errorf("%q, whole\n%v, streamed\n%v", text, whole, streamed)
	}
}

// Responses of a real engine: thoughts, text and calls of each kind of tool, whole and streamed; one goes on from
// another that is stored, and from the results of its calls.
func TestResponsesOnTheEngine(t *testing.T) {
	t.Parallel()
	s := fake.Says(t,
		scripted.Script{When: "messages[-1].content == 'again'", Text: "You said that before."},
		scripted.Script{When: "messages[-1].role == 'tool'", Text: "Done."},
		scripted.Script{When: "messages[-1].content == 'log'",
			Text: "<think>\nA tool?\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"git__log\", \"arguments\": {\"n\": " +
				"3}}\n</tool_call>"},
		scripted.Script{When: "messages[-1].content == 'patch'",
			Text: "<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"+a\"}}\n</tool_call>"},
		scripted.Script{Text: "<think>\nHm.\n</think>\n\nHello there."})
	const tools = `,"tools":[{"type":"custom","name":"patch"},{"type":"namespace","name":"git","tools":[{"type":"function","name":"log","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}]}]`
	var last resp
	for _, tt := range []struct{ fields, want string }{
		{`"input":"hi"`, "reasoning reasoning_text Hm.; message output_text Hello there."},
		{`"input":"log"` + tools, `reasoning reasoning_text A tool?; message output_text I look.; function_call git/log {"n": 3}`},
		{`"input":"patch"` + tools, "custom_tool_call /patch +a"},
	} {
		body := `{` + tt.fields + `,"temperature":0`
		last = fake.Post[resp](s, "/v1/responses", body+`}`)
		if got := last.shown(); got != tt.want || last.Status != "completed" || last.Usage.Output == 0 {
			t.Errorf("%s: got %s, want %s; %+v", tt.fields, got, tt.want, last)
		}
		events := s.NamedEvents("/v1/responses", body+`,"stream":true}`)
		if got := fake.Parse[struct{ Response resp }](t, []byte(events[len(events)-1])).Response.shown(); got != tt.want {
			t.Errorf("%s: streamed %s, want %s", tt.fields, got, tt.want)
		}
	}
	after := fake.Post[resp](s, "/v1/responses",
		fmt.Sprintf(`{"previous_response_id":%q,"input":[{"type":"custom_tool_call_output","call_id":%q,"output":"ok"}],"temperature":0%s}`, last.ID, last.Output[0].CallID, tools))
	if got := after.shown(); got != "message output_text Done." || after.Previous != last.ID {
		t.Errorf("after a result: %s", got)
	}
	again := fake.Post[resp](s, "/v1/responses",
		fmt.Sprintf(`{"previous_response_id":%q,"input":"again","temperature":0}`, after.ID))
	alone := fake.Post[resp](s, "/v1/responses", `{"input":"again","temperature":0}`)
	if again.Usage.Input < alone.Usage.Input+20 || again.shown() != "message output_text You said that before." {
		t.Errorf("a prompt of %d tokens, alone of %d: %s", again.Usage.Input, alone.Usage.Input, again.shown())
	}
}
