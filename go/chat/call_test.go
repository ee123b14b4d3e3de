package chat

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// testTools are what the calls of the tests are of.
var testTools = []Tool{
	{Name: "get_weather", Parameters: json.RawMessage(`{"type":"object","properties":{"place":{"type":"string"},"days":{"type":"integer"},
		"exact":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}},"where":{"type":"object"},"any":{},
		"maybe":{"type":["string","null"]}},"required":["place"]}`)},
	{Name: "get_time"},
}

// transcript writes what a reply says, one line for each part.
func transcript(t testing.TB, r *Reply, pieces ...string) string {
	t.Helper()
	type part struct{ kind, text string }
	var parts []part
	ids := map[string]bool{}
	say := func(kind, text string) {
		if last := len(parts) - 1; last >= 0 && parts[last].kind == kind {
			parts[last].text += text
		} else {
			parts = append(parts, part{kind, text})
		}
	}
	add := func(deltas []Delta) {
		for _, d := range deltas {
			n := 0
			if d.Content != "" {
				say("content", d.Content)
				n++
			}
			if d.Reasoning != "" {
				say("reasoning", d.Reasoning)
				n++
			}
			if c := d.Call; c != nil {
				n++
				kind := fmt.Sprint(c.Index, " ")
				if c.Name != "" {
					id := c.ID
					if len(id) == 29 && strings.HasPrefix(id, "call_") || len(id) == 9 && !strings.Contains(id, "_") && !strings.HasPrefix(id, "fixed") {
						id = "*"
					}
					if ids[c.ID] {
						t.Errorf("two calls have the id %s", c.ID)
					}
					ids[c.ID] = true
					say(kind, c.Name+" "+id+" ")
				}
				say(kind, c.Arguments)
			}
			if n != 1 {
				t.Errorf("a delta of %d kinds: %+v", n, d)
			}
		}
	}
	for _, piece := range pieces {
		add(r.Write(piece))
	}
	add(r.Close())
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%s: %s\n", strings.TrimSpace(p.kind), p.text)
	}
	return b.String()
}

// nothing is the transcript of a reply that says nothing.
const nothing = "nothing"

// A callCase is a reply in a syntax and its transcript. Without one it is all content.
type callCase struct {
	syntax string
	text   string
	want   string
}

// syntaxNamed returns a syntax of the table.
func syntaxNamed(t testing.TB, name string) *syntax {
	for i := range syntaxes {
		if syntaxes[i].name == name {
			return &syntaxes[i].syntax
		}
	}
	if name != "harmony" {
		t.Fatalf("no syntax %q", name)
	}
	return &harmonic
}

// replyIn returns a parser of replies in a syntax.
func replyIn(t testing.TB, name string) *Reply {
	r := &Reply{style: &styles[0], syntax: syntaxNamed(t, name), tools: testTools}
	if name == "harmony" {
		r.style, r.harmony = nil, &harmony{}
	}
	return r
}

func TestCalls(t *testing.T) {
	for _, c := range slices.Concat(callCases, oddCases) {
		want := c.want
		switch want {
		case "":
			want = "content: " + c.text + "\n"
		case nothing:
			want = ""
		}
		check := func(pieces ...string) {
			t.Helper()
			if got := transcript(t, replyIn(t, c.syntax), pieces...); got != want {
				t.Fatalf("%s: %q in %q:\n got %s\nwant %s", c.syntax, c.text, pieces, got, want)
			}
		}
		var bytes []string
		for i := range len(c.text) { // cut at every byte, once and everywhere
			check(c.text[:i], c.text[i:])
			bytes = append(bytes, c.text[i:i+1])
		}
		check(bytes...)
		for i := range 20 {
			check(cutUp(c.text, i%2 == 0)...)
		}
	}
}

