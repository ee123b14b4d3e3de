package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/lark"
)

// held is a constraint over bytes and some control tokens, and how texts are spelled in it.
type held struct {
	constrain.Constraint
	controls []string
}

// hold compiles the language of replies to a prompt. marks are control tokens.
func hold(t *testing.T, p Prompt, content grammar.Expr, rule *CallRule, marks []string) held {
	t.Helper()
	marks = slices.DeleteFunc(slices.Clone(marks), func(m string) bool { return m == "" })
	g := &grammar.Grammar{}
	root := g.Add("root", nil)
	e, err := p.Language(g, content, rule, func(mark string) (int32, bool) {
		i := slices.Index(marks, mark)
		return int32(257 + i), i >= 0
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Rules[root].Expr = e
	v := constrain.NewVocabulary(257+len(marks), func(id int32) []byte {
		if id < 256 {
			return []byte{byte(id)}
		}
		return nil
	}, []int32{256})
	a, err := v.Compile(g)
	if err != nil {
		t.Fatal(err)
	}
	return held{a.New(true), marks}
}

// takes feeds a text and reports how many bytes of it may come, and whether it may end then.
func (h held) takes(text string) (n int, ends bool) {
	c := h.Fork()
	for n < len(text) {
		id, size := int32(text[n]), 1
		for i, m := range h.controls {
			if strings.HasPrefix(text[n:], m) && len(m) > size {
				id, size = int32(257+i), len(m)
			}
		}
		if !c.Accept(id) {
			return n, false
		}
		n += size
	}
	return n, c.Accept(256)
}

func promptIn(t testing.TB, name string, tools []Tool) Prompt {
	r := replyIn(t, name)
	p := Prompt{reply: Reply{style: r.style, syntax: r.syntax, tools: tools}}
	if name == "harmony" {
		p.reply.harmony = &harmony{}
	}
	return p
}

// The calls that models write, in the form that they are taught, are in the language of their replies, whether their
// marks are control tokens or texts.
func TestLanguage(t *testing.T) {
	for _, c := range callCases {
		p := promptIn(t, c.syntax, testTools)
		text := strings.TrimSuffix(c.text, "<|call|>")
		for _, controls := range [][]string{nil, controlsOf(p), p.reply.syntax.tokens} {
			rule := &CallRule{Required: controls == nil && !strings.Contains(c.want, "content")}
			if at, ends := hold(t, p, nil, rule, controls).takes(text); at < len(text) || !ends {
				t.Errorf("%s, %d control tokens, %+v: %q is taken up to %q, may end: %v", c.syntax, len(controls), rule, text, text[at:], ends)
			}
		}
		// Neither another tool, nor anything but a call.
		h := hold(t, p, nil, &CallRule{Required: true, Names: []string{"get_weather"}}, nil)
		for _, wrong := range []string{strings.ReplaceAll(text, "get_weather", "get_time"), "Hello"} {
			if at, ends := h.takes(wrong); at == len(wrong) && ends {
				t.Errorf("%s: %q is taken", c.syntax, wrong)
			}
		}
	}
}

// controlsOf returns the marks that models have as control tokens.
func controlsOf(p Prompt) []string {
	return slices.DeleteFunc(p.Marks(), func(m string) bool {
		return len(m) < 4 || !strings.ContainsAny(m[:1], "<[") || !strings.ContainsAny(m[len(m)-1:], ">]")
	})
}

// Arguments are what the schema says, text before a call is free, and thoughts are.
func TestLanguageOfArguments(t *testing.T) {
	const call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
	for _, c := range []struct {
		syntax, text string
		rule         CallRule
		upTo         string // "": all of it; "*": not all
	}{
		{"Hermes", "<think>\n<tool or not?\n</think>\n\nSo:\n" + call + "{\"place\": \"Rome\"}}\n</tool_call>", CallRule{}, ""},
		{"Hermes", "a < b and <tool_cal", CallRule{}, ""},
		{"Hermes", "So: <tool_call>\nno", CallRule{}, "So: <tool_call>\n"},
		{"Hermes", call + "{\"days\": 3}}", CallRule{}, call + "{\"days\": 3"},
		{"Hermes", call + "{\"place\": \"x\", \"days\": \"3\"}}", CallRule{}, call + "{\"place\": \"x\", \"days\": "},
		{"Hermes", call + "{\"place\": \"x\"}}</tool_call><tool_call>", CallRule{Single: true}, "*"},
		{"Qwen3-Coder", "<tool_call>\n<function=get_weather>\n<parameter=place>\na\nb < c\n</parameter>\n<parameter=days>\nx", CallRule{}, "<tool_call>\n<function=get_weather>\n<parameter=place>\na\nb < c\n</parameter>\n<parameter=days>\n"},
		{"Llama 3", "{\"title\": 1}", CallRule{}, ""},
		{"Llama 3", "{\"name\": \"Bob\"}", CallRule{}, "{\"name\": \""},
		{"harmony", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>", CallRule{Required: true}, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>"},
	} {
		p := promptIn(t, c.syntax, testTools)
		for _, controls := range [][]string{nil, controlsOf(p)} {
			at, _ := hold(t, p, nil, &c.rule, controls).takes(c.text)
			if want := len(c.text) - len(c.text)*min(len(c.upTo), 1) + len(c.upTo); at != want && (c.upTo != "*" || at == len(c.text)) {
				t.Errorf("%s, %d control tokens: %q is taken up to %q", c.syntax, len(controls), c.text, c.text[:at])
			}
		}
	}
	strict := []Tool{{Name: "f", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","format":"nonsense","not":{"pattern":"("}}}}`)}}
	p := promptIn(t, "Hermes", strict)
	hold(t, p, nil, &CallRule{}, nil)
	strict[0].Strict = true
	if _, err := p.Language(&grammar.Grammar{}, nil, &CallRule{}, func(string) (int32, bool) { return 0, false }); err == nil || !strings.HasPrefix(err.Error(), "the tool f: ") {
		t.Errorf("a strict schema that cannot be a grammar: %v", err)
	}
}

// The input of a tool that takes a text is of its grammar, however calls are written.
func TestLanguageOfInputs(t *testing.T) {
	g, err := lark.Parse("start: \"*** Begin\\n\" line+ \"*** End\"\nline: /[-+ ].*/ \"\\n\"\n", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]string{
		"Hermes":      "<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"JSON\"}}\n</tool_call>",
		"Mistral v11": "[TOOL_CALLS]patch[ARGS]{\"input\": \"JSON\"}",
		"harmony":     "<|channel|>commentary to=functions.patch<|message|>{\"input\": \"JSON\"}",
		"Qwen3-Coder": "<tool_call>\n<function=patch>\n<parameter=input>\nRAW\n</parameter>\n</function>\n</tool_call>",
		"MiniCPM 5":   "<function name=\"patch\"><param name=\"input\"><![CDATA[RAW]]></param></function>",
		"Gemma 4":     "<|tool_call>call:patch{input:<|\"|>RAW<|\"|>}<tool_call|>",
		"LFM2":        "<|tool_call_start|>[patch(input=\"JSON\")]<|tool_call_end|>",
	}
	for syntax, call := range calls {
		p := promptIn(t, syntax, []Tool{{Name: "patch", Parameters: json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}`)}})
		for _, controls := range [][]string{nil, controlsOf(p)} {
			h := hold(t, p, nil, &CallRule{Required: true, Inputs: map[string]*grammar.Grammar{"patch": g}}, controls)
			for input, want := range map[string]bool{
				"*** Begin\n+a \"b\" \\ c\n-\n*** End": true, "*** Begin\n*** End": false, "*** Begin\n+a\n": false, "*** Begin\nx\n*** End": false, "": false,
			} {
				quoted, _ := json.Marshal(input)
				text := strings.NewReplacer("RAW", input, "JSON", string(quoted[1:len(quoted)-1])).Replace(call)
				if at, ends := h.takes(text); (at == len(text) && ends) != want {
					t.Errorf("%s, %d control tokens: %q is taken up to %q, want %v", syntax, len(controls), text, text[:at], want)
				}
			}
		}
	}
}

// A grammar that refers to itself holds an input wherever no text of it can have the mark that ends the input;
// where one can, the error names the tool.
func TestLanguageOfRecursiveInputs(t *testing.T) {
	parse := func(text string) map[string]*grammar.Grammar {
		g, err := lark.Parse(text, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*grammar.Grammar{"patch": g}
	}
	with, without := parse(`start: "(" start ")" | /[^()]*/`), parse(`start: "a" start "b" | inner
inner: "<c" inner? "/>"`)
	for syntax, call := range map[string]string{
		"Hermes":      "<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"JSON\"}}\n</tool_call>",
		"Qwen3-Coder": "<tool_call>\n<function=patch>\n<parameter=input>\nRAW\n</parameter>\n</function>\n</tool_call>",
		"Gemma 4":     "<|tool_call>call:patch{input:<|\"|>RAW<|\"|>}<tool_call|>",
	} {
		p := promptIn(t, syntax, []Tool{{Name: "patch"}})
		for _, controls := range [][]string{nil, controlsOf(p)} {
			h := hold(t, p, nil, &CallRule{Required: true, Inputs: without}, controls)
			for input, want := range map[string]bool{"aa<c<c/>/>bb": true, "<c/>": true, "aa<c/>b": false, "": false} {
				text := strings.NewReplacer("RAW", input, "JSON", input).Replace(call)
				if at, ends := h.takes(text); (at == len(text) && ends) != want {
					t.Errorf("%s, %d control tokens: %q is taken up to %q, want %v", syntax, len(controls), text, text[:at], want)
				}
			}
		}
		_, err := p.Language(&grammar.Grammar{}, nil, &CallRule{Inputs: with}, func(string) (int32, bool) { return 0, false })
		if want := "the tool patch: its grammar refers to itself, which cannot be held in calls of this model's form"; syntax == "Hermes" && err != nil || syntax != "Hermes" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %s", syntax, err, want)
		}
	}
}

// In calls that are not JSON, arguments are what a strict schema says all through: within objects and arrays, texts too.
func TestLanguageOfStrictArguments(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"id":{"type":"string","pattern":"^[a-z]+<?[0-9]{2}$"},
		"day":{"type":"string","format":"date"},
		"short":{"type":"string","maxLength":3},
		"where":{"$ref":"#/$defs/where"},
		"tags":{"type":"array","items":{"enum":["a","b"]},"minItems":1},
		"on":{"type":"boolean"}},
		"required":["id","where"],"additionalProperties":false,
		"$defs":{"where":{"type":"object","properties":{"x":{"type":"integer"},"name":{"type":"string","pattern":"^[A-Z]+$"}},"required":["x"],"additionalProperties":false}}}`
	param := func(list ...string) string {
		out := "<tool_call>\n<function=f>\n"
		for i := 0; i < len(list); i += 2 {
			out += "<parameter=" + list[i] + ">\n" + list[i+1] + "\n</parameter>\n"
		}
		return out + "</function>\n</tool_call>"
	}
	gemma := func(args string) string {
		return "<|tool_call>call:f{" + strings.ReplaceAll(args, "'", `<|"|>`) + "}<tool_call|>"
	}
	xml := func(id string) string {
		return "<function name=\"f\"><param name=\"id\">" + id + "</param><param name=\"where\">{\"x\": 3}</param></function>"
	}
	python := func(args string) string { return "<|tool_call_start|>[f(" + args + ")]<|tool_call_end|>" }
	for _, c := range []struct {
		syntax, text string
		ok           bool
	}{
		{"Qwen3-Coder", param("id", "ab12", "where", `{"x": 3}`), true},
		{"Qwen3-Coder", param("id", "ab<12", "day", "2026-02-28", "short", "<a>", "where", `{"x": 3, "name": "R"}`, "tags", `["a"]`, "on", "True"), true},
		{"Qwen3-Coder", param("id", "ab1", "where", `{"x": 3}`), false},
		{"Qwen3-Coder", param("id", "ab12"), false},
		{"Qwen3-Coder", param("where", `{"x": 3}`), false},
		{"Qwen3-Coder", param("id", "ab12", "day", "2026-02-30", "where", `{"x": 3}`), false},
		{"Qwen3-Coder", param("id", "ab12", "short", "four", "where", `{"x": 3}`), false},
		{"Qwen3-Coder", param("id", "ab12", "where", `{"x": "3"}`), false},
		{"Qwen3-Coder", param("id", "ab12", "where", `{"x": 3, "name": "r"}`), false},
		{"Qwen3-Coder", param("id", "ab12", "where", `{"x": 3}`, "tags", `[]`), false},
		{"Qwen3-Coder", param("id", "ab12", "where", `{"x": 3}`, "more", "1"), false},
		{"MiniCPM 5", xml("ab12"), true},
		{"MiniCPM 5", xml("<![CDATA[ab<12]]>"), true},
		{"MiniCPM 5", xml("<![CDATA[ab1]]>"), false},
		{"MiniCPM 5", xml("ab1"), false},
		{"Gemma 4", gemma(`id:'ab12',where:{x:3}`), true},
		{"Gemma 4", gemma(`id:'ab<12',day:'2026-02-28',short:'<a>',where:{x:3,name:'R'},tags:['a','b'],on:true`), true},
		{"Gemma 4", gemma(`id:'ab1',where:{x:3}`), false},
		{"Gemma 4", gemma(`id:'ab12',where:{x:'3'}`), false},
		{"Gemma 4", gemma(`id:'ab12',where:{x:3,name:'r'}`), false},
		{"Gemma 4", gemma(`id:'ab12',where:{y:3}`), false},
		{"Gemma 4", gemma(`id:'ab12',where:{x:3},tags:['c']`), false},
		{"Gemma 4", gemma(`id:'ab12',where:{x:3},tags:[]`), false},
		{"LFM2", python(`id="ab12", where={"x": 3}`), true},
		{"LFM2", python(`id="ab12", where={"x": 3, "name": "R"}, tags=["a", "b"], on=False`), true},
		{"LFM2", python(`id="ab12", where={"x": True}`), false},
		{"LFM2", python(`id="ab12", where={"x": 3, "name": "r"}`), false},
	} {
		p := promptIn(t, c.syntax, []Tool{{Name: "f", Parameters: json.RawMessage(schema), Strict: true}})
		for _, controls := range [][]string{nil, controlsOf(p)} {
			at, ends := hold(t, p, nil, &CallRule{Required: true}, controls).takes(c.text)
			if ok := at == len(c.text) && ends; ok != c.ok {
				t.Errorf("%s, %d control tokens: %q is taken: %v, up to %q", c.syntax, len(controls), c.text, ok, c.text[:at])
			}
		}
	}
	// What can't be decided is refused where the schema is strict, and left out otherwise.
	long := []Tool{{Name: "f", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","maxLength":9999}}}`)}}
	hold(t, promptIn(t, "Qwen3-Coder", long), nil, &CallRule{Required: true}, nil)
	long[0].Strict = true
	p := promptIn(t, "Qwen3-Coder", long)
	if _, err := p.Language(&grammar.Grammar{}, nil, &CallRule{}, func(string) (int32, bool) { return 0, false }); err == nil || !strings.Contains(err.Error(), "the argument a") {
		t.Errorf("a text that is too long to be decided: %v", err)
	}
}

// The marks that some families have around content come where content does, and before calls.
func TestLanguageOfMarks(t *testing.T) {
	const call = `<|open|>tools<|sep|><|open|>call tool="get_time" index="1"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>`
	const open, shut = "<|open|>response<|sep|>", "<|close|>response<|sep|>"
	p := Prompt{reply: Reply{style: styleOf("<|end_of_msg|>"), syntax: syntaxNamed(t, "Kimi K3"), tools: testTools}}
	for _, controls := range [][]string{nil, {"<|open|>", "<|close|>", "<|sep|>"}} {
		for text, rule := range map[string]CallRule{
			"<|open|>think<|sep|>a<|close|>think<|sep|>" + open + "b" + shut + "<|close|>message<|sep|>": {},
			open + "b" + shut + call:                             {},
			open + "b" + shut + call + "<|close|>message<|sep|>": {},
			open + shut + call + "<|close|>message<|sep|>":       {Required: true},
			open + "b" + shut:                                    {Names: []string{}},
		} {
			if at, ends := hold(t, p, nil, &rule, controls).takes(text); at < len(text) || !ends {
				t.Errorf("%d control tokens: %q is taken up to %q, may end: %v", len(controls), text, text[at:], ends)
			}
		}
	}
}
