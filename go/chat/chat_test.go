package chat

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/cputime"
	"github.com/quern-llm/quern/go/internal/jinja"
)

func parse(t *testing.T, source string) *Template {
	t.Helper()
	tmpl, err := Parse(source, tokens)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func builtin(t *testing.T, name string) *Template {
	t.Helper()
	source, err := Builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, source)
}

// What llama.cpp writes for this conversation, without the BOS that it adds as a token.
func TestBuiltin(t *testing.T) {
	talk := []Message{
		{Role: "system", Content: Text("S")}, {Role: "user", Content: Text(" a ")},
		{Role: "assistant", Content: Text(" b ")}, {Role: "user", Content: Text("c")},
	}
	want := map[string]string{
		"bailing":           "<role>SYSTEM</role>S<role>HUMAN</role> a <role>ASSISTANT</role> b <role>HUMAN</role>c<role>ASSISTANT</role>",
		"bailing-think":     "<role>SYSTEM</role>S<role>HUMAN</role> a <role>ASSISTANT</role> b <role>HUMAN</role>c<role>ASSISTANT</role><think>",
		"bailing2":          "<role>SYSTEM</role>S<|role_end|><role>HUMAN</role> a <|role_end|><role>ASSISTANT</role> b <|role_end|><role>HUMAN</role>c<|role_end|><role>ASSISTANT</role>",
		"exaone-moe":        "<|system|>\nS<|endofturn|>\n<|user|>\na<|endofturn|>\n<|assistant|>\nb<|endofturn|>\n<|user|>\nc<|endofturn|>\n<|assistant|>\n",
		"exaone4":           "[|system|]S[|endofturn|]\n[|user|]a\n[|assistant|]b[|endofturn|]\n[|user|]c\n[|assistant|]",
		"gigachat":          "S<|message_sep|>user<|role_sep|> a <|message_sep|>available functions<|role_sep|>[]<|message_sep|>assistant<|role_sep|> b <|message_sep|>user<|role_sep|>c<|message_sep|>available functions<|role_sep|>[]<|message_sep|>assistant<|role_sep|>",
		"gpt-oss":           "<|start|>system<|message|>S<|end|><|start|>user<|message|> a <|end|><|start|>assistant<|message|> b <|return|><|start|>user<|message|>c<|end|><|start|>assistant",
		"granite-4.0":       "<|start_of_role|>system<|end_of_role|>S<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> a <|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|> b <|end_of_text|>\n<|start_of_role|>user<|end_of_role|>c<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>",
		"grok-2":            "System: S<|separator|>\n\nHuman: a<|separator|>\n\nAssistant:  b <|separator|>\n\nHuman: c<|separator|>\n\nAssistant:",
		"hunyuan-dense":     "<｜hy_begin▁of▁sentence｜>S<｜hy_place▁holder▁no▁3｜><｜hy_User｜> a <｜hy_Assistant｜> b <｜hy_place▁holder▁no▁2｜><｜hy_User｜>c<｜hy_Assistant｜>",
		"hunyuan-moe":       "<|startoftext|>S<|extra_4|><|startoftext|> a <|extra_0|> b <|eos|><|startoftext|>c<|extra_0|>",
		"kimi-k2":           "<|im_system|>system<|im_middle|>S<|im_end|><|im_user|>user<|im_middle|> a <|im_end|><|im_assistant|>assistant<|im_middle|> b <|im_end|><|im_user|>user<|im_middle|>c<|im_end|><|im_assistant|>assistant<|im_middle|>",
		"minicpm":           "S<用户>a<AI>b<用户>c<AI>",
		"orion":             "Human: S\n\n a \n\nAssistant: </s> b </s>Human: c\n\nAssistant: </s>",
		"pangu-embedded":    "[unused9]系统：S[unused10][unused9]用户： a [unused10][unused9]助手： b [unused10][unused9]用户：c[unused10][unused9]助手：",
		"rwkv-world":        "System: S\n\nUser: a\n\nAssistant: b\n\nUser: c\n\nAssistant:",
		"seed_oss":          "<seed:bos>system\nS<seed:eos><seed:bos>user\n a <seed:eos><seed:bos>assistant\nb<seed:eos><seed:bos>user\nc<seed:eos><seed:bos>assistant\n",
		"smolvlm":           "<|im_start|>S\n\nUser:  a <end_of_utterance>\nAssistant:  b <end_of_utterance>\nUser: c<end_of_utterance>\nAssistant:",
		"solar-open":        "<|begin|>system<|content|>S<|end|><|begin|>user<|content|> a <|end|><|begin|>assistant<|content|> b <|end|><|begin|>user<|content|>c<|end|><|begin|>assistant",
		"yandex":            " Пользователь: S\n\n a \n\n Ассистент:  b \n\n Пользователь: c\n\n Ассистент:[SEP]",
		"chatml":            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n a <|im_end|>\n<|im_start|>assistant\n b <|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n",
		"llama2":            "[INST] S\n a  [/INST] b </s>[INST] c [/INST]",
		"llama2-sys":        "[INST] <<SYS>>\nS\n<</SYS>>\n\n a  [/INST] b </s>[INST] c [/INST]",
		"llama2-sys-bos":    "[INST] <<SYS>>\nS\n<</SYS>>\n\n a  [/INST] b </s><s>[INST] c [/INST]",
		"llama2-sys-strip":  "[INST] <<SYS>>\nS\n<</SYS>>\n\na [/INST]b</s>[INST] c [/INST]",
		"llama3":            "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nb<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nc<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
		"mistral-v1":        " [INST] S\n\n a  [/INST]  b </s> [INST] c [/INST]",
		"mistral-v3":        "[INST] S\n\n a [/INST] b</s>[INST] c[/INST]",
		"mistral-v3-tekken": "[INST]S\n\n a [/INST] b </s>[INST]c[/INST]",
		"mistral-v7":        "[SYSTEM_PROMPT] S[/SYSTEM_PROMPT][INST]  a [/INST]  b </s>[INST] c[/INST]",
		"mistral-v7-tekken": "[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST] a [/INST] b </s>[INST]c[/INST]",
		"gemma":             "<start_of_turn>user\nS\n\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n<start_of_turn>user\nc<end_of_turn>\n<start_of_turn>model\n",
		"zephyr":            "<|system|>\nS<|endoftext|>\n<|user|>\n a <|endoftext|>\n<|assistant|>\n b <|endoftext|>\n<|user|>\nc<|endoftext|>\n<|assistant|>\n",
		"phi3":              "<|system|>\nS<|end|>\n<|user|>\n a <|end|>\n<|assistant|>\n b <|end|>\n<|user|>\nc<|end|>\n<|assistant|>\n",
		"deepseek":          "S### Instruction:\n a \n### Response:\n b \n<|EOT|>\n### Instruction:\nc\n### Response:\n",
		"deepseek3":         "S\n\n<｜User｜> a <｜Assistant｜> b <｜end▁of▁sentence｜><｜User｜>c<｜Assistant｜>",
		"monarch":           "system\nS</s>\n<s>user\n a </s>\n<s>assistant\n b </s>\n<s>user\nc</s>\n<s>assistant\n",
		"chatglm3":          "[gMASK]sop<|system|>\n S<|user|>\n  a <|assistant|>\n  b <|user|>\n c<|assistant|>",
		"vicuna-orca":       "SYSTEM: S\nUSER:  a \nASSISTANT:  b </s>\nUSER: c\nASSISTANT:",
	}
	for name := range builtins {
		tmpl := builtin(t, name)
		prompt, err := tmpl.Render(Input{Messages: talk, AddGenerationPrompt: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := prompt.Text
		if w, ok := want[name]; ok && got != w {
			t.Errorf("%s:\n got %q\nwant %q", name, got, w)
		}
		if !strings.Contains(got, "S") {
			t.Errorf("%s loses the system message", name)
		}
	}
	// Two write a system message of their own.
	for name, want := range map[string]string{
		"bailing2":       "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>c<|role_end|><role>ASSISTANT</role>",
		"pangu-embedded": "[unused9]系统：[unused10][unused9]用户：c[unused10][unused9]助手：",
	} {
		if got, err := builtin(t, name).Render(Input{Messages: talk[3:], AddGenerationPrompt: true}); err != nil || got.Text != want {
			t.Errorf("%s:\n got %q, %v\nwant %q", name, got.Text, err, want)
		}
	}
	for _, name := range strings.Fields(llamaNames) {
		if _, err := Builtin(name); err != nil && !strings.Contains(err.Error(), "cannot be had: ") {
			t.Errorf("llama-server has the template %s: %v", name, err)
		}
	}
	if _, err := Builtin("nope"); err == nil || !strings.Contains(err.Error(), "chatml, ") {
		t.Errorf("the error for an unknown name does not list the names: %v", err)
	}
}

// The builtin template of Gemma 4 writes what the models' own does, but for BOS.
func TestBuiltinGemma4(t *testing.T) {
	own, ours := parse(t, templates(t)["gemma4_31b_chat_template"]), builtin(t, "gemma4")
	for _, messages := range []string{
		`[{"role":"user","content":" Hello\n"}]`,
		`[{"role":"system","content":" Be brief. "},{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes.\n"},{"role":"user","content":"Bye"}]`,
	} {
		for _, kwargs := range []string{"", `{"enable_thinking":false}`} {
			for _, prompt := range []bool{true, false} {
				in := input(t, messages, kwargs, now)
				in.AddGenerationPrompt = prompt
				want, err := own.Render(in)
				if err != nil {
					t.Fatal(err)
				}
				got, err := ours.Render(in)
				if err != nil || tokens.BOS+got.Text != want.Text {
					t.Errorf("%s, %s:\n got %q, %v\nwant %q", messages, kwargs, got.Text, err, want.Text)
				}
				d := append(got.Reply().Write("<|channel>thought\nhm<channel|>Yes"), got.Reply().Close()...)
				if prompt && kwargs == "" && !slices.Equal(d, []Delta{{Reasoning: "hm"}, {Content: "Yes"}}) {
					t.Errorf("reply: %+v", d)
				}
			}
		}
	}
}

// A vocabulary tells which builtin template it is for.
func TestFor(t *testing.T) {
	for mark, want := range map[string]string{"<|turn>": "gemma4", "<start_of_turn>": "gemma", "<|im_start|>": "chatml", "[|endofturn|]": "exaone4", "<用户>": "minicpm", "<s>": Default} {
		if got := For(func(text string) bool { return text == mark }); got != want {
			t.Errorf("%s: %s, want %s", mark, got, want)
		}
	}
	for _, v := range vocabularies {
		if source, err := Builtin(v.name); err != nil || !strings.Contains(source, v.mark) {
			t.Errorf("%s: no such template, or its turns have no %s", v.name, v.mark)
		}
	}
}

// llamaNames are the values of llama-server's --chat-template.
const llamaNames = `
	bailing bailing-think bailing2 chatglm3 chatglm4 chatml command-r deepseek deepseek-ocr deepseek2 deepseek3
	exaone-moe exaone3 exaone4 falcon3 gemma gigachat glmedge gpt-oss granite granite-4.0 granite-4.1 grok-2
	hunyuan-dense hunyuan-moe hunyuan-vl kimi-k2 llama2 llama2-sys llama2-sys-bos llama2-sys-strip llama3 llama4
	megrez minicpm mistral-v1 mistral-v3 mistral-v3-tekken mistral-v7 mistral-v7-tekken monarch openchat orion
	pangu-embedded phi3 phi4 rwkv-world seed_oss smolvlm solar-open vicuna vicuna-orca yandex zephyr`

func TestMessageJSON(t *testing.T) {
	in := `{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],
		"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":2}"}},
		{"function":{"name":"g","arguments":{"y": 1, "b": 2}}}],"unknown":1}`
	var m Message
	if err := json.Unmarshal([]byte(in), &m); err != nil {
		t.Fatal(err)
	}
	if m.Content.String() != "a\nb" || m.ToolCalls[0].Function.Arguments != `{"z":1,"a":2}` ||
		m.ToolCalls[1].Function.Arguments != `{"y": 1, "b": 2}` {
		t.Errorf("%+v", m)
	}
	for _, content := range []string{`"x"`, `null`, `[{"type":"text","text":"x"}]`,
		`[{"type":"video_url","video_url":{"url":"data:video/jpeg;base64,aGk=,aG8=","fps":1.5}}]`,
		`[{"type":"video_url","video_url":{"url":"data:application/octet-stream;base64,aGk="}}]`} {
		var c Content
		if err := json.Unmarshal([]byte(content), &c); err != nil {
			t.Fatal(err)
		}
		if out, err := json.Marshal(c); err != nil || string(out) != content {
			t.Errorf("%s became %s, %v", content, out, err)
		}
	}
	for in, want := range map[string]string{
		`{"content":[{"type":"text","text":"a"},{"type":"image_url"}]}`:                                 `content[1] has no object image_url`,
		`{"content":[{"type":"video_url"}]}`:                                                            `content[0] has no object video_url`,
		`{"content":[{"type":"input_video"}]}`:                                                          `content[0] has type "input_video"; only text, image_url, input_audio and video_url can be read`,
		`{"content":[{"type":"video_url","video_url":{"url":"http://x/y.mp4"}}]}`:                       "content[0] is no data URL in base64",
		`{"content":[{"type":"video_url","video_url":{"url":"data:video/jpeg;base64,aGk=,!"}}]}`:        "content[0] is not in base64",
		`{"content":[{"type":"video_url","video_url":{"url":"data:image/gif;base64,aGk=,aGk="}}]}`:      "content[0] lists frames; want them as data:video/jpeg;base64,FRAME,FRAME",
		`{"content":[{"type":"video_url","video_url":{"url":"data:video/jpeg;base64,aGk=","fps":-1}}]}`: "content[0] has no fps above 0",
		`{"content":[{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}`:                       "content[0] is no data URL in base64",
		`{"content":[{"type":"input_audio","input_audio":{"data":"!"}}]}`:                               "content[0] is not in base64",
		`{"content":[{"type":"text"}]}`:                                                                 "content[0] has no text",
		`{"content":7}`:                                                                                 "content must be a string or a list of parts",
	} {
		var m Message
		err := json.Unmarshal([]byte(in), &m)
		var request *RequestError
		if !errors.As(err, &request) || err.Error() != want {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestErrors(t *testing.T) {
	user := Message{Role: "user", Content: Text("x")}
	call := Message{Role: "assistant", ToolCalls: []ToolCall{{Function: Function{"f", "nope"}}}}
	objects := "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}"
	for _, c := range []struct {
		source  string
		in      Input
		request bool
		want    string
	}{
		{"", Input{}, true, "messages is empty"},
		{"", Input{Messages: []Message{{}}}, true, "messages[0] has no role"},
		{"{{ raise_exception('no ' ~ messages[0].role) }}", Input{Messages: []Message{user}}, true, "the model's chat template refuses the conversation: no user"},
		{"\n{{ nope.x }}", Input{Messages: []Message{user}}, false, "chat template: template line 2: 'nope' is undefined"},
		{"{{ raise_exception() }}", Input{Messages: []Message{user}}, false, "chat template: template line 1: raise_exception wants one text"},
		{"", Input{Messages: []Message{user}, Kwargs: map[string]json.RawMessage{"k": json.RawMessage("{")}}, true, "chat_template_kwargs.k: unexpected EOF"},
		{"", Input{Messages: []Message{user}, Tools: []json.RawMessage{json.RawMessage("[")}}, true, "tools[0]: unexpected EOF"},
		{objects, Input{Messages: []Message{user, call}}, true, "messages[1]: tool_calls[0].function.arguments is not the JSON of an object"},
		{"{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + objects, // the first two become one
			Input{Messages: []Message{{Role: "system"}, user, call}}, true, "messages[2]: tool_calls[0].function.arguments is not the JSON of an object"},
		{"", Input{Messages: []Message{user}, ContinueFinalMessage: true}, true, "to continue the final message, that must be the assistant's, and without a generation prompt"},
	} {
		_, err := parse(t, c.source).Render(c.in)
		var request *RequestError
		if err == nil || err.Error() != c.want || errors.As(err, &request) != c.request {
			t.Errorf("%q: %v", c.source, err)
		}
	}
	if _, err := Parse("{% if %}", tokens); err == nil || !strings.HasPrefix(err.Error(), "chat template: template line 1: ") {
		t.Error(err)
	}
}

func TestCaps(t *testing.T) {
	const head = "{% for m in messages %}{{ m.role }}:{{ m.content }}"
	for source, want := range map[string]Caps{
		"":                    {StringContent: true},
		head + "{% endfor %}": {StringContent: true, SystemRole: true},
		"{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}": {TypedContent: true, SystemRole: true},
		"{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0].text }}{% endif %}{% endfor %}": {
			StringContent: true, TypedContent: true, SystemRole: true},
		"{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + head + "{% endfor %}": {StringContent: true},
		"{{ tools|tojson }}{{ enable_thinking }}{{ reasoning_effort }}" + head + "{{ m.reasoning_content }}{% endfor %}": {
			StringContent: true, SystemRole: true, Tools: true, PreserveReasoning: true, ReasoningEffort: true, EnableThinking: true},
		"{{ tools|tojson }}" + head + "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}": {
			StringContent: true, SystemRole: true, Tools: true, ToolCalls: true, ParallelToolCalls: true, ObjectArguments: true},
		"{{ tools|tojson }}" + head + "{% if m.tool_calls %}{{ m.tool_calls[0].function.name + m.tool_calls[0].function.arguments }}{% endif %}{% endfor %}": {
			StringContent: true, SystemRole: true, Tools: true, ToolCalls: true},
	} {
		if got := parse(t, source).Caps(); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", source, got, want)
		}
	}
}

func TestContent(t *testing.T) {
	message := func(content string) []Message {
		var m Message
		if err := json.Unmarshal([]byte(content), &m); err != nil {
			t.Fatal(err)
		}
		return []Message{m}
	}
	parts := `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`
	typed := "{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}"
	for _, c := range []struct{ source, message, want string }{
		{"{{ messages[0].content }}", parts, "a\nb"},
		{typed, parts, "[a][b]"},
		{typed, `{"role":"user","content":"a"}`, "[a]"},
		{"{{ messages[0].role }}", `{"role":"developer","content":"a"}`, "user"}, // no system role
		{"{{ messages[0].role }}{{ messages[0].content }}", `{"role":"developer","content":"a"}`, "systema"},
		{"{{ messages[0].role }}{{ messages[0].content }}{# developer #}", `{"role":"developer","content":"a"}`, "systema"},
		{"{{ messages[0].role }}{{ messages[0].content }}{# 'developer' #}", `{"role":"developer","content":"a"}`, "developera"},
		{"{{ messages[0].content is none }}", `{"role":"user","content":null}`, "False"}, // it would be printed
		{"{% for m in messages %}{% if m.content is none %}-{% else %}{{ m.content }}{% endif %}{{ m.tool_calls|tojson if m.tool_calls else '' }}{% endfor %}", `{"role":"user","content":null}`, "-"},
	} {
		got, err := parse(t, c.source).Render(Input{Messages: message(c.message)})
		if err != nil || got.Text != c.want {
			t.Errorf("%s with %s: %q, %v, not %q", c.source, c.message, got.Text, err, c.want)
		}
	}
}

func TestContinue(t *testing.T) {
	talk := []Message{{Role: "user", Content: Text("q")}, {Role: "assistant", Content: Text(" So ")}}
	for name, want := range map[string]string{
		"chatml": "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n So ",
		"gemma":  "<start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\nSo", // it trims
	} {
		got, err := builtin(t, name).Render(Input{Messages: talk, ContinueFinalMessage: true})
		if err != nil || got.Text != want {
			t.Errorf("%s: %q, %v", name, got.Text, err)
		}
	}
	// Texts that follow each other are one, with an empty line between them, also where a template takes parts.
	picture := func() Part {
		return Part{Medium: &Medium{Kind: Picture, Source: "data:image/png;base64,AA=="}}
	}
	typed := parse(t, "{% for m in messages %}{{ m.role }}:{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"+
		"{% if p.type == 'image' %}<image>{% else %}[{{ p.text }}]{% endif %}{% endfor %}{% endif %};{% endfor %}")
	for _, c := range []struct {
		of    *Template
		parts []Part
		want  string
	}{
		{builtin(t, "chatml"), Texts("Wh", "ill"), "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nWh\n\nill"},
		{builtin(t, "chatml"), Texts("Wh"), "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nWh"},
		{typed, Texts("Wh", "", "ill"), "user:q;assistant:Wh\n\n\n\nill"},
	} {
		said := Content{Parts: c.parts}
		got, err := c.of.Render(Input{Messages: []Message{talk[0], {Role: "assistant", Content: said}}, ContinueFinalMessage: true})
		if err != nil || got.Text != c.want {
			t.Errorf("%v: %q, %v, want %q", c.parts, got.Text, err, c.want)
		}
	}
	seen := Content{Parts: append(Texts("a", "b"), picture(), Part{Text: "c"}, Part{Text: "d"}, picture())}.paragraphs()
	if got := seen.String(); len(seen.Parts) != 4 || got != "a\n\nbc\n\nd" || len(seen.Media()) != 2 {
		t.Errorf("beside pictures: %q of %d parts", got, len(seen.Parts))
	}
	// A message that is empty is begun.
	for _, empty := range []Content{Text(""), Text(" \n"), {Null: true}, {Parts: []Part{}}} {
		for name, want := range map[string]string{
			"chatml": "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n",
			"gemma":  "<start_of_turn>user\nq<end_of_turn>\n<start_of_turn>model\n",
		} {
			got, err := builtin(t, name).Render(Input{Messages: []Message{talk[0], {Role: "assistant", Content: empty}}, ContinueFinalMessage: true})
			if err != nil || got.Text != want {
				t.Errorf("%s with %+v: %q, %v", name, empty, got.Text, err)
			}
		}
	}
	got, err := builtin(t, "chatml").Render(Input{Messages: []Message{{Role: "assistant"}}, ContinueFinalMessage: true})
	if want := "<|im_start|>assistant\n"; err != nil || got.Text != want {
		t.Errorf("alone: %q, %v", got.Text, err)
	}
	// Reasoning without content goes on as reasoning.
	think := parse(t, "{% for m in messages %}{{ m.role }}:{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }};{% endfor %}")
	got, err = think.Render(Input{Messages: []Message{talk[0], {Role: "assistant", ReasoningContent: "Let me"}}, ContinueFinalMessage: true})
	if want := "user:q;assistant:<think>Let me"; err != nil || got.Text != want {
		t.Errorf("reasoning: %q, %v", got.Text, err)
	}
	if p := parseReply(t, got.Reply(), " see.</th", "ink> Yes"); p != (parts{"Yes", " see."}) {
		t.Errorf("reasoning: got %+v", p)
	}
	_, err = parse(t, "{{ messages[1].content|upper }}").Render(Input{Messages: talk, ContinueFinalMessage: true})
	var request *RequestError
	if !errors.As(err, &request) {
		t.Error(err)
	}
}

// Arguments keep their order; variables given for the template reach it.
func TestVariables(t *testing.T) {
	tmpl := parse(t, "{{ bos_token }}{{ tools is defined }}{{ k }}{{ reasoning_effort }}{{ strftime_now('%d %b %Y') }}|{{ date_string }}|{{ datetime }}|{{ enable_thinking }}{{ eos_token }}")
	got, err := tmpl.Render(Input{
		Messages: []Message{{Role: "user"}}, ReasoningEffort: "low", Now: now,
		Kwargs: map[string]json.RawMessage{"k": json.RawMessage(`{"z":1,"a":[true]}`)},
	})
	if want := "<s>False{'z': 1, 'a': [True]}low06 Jul 2024|06 Jul 2024|Jul 06 2024|True</s>"; err != nil || got.Text != want {
		t.Errorf("%q, %v", got.Text, err)
	}
}

// What a request gives in place of a variable counts.
func TestVariablesOfARequest(t *testing.T) {
	tmpl := parse(t, "{{ date_string }} {{ datetime }} {{ enable_thinking }} {{ tools|length }}")
	got, err := tmpl.Render(Input{
		Messages: []Message{{Role: "user"}}, Tools: []json.RawMessage{json.RawMessage("{}")},
		Kwargs: map[string]json.RawMessage{"date_string": json.RawMessage(`"D"`), "datetime": json.RawMessage("null"), "enable_thinking": json.RawMessage("false")},
	})
	if want := "D None False 1"; err != nil || got.Text != want {
		t.Errorf("%q, %v", got.Text, err)
	}
}

func TestStrftime(t *testing.T) {
	at := time.Date(2024, 7, 6, 0, 4, 5, 678901000, time.UTC)
	for format, want := range map[string]string{
		"%Y-%m-%d %H:%M:%S.%f": "2024-07-06 00:04:05.678901",
		"%d %b %Y|%B|%A|%a|%y": "06 Jul 2024|July|Saturday|Sat|24",
		"%-d/%-m %-H %I %p %j": "6/7 0 12 AM 188",
		"100%% %Q %":           "100% %Q %",
		"":                     "",
		"%":                    "%",
		"%-":                   "%-",
	} {
		if got := strftime(at, format); got != want {
			t.Errorf("%q: %q, not %q", format, got, want)
		}
	}
}

// Hostile templates cost their probes, and no more.
func TestHostile(t *testing.T) {
	for _, source := range []string{
		"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
		"{% set ns=namespace(l=[]) %}{% set s='x'*1000000 %}{% for i in range(9999) %}{% set ns.l=[ns.l,x[s]] %}{% endfor %}",
		"{% set ns=namespace(l=[],x={}) %}{% set s='x'*1000000 %}{% for i in range(9999) %}{% set ns.l=[ns.l,ns.x[s]] %}{% endfor %}",
		"{% set l=[0]*99999 %}{% for a in range(99999) %}{% set x = l|sum %}{% endfor %}",
	} {
		var tmpl *Template
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		took := cputime.Of(func() { tmpl = parse(t, source) })
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > 1<<30 || took > 3*time.Second {
			t.Errorf("%s: its probes took %v and %d MB", source, took, made>>20)
		}
		var err error
		took = cputime.Of(func() { _, err = tmpl.Render(Input{Messages: []Message{{Role: "user"}}}) })
		if err == nil || took > 20*time.Second {
			t.Errorf("%s: %v after %v", source, err, took)
		}
	}
}

// A conversation has what templates need for it, and a short one not what a long one has.
func TestLimitsGrow(t *testing.T) {
	tmpl := parse(t, "{% for m in messages %}{% set s = m.content.split('x')|join('y') %}{{ s }}{% for i in range(N) %}{% endfor %}{% endfor %}")
	long := Text(strings.Repeat("ax", 500000))
	if _, err := tmpl.Render(Input{Messages: []Message{{Role: "user", Content: long}}, Kwargs: map[string]json.RawMessage{"N": []byte("1")}}); err != nil {
		t.Errorf("a megabyte: %v", err)
	}
	many := make([]Message, 10000)
	for i := range many {
		many[i] = Message{Role: "user", Content: Text("a")}
	}
	if _, err := tmpl.Render(Input{Messages: many, Kwargs: map[string]json.RawMessage{"N": []byte("9")}}); err != nil {
		t.Errorf("many messages: %v", err)
	}
	short := []Message{{Role: "user", Content: Text("a")}}
	greedy := parse(t, "{{ 'x' * 20000000 }}{{ messages }}")
	if _, err := greedy.Render(Input{Messages: short}); !errors.Is(err, jinja.ErrLimit) {
		t.Errorf("twenty megabytes for one byte: %v", err)
	}
	if p, err := greedy.Render(Input{Messages: []Message{{Role: "user", Content: long}}}); err != nil || len(p.Text) < 21e6 {
		t.Errorf("twenty megabytes for one: %d, %v", len(p.Text), err)
	}
}

// A rendering ends when nobody waits for it any more.
func TestUntil(t *testing.T) {
	tmpl := parse(t, "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	took := cputime.Of(func() {
		if _, err := tmpl.Render(Input{Messages: []Message{{Role: "user"}}, Until: ctx}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
	if took > time.Second {
		t.Errorf("cancelled after %v", took)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := tmpl.Render(Input{Messages: []Message{{Role: "user"}}, Until: ctx}); !errors.Is(err, jinja.ErrLimit) {
		t.Errorf("too late: %v", err)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, source := range builtins {
		f.Add(source, `[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"a"}]}]`)
	}
	f.Add("{{ tools|tojson }}{{ messages }}", `[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]`)
	old, oldProbe := limits, probeLimits
	limits.Steps, limits.Bytes = 20000, 1<<20
	probeLimits = limits
	f.Cleanup(func() { limits, probeLimits = old, oldProbe })
	f.Fuzz(func(t *testing.T, source, messages string) {
		in := Input{Now: now}
		if json.Unmarshal([]byte(messages), &in.Messages) != nil {
			return
		}
		tmpl, err := Parse(source, tokens)
		if err != nil {
			return
		}
		for _, in.ContinueFinalMessage = range []bool{false, true} {
			prompt, err := tmpl.Render(in)
			if err != nil && strings.Contains(err.Error(), "bug in") {
				t.Error(err)
			}
			if len(prompt.Text) > limits.Bytes {
				t.Errorf("%d bytes of text", len(prompt.Text))
			}
		}
	})
}