// Whatever a model writes, how it is cut makes no difference, nothing is said that the model
// did not write, and where there is no call all of it is.
func FuzzCalls(f *testing.F) {
	for _, c := range slices.Concat(callCases, oddCases) {
		f.Add(c.syntax, c.text, uint16(0x1234))
	}
	f.Fuzz(func(t *testing.T, name, text string, cuts uint16) {
		if name != "harmony" {
			name = syntaxes[len(name)%len(syntaxes)].name
		}
		if !utf8.ValidString(text) {
			return
		}
		want := transcript(t, replyIn(t, name), text)
		var pieces []string
		for rest, i := text, 0; rest != ""; i++ {
			n := min(len(rest), 1+int(cuts>>(i%4*4)&15))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		if got := transcript(t, replyIn(t, name), pieces...); got != want {
			t.Fatalf("%s: %q in %q:\n got %s\nwant %s", name, text, pieces, got, want)
		}
		if name == "harmony" || strings.Contains(text, "think>") || regexp.MustCompile(`(?m)^\d: `).MatchString(want) {
			return
		}
		got, said := strings.CutPrefix(want, "content: ")
		if name == "Functionary 3.2" && withoutPlain(text) == withoutPlain(got) {
			return
		}
		if text != "" && (!said || got != text+"\n") {
			t.Fatalf("%s: %q is no call and gives %q", name, text, want)
		}
	})
}

// withoutPlain leaves out of a text what Functionary 3.2 writes before content, and white space.
func withoutPlain(text string) string {
	text = strings.Join(strings.Fields(text), "")
	for strings.Contains(text, ">>>all") {
		text = strings.ReplaceAll(text, ">>>all", "")
	}
	return text
}

const (
	oneCall  = "0: get_weather * {\"place\": \"Rome\"}\n"
	twoCalls = oneCall + "1: get_time * {}\n"
	allKinds = `0: get_weather * {"place": "Rome\n\"Termini\" <b>", "days": 3, "exact": true, "tags": ["a", "b"], "where": {"x": {"y": 1.5}}, "maybe": null}` + "\n"
)

// callCases are calls as models are taught to write them.
var callCases = []callCase{
	{"GigaChat 3.1", "<|function_call|>{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}", oneCall},
	{"Hy 3", "<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n<arg_key:opensource>place</arg_key:opensource>\n" +
		"<arg_value:opensource>Rome</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>", oneCall},
	{"Kimi K3", `Ok.<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="place" type="string"<|sep|>Rome<|close|>argument<|sep|><|close|>call<|sep|>` +
		`<|open|>call tool="get_time" index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>`, "content: Ok.\n" + twoCalls},
	{"Kimi K3", `<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="place" type="string"<|sep|>Rome` + "\n\"Termini\" <b>" + `<|close|>argument<|sep|>` +
		`<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|><|open|>argument key="exact" type="boolean"<|sep|>true<|close|>argument<|sep|>` +
		`<|open|>argument key="tags" type="array"<|sep|>["a", "b"]<|close|>argument<|sep|><|open|>argument key="where" type="object"<|sep|>{"x": {"y": 1.5}}<|close|>argument<|sep|>` +
		`<|open|>argument key="maybe" type="null"<|sep|>null<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>`, allKinds},
	{"MiniCPM 5", "Ok.\n<function name=\"get_weather\"><param name=\"place\">Rome</param></function>\n<function name=\"get_time\"></function>", "content: Ok.\n" + twoCalls},
	{"MiniCPM 5", "<function name=\"get_weather\"><param name=\"place\"><![CDATA[Rome\n\"Termini\" <b>]]></param><param name=\"days\">3</param><param name=\"exact\">True</param>" +
		"<param name=\"tags\">[\"a\", \"b\"]</param><param name=\"where\">{\"x\": {\"y\": 1.5}}</param><param name=\"maybe\">None</param></function>", allKinds},
	{"Apertus", "<|tools_prefix|>[{\"get_weather\": {\"place\": \"Rome\"}}, {\"get_time\": {}}]<|tools_suffix|>", twoCalls},
	{"Solar Open", "<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>get_weather<|tool_call:args|>{\"place\": \"Rome\"}<|tool_call:end|>" +
		"<|tool_call:begin|>b1b2c3d4e5<|tool_call:name|>get_time<|tool_call:args|>{}<|tool_call:end|><|calls|>", "0: get_weather a1b2c3d4e5 {\"place\": \"Rome\"}\n1: get_time b1b2c3d4e5 {}\n"},
	{"MiniMax M1", "<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_calls>", twoCalls},
	{"Hermes", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}\n</tool_call>", oneCall},

	{"Mistral", "Sure.[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}, {\"name\": \"get_time\", \"arguments\": {}}]", "content: Sure.\n" + twoCalls},
	{"Mistral v11", "[TOOL_CALLS]get_weather[ARGS]{\"place\": \"Rome\"}[TOOL_CALLS]get_time[CALL_ID]fixed1234[ARGS]{}", oneCall + "1: get_time fixed1234 {}\n"},
	{"Llama 3", "{\"name\": \"get_weather\", \"parameters\": {\"place\": \"Rome\"}}", oneCall},
	{"DeepSeek V3", "Ok.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"place\": \"Rome\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "content: Ok.\n" + twoCalls},
	{"DeepSeek V3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"place\": \"Rome\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", twoCalls},
	{"DeepSeek V3.2", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"place\" string=\"true\">Rome</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"get_time\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", twoCalls},
	{"Kimi K2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"place\": \"Rome\"}<|tool_call_end|><|tool_call_begin|>functions.get_time:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", "0: get_weather functions.get_weather:0 {\"place\": \"Rome\"}\n1: get_time functions.get_time:1 {}\n"},
	{"GLM", "<tool_call>get_weather\n<arg_key>place</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>\n<tool_call>get_time</tool_call>", twoCalls},
	{"GLM", "<tool_call>get_weather<arg_key>place</arg_key><arg_value>Rome\n\"Termini\" <b></arg_value><arg_key>days</arg_key><arg_value>3</arg_value><arg_key>exact</arg_key><arg_value>true</arg_value><arg_key>tags</arg_key><arg_value>[\"a\", \"b\"]</arg_value><arg_key>where</arg_key><arg_value>{\"x\": {\"y\": 1.5}}</arg_value><arg_key>maybe</arg_key><arg_value>null</arg_value></tool_call>", allKinds},
	{"Qwen3-Coder", "I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=place>\nRome\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>", "content: I look.\n" + twoCalls},
	{"Qwen3-Coder", "<tool_call>\n<function=get_weather>\n<parameter=place>\nRome\n\"Termini\" <b>\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=exact>\nTrue\n</parameter>\n<parameter=tags>\n[\"a\", \"b\"]\n</parameter>\n<parameter=where>\n{\"x\": {\"y\": 1.5}}\n</parameter>\n<parameter=maybe>\nNone\n</parameter>\n</function>\n</tool_call>", allKinds},
	{"Seed", "<seed:tool_call>\n<function=get_weather>\n<parameter=place>Rome</parameter>\n</function>\n</seed:tool_call>", oneCall},
	{"MiniMax", "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"place\">Rome</parameter>\n</invoke>\n<invoke name=\"get_time\">\n</invoke>\n</minimax:tool_call>", twoCalls},
	{"Gemma 4", "<|tool_call>call:get_weather{place:<|\"|>Rome<|\"|>}<tool_call|><|tool_call>call:get_time{}<tool_call|>", twoCalls},
	{"Gemma 4", "<|tool_call>call:get_weather{place:<|\"|>Rome\n\"Termini\" <b><|\"|>,days:3,exact:true,tags:[<|\"|>a<|\"|>,<|\"|>b<|\"|>],where:{x:{<|\"|>y<|\"|>:1.5}},maybe:null}<tool_call|>", allKinds},
	{"FunctionGemma", "<start_function_call>call:get_weather{place:<escape>Rome<escape>}<end_function_call>", oneCall},
	{"LFM2", "<|tool_call_start|>[get_weather(place=\"Rome\"), get_time()]<|tool_call_end|>On it.", twoCalls + "content: On it.\n"},
	{"LFM2", "<|tool_call_start|>[get_weather(place='Rome\\n\"Termini\" <b>', days=3, exact=True, tags=['a', \"b\"], where={'x': {'y': 1.5}}, maybe=None)]<|tool_call_end|>", allKinds},
	{"Granite 3", "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}, {\"name\": \"get_time\", \"arguments\": {}}]", twoCalls},
	{"Phi-4", "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}]<|/tool_call|>", oneCall},
	{"Command R7B", "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"place\": \"Rome\"}}\n]<|END_ACTION|>", "0: get_weather 0 {\"place\": \"Rome\"}\n"},
	{"Command R+", "Action: ```json\n[\n    {\n        \"tool_name\": \"get_weather\",\n        \"parameters\": {\"place\": \"Rome\"}\n    }\n]\n```", oneCall},
	{"Nemotron", "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}]</TOOLCALL>", oneCall},
	{"Hunyuan", "<tool_calls>[{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}]</tool_calls>", oneCall},
	{"FireFunction", " functools[{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}]", oneCall},
	{"Functionary 3.1", "<function=get_weather>{\"place\": \"Rome\"}</function><function=get_time>{}</function>", twoCalls},
	{"harmony", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"place\": \"Rome\"}<|call|>", "reasoning: Hm.\ncontent: First.\n" + oneCall},
}

// oddCases are calls that are understood all the same, and what is none.
var oddCases = []callCase{
	{"Hermes", "Let me see.\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"get_time\"}\n</tool_call>\n", "content: Let me see.\n" + twoCalls},
	{"Hermes", "<think>\nhm <tool_call>\n</think>\n\n<tool_call>{\"arguments\": {\"place\": \"Rome\"}, \"name\": \"get_weather\"}</tool_call> Done", "reasoning: hm <tool_call>\n" + oneCall + "content: Done\n"},
	{"Hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"place\\\": \\\"Rome\\\"}\"}", oneCall},
	{"Hermes", "<tool_call>{\"id\": \"x1\", \"type\": \"function\", \"function\": {\"name\": \"get_time\", \"arguments\": {}}}</tool_call>", "0: get_time x1 {}\n"},
	{"Hermes", "<tool_call>{\"name\": \"nobody\", \"arguments\": {\"a\": [1, -2.5e3, True, null, \"\\u00e9\n\\'\"]}}</tool_call>", "0: nobody * {\"a\": [1, -2.5e3, true, null, \"\\u00e9\\n'\"]}\n"},
	{"Hermes", "  a <tool_call> b", ""},
	{"Hermes", "<tool_call>\n{\"nam", ""},
	{"Hermes", "<tool_call>{\"name\": 5}</tool_call>", ""},
	{"Hermes", "<tool_call>{\"arguments\": {}}</tool_call> é", ""},
	{"Hermes", "<tool_call><tool_call>{\"name\": \"get_time\"}</tool_call>", "content: <tool_call>\n0: get_time * {}\n"},
	{"Hermes", "<tool_call>{\"name\": \"get_time\"}</tool_c", "0: get_time * {}\n"},
	{"Hermes", "<tool_call>{\"name\": \"get_time\"} and more", "0: get_time * {}\ncontent:  and more\n"},
	{"Hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Ro", "0: get_weather * {\"place\": \"Ro\n"},
	{"Hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"place\" = 3}}</tool_call>", "0: get_weather * {\"place\" \ncontent: = 3}}</tool_call>\n"},
	{"Hermes", "no call \n", ""},
	{"Hermes", "<tool_call", ""},
	{"Mistral", "[TOOL_CALLS] [{\"arguments\": {}, \"id\": \"fixed1234\", \"name\": \"get_time\"}]", "0: get_time fixed1234 {}\n"},
	{"Mistral v11", "[TOOL_CALLS]get weather[ARGS]{}", ""},
	{"Kimi K3", `<|open|>tools<|sep|><|open|>call tool="get weather" index="1"<|sep|>`, ""},
	{"Kimi K3", `<|open|>tools<|sep|>no`, ""},
	{"MiniCPM 5", "<function name=\"get_weather\"><param name=\"place\"><![CDATA[</param>]]>\n</param></function>", "0: get_weather * {\"place\": \"</param>\"}\n"},
	{"MiniCPM 5", "<function name=\"get_weather\"><param name=\"place\"><![CD</param><param name=\"any\"><b></param></function>", "0: get_weather * {\"place\": \"<![CD\", \"any\": \"<b>\"}\n"},
	{"MiniCPM 5", "<function name=\"get_weather\"><param name=\"place\"><![CDATA[Ro", "0: get_weather * {\"place\": \"Ro\n"},
	{"MiniCPM 5", "<function name=\"get weather\"></function>", ""},
	{"Apertus", "<|tools_prefix|>[{\"get_weather\": 3}]", ""},
	{"Apertus", "<|tools_prefix|>[{\"\": {}}]", ""},
	{"Apertus", "<|tools_prefix|>[{\"get_time\": {}, \"get_weather\": {}}]", "0: get_time * {}\ncontent: , \"get_weather\": {}}]\n"},
	{"Solar Open", "<|tool_calls|><|tool_call:begin|>get_time<|tool_call:args|>{}", "0: get_time * {}\n"},
	{"Solar Open", "<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|><|tool_call:args|>{}", ""},
	{"MiniMax M1", "<tool_calls>\nNone.\n</tool_calls>", ""},
	{"MiniMax M1", "<tool_calls>{\"name\": \"get_time\", \"arguments\": {}} and", "0: get_time * {}\ncontent:  and\n"},
	{"Llama 3", "<|python_tag|>{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": {\"place\": \"Rome\"}}\n{\"name\": \"get_time\", \"parameters\": {}}", twoCalls},
	{"Llama 3", "{\"name\": \"Bob\", \"parameters\": {}} is JSON", ""},
	{"Llama 3", "{\"title\": 1} {\"name\": \"get_time\"}", ""},
	{"Llama 3", "<|python_tag|>print({})", ""},
	{"DeepSeek V3.1", "<｜tool▁calls▁begin｜>ｘ<｜tool▁call▁begin｜>", ""},
	{"DeepSeek V4", "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"place\" string=\"true\">5</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">5</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>", "0: get_weather * {\"place\": \"5\", \"days\": 5}\n"},
	{"Qwen3-Coder", "<tool_call>\n<function=get_weather>\n<parameter=place>\n\n  a\n\n</parameter>\n<parameter=any>\n17\n</parameter>\n</function>", "0: get_weather * {\"place\": \"\\n  a\\n\", \"any\": 17}\n"},
	{"Qwen3-Coder", "<tool_call>\n<function=get_weather>\n<parameter=place>\nRo", "0: get_weather * {\"place\": \"Ro\n"},
	{"LFM2", "<|tool_call_start|>[get weather()]", ""},
	{"Functionary 3.2", ">>>all\nHi.\n>>>get_weather\n{\"place\": \"Rome\"}>>>get_time\n{}", "content: Hi.\n" + twoCalls},
	{"Functionary 3.2", ">>>all\n", nothing},
	{"Functionary 3.2", " >>>all \n >>>all\nHi", "content: Hi\n"},
	{"harmony", "<|channel|>analysis<|message|>Hm. <b><|end|><|start|>assistant<|channel|>final<|message|>Hello <|x", "reasoning: Hm. <b>\ncontent: Hello <|x\n"},
	{"harmony", " to=functions.get_weather<|channel|>commentary json<|message|>{\"place\": \"Rome\"}<|call|><|start|>assistant to=functions.get_time<|channel|>commentary<|message|>", twoCalls},
	{"harmony", "Plain text", ""},
	{"harmony", "<|channel|>commentary to=functions.get_time<|message|>{] what", "0: get_time * {\ncontent: ] what\n"},
	{"harmony", "<|channel|>commentary to=functions.get_time<|message|>{] what<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather<|message|>{\"place\": \"Rome\"}<|call|>",
		"0: get_time * {\ncontent: ] what\n1: get_weather * {\"place\": \"Rome\"}\n"},
}

// Every template of the test data that shows the model tools has a syntax, and a call that the template
// writes is read back.
func TestCallsOfTemplates(t *testing.T) {
	want := map[string]string{}
	for name, source := range templates(t) {
		tmpl := parse(t, source)
		if !tmpl.caps.ToolCalls || name == "glimmer_chat_template" { // whose calls are text in XML to a channel
			continue
		}
		user := `{"role":"user","content":"Weather?"}`
		in := input(t, `[`+user+`,{"role":"assistant","content":null,"tool_calls":[{"id":"fixed1234","type":"function","function":{"name":"get_weather","arguments":"{\"place\":\"Rome <3\",\"days\":2}"}}]}]`, "", now)
		in.Tools = []json.RawMessage{[]byte(weather)}
		whole, err := tmpl.Render(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		in.Messages, in.AddGenerationPrompt = in.Messages[:1], true
		prompt, err := tmpl.Render(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		n := 0
		for n < len(prompt.Text) && n < len(whole.Text) && prompt.Text[n] == whole.Text[n] {
			n++
		}
		if whole.Text[n-1] == '<' {
			n--
		}
		text := whole.Text[n:]
		r := prompt.Reply()
		r.after(whole.Text[:n], "")
		if r.state == reasoning {
			r.Write(r.style.shut)
		}
		got := transcript(t, r, text)
		if !strings.Contains(got, "0: get_weather ") || !strings.Contains(strings.ReplaceAll(got, ": ", ":"), `"place":"Rome <3"`) {
			t.Errorf("%s: %q gives %s", name, text, got)
		}
		want[name] = got
	}
	if len(want) < 20 {
		t.Errorf("only %d templates write calls", len(want))
	}
}

// A template that knows no tools is told of them in the system message, and calls and results are text.
func TestToolsAsText(t *testing.T) {
	for _, name := range []string{"chatml", "llama3", "gemma", "mistral-v3", "phi4"} {
		source, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		tmpl := parse(t, source)
		in := input(t, strings.ReplaceAll(calls, "ARGS", `{"place":"Rome"}`), "", now)
		in.Tools, in.AddGenerationPrompt = []json.RawMessage{[]byte(weather)}, true
		p, err := tmpl.Render(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, text := range []string{`"name":"get_weather"`, "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"place\":\"Rome\"}}</tool_call>", "The result of get_weather:\n21 °C"} {
			if !strings.Contains(p.Text, text) {
				t.Errorf("%s: %s is not in %s", name, text, p.Text)
			}
		}
		if got := transcript(t, p.Reply(), "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}</tool_call>"); got != oneCall {
			t.Errorf("%s: a call gives %s", name, got)
		}
	}
}
