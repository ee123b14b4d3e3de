package server

import (
	"testing"

	"github.com/quern-llm/quern/go/internal/scripted"
)

// chatML is a template of models that write calls as Hermes and Qwen do, and think.
const chatML = `{% if tools %}<|im_start|>system
# Tools, each within <tools></tools>, called as <tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>: {% for tool in tools %}{{ tool|tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function|tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{# <think> #}`

// Real tokens, a real grammar of chats, the real engine: a call, its result, an answer.
func TestScriptedTools(t *testing.T) {
	s := newScriptedSite(t, scripted.Model{Template: chatML, Controls: []string{"<|im_start|>", "<|im_end|>"}, Scripts: []scripted.Script{
		{When: "messages[-1].role == 'tool'", Text: "It is 21 °C in Rome."},
		{When: "tools", Text: "<think>\nThe weather? I have a tool.\n</think>\n\nOne moment.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}\n</tool_call>"},
		{Text: "I can't know that, and I can't know that."},
	}})
	const path = "/v1/chat/completions"
	for _, sampling := range []string{``, `,"temperature":0`, `,"stream":false,"temperature":1,"seed":3`} {
		c := post[chatAnswer](s, path, `{`+withTools+sampling+`}`).Choices[0]
		if m := c.Message; c.Finish != "tool_calls" || *m.Content != "One moment." || m.Reasoning != "The weather? I have a tool." ||
			len(m.Calls) != 1 || m.Calls[0].Function.Name != "get_weather" || m.Calls[0].Function.Arguments != `{"place": "Rome"}` {
			t.Fatalf("got %+v", c)
		}
	}
	const results = `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"One moment.","tool_calls":[{"id":"c1","type":"function",
		"function":{"name":"get_weather","arguments":"{\"place\": \"Rome\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"21"}]`
	for body, want := range map[string]string{
		hi: "I can't know that, and I can't know that.",
		results + `,"tools":[` + weatherTool + `]`: "It is 21 °C in Rome.",
	} {
		if c := post[chatAnswer](s, path, `{`+body+`}`).Choices[0]; *c.Message.Content != want || c.Finish != "stop" || c.Message.Calls != nil {
			t.Errorf("got %+v, want %q", c, want)
		}
	}
}
