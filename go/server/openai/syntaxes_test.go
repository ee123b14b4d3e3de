package openai_test

import (
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// A taught is how models of a family write calls, in pieces of which one and several calls are made.
type taught struct {
	family        string
	tells         string // by which the chat template shows it
	begin, end    string // around all calls
	before, after string // around the arguments of a call, with NAME for its tool
	arguments     string // of which the place is Rome
	between       string // calls; "-": they come alone
	final         string // before an answer
}

var taughtCalls = []taught{
	{family: "Hermes", tells: "<tool_call>", before: "<tool_call>\n{\"name\": \"NAME\", \"arguments\": ",
		after: "}\n</tool_call>", between: "\n"},
	{family: "Qwen3-Coder", tells: "<tool_call> <function= <parameter=", before: "<tool_call>\n<function=NAME>\n",
		after: "</function>\n</tool_call>", arguments: "<parameter=place>\nRome\n</parameter>\n", between: "\n"},
	{family: "Llama 3", tells: `"parameters": dictionary`, before: `{"name": "NAME", "parameters": `, after: "}",
		between: "-"},
	{family: "Mistral", tells: "[TOOL_CALLS]", begin: "[TOOL_CALLS][", end: "]", before: `{"name": "NAME", "arguments": `,
		after: "}", between: ", "},
	{family: "Mistral v11", tells: "[TOOL_CALLS] [ARGS]", before: "[TOOL_CALLS]NAME[ARGS]"},
	{family: "DeepSeek V3", tells: "<｜tool▁call▁begin｜> ```json", begin: "<｜tool▁calls▁begin｜>", end: "<｜tool▁calls▁end｜>",
		before: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n", after: "\n```<｜tool▁call▁end｜>", between: "\n"},
	{family: "DeepSeek V3.1", tells: "<｜tool▁call▁begin｜>", begin: "<｜tool▁calls▁begin｜>", end: "<｜tool▁calls▁end｜>",
		before: "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>", after: "<｜tool▁call▁end｜>"},
	{family: "DeepSeek V3.2", tells: "DSML｜", begin: "<｜DSML｜function_calls>\n", end: "</｜DSML｜function_calls>",
		before: "<｜DSML｜invoke name=\"NAME\">\n", after: "</｜DSML｜invoke>\n",
		arguments: "<｜DSML｜parameter name=\"place\" string=\"true\">Rome</｜DSML｜parameter>\n"},
	{family: "DeepSeek V4", tells: "DSML｜ tool_calls>", begin: "<｜DSML｜tool_calls>\n", end: "</｜DSML｜tool_calls>",
		before: "<｜DSML｜invoke name=\"NAME\">\n", after: "</｜DSML｜invoke>\n",
		arguments: "<｜DSML｜parameter name=\"place\" string=\"true\">Rome</｜DSML｜parameter>\n"},
	{family: "GigaChat 3.1", tells: "<|function_call|>", before: `<|function_call|>{"name": "NAME", "arguments": `,
		after: "}", between: "-"},
	{family: "Hy 3", tells: "set HYTK = ':opensource'", begin: "<tool_calls:opensource>\n",
		end: "</tool_calls:opensource>", before: "<tool_call:opensource>NAME<tool_sep:opensource>\n",
		after: "</tool_call:opensource>\n", arguments: "<arg_key:opensource>place</arg_key:opensource>\n<arg_value:opensource>Rome</arg_value:opensource>\n"},
	{family: "GLM 4", tells: "<arg_key>", before: "<tool_call>NAME\n", after: "</tool_call>",
		arguments: "<arg_key>place</arg_key>\n<arg_value>Rome</arg_value>\n", between: "\n"},
	{family: "GLM 5", tells: "<arg_key>", before: "<tool_call>NAME", after: "</tool_call>",
		arguments: "<arg_key>place</arg_key><arg_value>Rome</arg_value>"},
	{family: "Gemma 4", tells: "<|tool_call>", before: "<|tool_call>call:NAME", after: "<tool_call|>",
		arguments: `{place:<|"|>Rome<|"|>}`},
	{family: "FunctionGemma", tells: "<start_function_call>", before: "<start_function_call>call:NAME",
		after: "<end_function_call>", arguments: `{place:<escape>Rome<escape>}`},
	{family: "Kimi K2", tells: "<|tool_call_argument_begin|>", begin: "<|tool_calls_section_begin|>",
		end: "<|tool_calls_section_end|>", before: "<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>",
		after: "<|tool_call_end|>"},
	{
		family: "Kimi K3", tells: "open_tag('call', [('tool'", begin: "<|open|>tools<|sep|>", end: "<|close|>tools<|sep|>",
		before: `<|open|>call tool="NAME" index="1"<|sep|>`, after: "<|close|>call<|sep|>",
		arguments: `<|open|>argument key="place" type="string"<|sep|>Rome<|close|>argument<|sep|>`,
	},
	{family: "MiniCPM 5", tells: `'<param name="' <![CDATA[`, before: `<function name="NAME">`, after: "</function>",
		arguments: `<param name="place"><![CDATA[Rome]]></param>`, between: "\n"},
	{family: "Apertus", tells: "<|tools_prefix|>", begin: "<|tools_prefix|>[", end: "]<|tools_suffix|>",
		before: `{"NAME": `, after: "}", between: ", "},
	{
		family: "Solar Open", tells: "<|tool_call:begin|>", begin: "<|tool_calls|>", end: "<|calls|>",
		before: "<|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>NAME<|tool_call:args|>", after: "<|tool_call:end|>",
	},
	{family: "MiniMax M1", tells: "<tool_calls> <beginning_of_sentence>", begin: "<tool_calls>\n", end: "</tool_calls>",
		before: `{"name": "NAME", "arguments": `, after: "}\n"},
	{family: "MiniMax", tells: "<minimax:tool_call>", begin: "<minimax:tool_call>\n", end: "</minimax:tool_call>",
		before: "<invoke name=\"NAME\">\n", after: "</invoke>\n", arguments: "<parameter name=\"place\">Rome</parameter>\n"},
	{family: "LFM2", tells: "<|tool_call_start|>", begin: "<|tool_call_start|>[", end: "]<|tool_call_end|>",
		before: "NAME(", after: ")", arguments: `place="Rome"`, between: ", "},
	{family: "Granite", tells: "<|tool_call|>", begin: "<|tool_call|>[", end: "]",
		before: `{"name": "NAME", "arguments": `, after: "}", between: ", "},
	{family: "Command R7B", tells: "<|START_ACTION|>", begin: "<|START_ACTION|>[\n    ", end: "\n]<|END_ACTION|>",
		before: `{"tool_call_id": "0", "tool_name": "NAME", "parameters": `, after: "}", between: ",\n    "},
	{family: "Command R+", tells: "Action: ```json tool_name", begin: "Action: ```json\n[\n    ", end: "\n]\n```",
		before: `{"tool_name": "NAME", "parameters": `, after: "}", between: ",\n    "},
	{family: "Nemotron", tells: "<TOOLCALL>", begin: "<TOOLCALL>[", end: "]</TOOLCALL>",
		before: `{"name": "NAME", "arguments": `, after: "}", between: ", "},
	{family: "Functionary 3.1", tells: "<function= </function>", before: "<function=NAME>", after: "</function>"},
	{family: "Functionary 3.2", tells: ">>>all >>>", before: ">>>NAME\n", between: "-"},
	{family: "Phi-4", tells: "<|tool_call|> <|/tool_call|>", begin: "<|tool_call|>[", end: "]<|/tool_call|>",
		before: `{"name": "NAME", "arguments": `, after: "}", between: ", "},
	{family: "gpt-oss", tells: "<|start|> <|message|>",
		before: "<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>", between: "-",
		final: "<|channel|>final<|message|>"},
}

// call returns a call of a tool.
func (c taught) call(tool string) string {
	arguments := c.arguments
	if arguments == "" {
		arguments = `{"place": "Rome"}`
	}
	return strings.ReplaceAll(c.before, "NAME", tool) + arguments + c.after
}

// What models of each family are taught to write is called, by real tokens, within the grammar of the family and of the
// tools' schemas, whole and streamed: one call, several where the family has them, and the answer to the results.
func TestScriptedSyntaxes(t *testing.T) {
	t.Parallel()
	const place = `"parameters":{"type":"object","properties":{"place":{"type":"string"}},"required":["place"],"additionalProperties":false}`
	const tools = `"max_tokens":400,"temperature":0,"tools":[{"type":"function","function":{"name":"get_weather","strict":true,` + place + `}},{"type":"function","function":{"name":"get_time",` + place + `}}]`
	const path = "/v1/chat/completions"
	for _, c := range taughtCalls {
		t.Run(c.family, func(t *testing.T) {
			t.Parallel()
			scripts := []scripted.Script{
				{When: "messages[-1].role == 'tool'", Text: c.final + "It is noon, and warm."},
				{When: "messages[-1].content == 'one'", Text: c.begin + c.call("get_weather") + c.end},
			}
			several := c.between != "-"
			if several {
				scripts = append(scripts, scripted.Script{Text: c.begin + c.call("get_weather") + c.between + c.call("get_time") + c.end})
			}
			s := fake.Scripted(t, scripted.Model{Scripts: scripts,
				Template: "{# " + c.tells + " #}{% if tools %}<system>{{ tools|tojson }}\n{% endif %}{% for m in messages %}<{{ " +
					"m.role }}>\n{{ m.content }}" +
					"{% for c in m.tool_calls or [] %}{{ c.function|tojson }}{% endfor %}\n{% endfor %}"})
			for content, names := range map[string]string{"one": "get_weather", "two": "get_weather get_time"} {
				if content == "two" && !several {
					continue
				}
				ask := `{"messages":[{"role":"user","content":"` + content + `"}],` + tools
				a := fake.Post[chatAnswer](s, path, ask+`}`).Choices[0]
				var called []string
				for _, call := range a.Message.Calls {
					called = append(called, call.Function.Name)
					if call.ID == "" || strings.ReplaceAll(string(call.Function.Arguments), `": "`, `":"`) != `{"place":"Rome"}` {
						t.Errorf("whole: %+v", call)
					}
				}
				if strings.Join(called, " ") != names || a.Finish != "tool_calls" || a.Message.Content != nil {
					t.Errorf("%s, whole: %q, %+v", content, called, a)
				}
				var streamed []string
				arguments, finish := "", ""
				for _, e := range s.Events(path, ask+`,"stream":true}`) {
					if e == "[DONE]" {
						continue
					}
					choice := fake.Parse[toolChunk](t, []byte(e)).Choices[0]
					if choice.Delta.Content != "" {
						t.Errorf("%s, streamed: content %q", content, choice.Delta.Content)
					}
					for _, call := range choice.Delta.Calls {
						if call.Function.Name != "" {
							streamed = append(streamed, call.Function.Name)
						}
						if call.Index != len(streamed)-1 {
							t.Errorf("%s, streamed: call %d after %q", content, call.Index, streamed)
						}
						arguments += call.Function.Arguments
					}
					if choice.Finish != nil {
						finish = *choice.Finish
					}
				}
				if strings.Join(streamed, " ") != names || finish != "tool_calls" ||
					strings.ReplaceAll(arguments, `": "`, `":"`) != strings.Repeat(`{"place":"Rome"}`, len(streamed)) {
					t.Errorf("%s, streamed: %q, %s, %s", content, streamed, arguments, finish)
				}
			}
			a := fake.Post[chatAnswer](s, path, `{"messages":[{"role":"user","content":"one"},{"role":"assistant","tool_calls":[{"id":"call00001","type":"function","function":{"name":"get_time","arguments":"{\"place\": \"Rome\"}"}}]},
				{"role":"tool","tool_call_id":"call00001","content":"12"}],`+tools+`}`).Choices[0]
			if a.Message.Content == nil || *a.Message.Content != "It is noon, and warm." || a.Message.Calls != nil ||
				a.Finish != "stop" {
				t.Errorf("after a result: %+v", a)
			}
		})
	}
}
