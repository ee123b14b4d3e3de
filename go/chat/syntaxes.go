package chat

import (
	"crypto/rand"
	"strings"
)

// hermes is what most models are taught, and what models are told that are taught nothing.
var hermes = syntax{open: "<tool_call>", shut: "</tool_call>", form: object{name: "name", args: "arguments"}}

// harmonic marks the syntax of gpt-oss, whose calls package harmony's channels have.
var harmonic = syntax{form: object{}}

// syntaxes tells by texts in the source of a template how its models write calls. The
// first whose texts are all there is meant.
var syntaxes = [...]struct {
	name   string
	tells  []string
	syntax syntax
}{
	{"DeepSeek V4", []string{"DSML｜", "tool_calls>"}, dsml("tool_calls")},
	{"DeepSeek V3.2", []string{"DSML｜"}, dsml("function_calls")},
	{"DeepSeek V3", []string{"<｜tool▁call▁begin｜>", "```json"}, deepseek(named{before: "function<｜tool▁sep｜>", between: "\n```json", after: "```"})},
	{"DeepSeek V3.1", []string{"<｜tool▁call▁begin｜>"}, deepseek(named{between: "<｜tool▁sep｜>"})},
	{"Kimi K2", []string{"<|tool_call_argument_begin|>"}, syntax{
		begin: "<|tool_calls_section_begin|>", end: "<|tool_calls_section_end|>", open: "<|tool_call_begin|>", shut: "<|tool_call_end|>",
		form: named{between: "<|tool_call_argument_begin|>", trim: kimiName},
	}},
	{"Kimi K3", []string{"open_tag('call', [('tool'"}, syntax{
		begin: "<|open|>tools<|sep|>", end: "<|close|>tools<|sep|>", open: `<|open|>call tool="`,
		form: params{
			index: `" index="`, between: `"<|sep|>`, after: "<|close|>call<|sep|>",
			key: `<|open|>argument key="`, typed: `" type="`, types: true, colon: `"<|sep|>`, stop: "<|close|>argument<|sep|>",
		},
	}},
	{"MiniMax", []string{"<minimax:tool_call>"}, syntax{
		begin: "<minimax:tool_call>", end: "</minimax:tool_call>", open: `<invoke name=`,
		form: params{before: `"`, between: `">`, after: "</invoke>", key: `<parameter name="`, colon: `">`, stop: "</parameter>"},
	}},
	{"Hy 3", []string{"set HYTK = ':opensource'"}, syntax{
		begin: "<tool_calls:opensource>", end: "</tool_calls:opensource>", open: "<tool_call:opensource>",
		form: params{
			between: "<tool_sep:opensource>", after: "</tool_call:opensource>", key: "<arg_key:opensource>", colon: "</arg_key:opensource>",
			open: "<arg_value:opensource>", stop: "</arg_value:opensource>",
		},
	}},
	{"GigaChat 3.1", []string{"<|function_call|>"}, syntax{open: "<|function_call|>", form: object{name: "name", args: "arguments"}}},
	{"MiniCPM 5", []string{`'<param name="'`, "<![CDATA["}, syntax{
		open: `<function name="`, tokens: []string{"<function", "<param"},
		form: params{between: `">`, after: "</function>", key: `<param name="`, colon: `">`, stop: "</param>", cdata: true},
	}},
	{"GLM", []string{"<arg_key>"}, syntax{
		open: "<tool_call>",
		form: params{after: "</tool_call>", key: "<arg_key>", colon: "</arg_key>", open: "<arg_value>", stop: "</arg_value>"},
	}},
	{"Seed", []string{"<seed:tool_call>"}, syntax{open: "<seed:tool_call>", shut: "</seed:tool_call>", form: functionParams}},
	{"Qwen3-Coder", []string{"<tool_call>", "<function=", "<parameter="}, syntax{open: "<tool_call>", shut: "</tool_call>", form: functionParams}},
	{"Gemma 4", []string{"<|tool_call>"}, syntax{open: "<|tool_call>", shut: "<tool_call|>", form: braces{"call:", `<|"|>`}}},
	{"FunctionGemma", []string{"<start_function_call>"}, syntax{open: "<start_function_call>", shut: "<end_function_call>", form: braces{"call:", "<escape>"}}},
	{"LFM2", []string{"<|tool_call_start|>"}, syntax{open: "<|tool_call_start|>", shut: "<|tool_call_end|>", form: python{}}},
	{"Phi-4", []string{"<|tool_call|>", "<|/tool_call|>"}, syntax{open: "<|tool_call|>", shut: "<|/tool_call|>", form: listed}},
	{"Granite 3", []string{"<|tool_call|>"}, syntax{open: "<|tool_call|>", form: listed}},
	{"Command R7B", []string{"<|START_ACTION|>"}, syntax{
		open: "<|START_ACTION|>", shut: "<|END_ACTION|>", form: object{list: true, name: "tool_name", args: "parameters", id: "tool_call_id"},
	}},
	{"Command R+", []string{"Action:", "```json", "tool_name"}, syntax{
		open: "Action:", form: object{list: true, before: "```json", after: "```", name: "tool_name", args: "parameters"},
	}},
	{"Nemotron", []string{"<TOOLCALL>"}, syntax{open: "<TOOLCALL>", shut: "</TOOLCALL>", form: listed}},
	{"Apertus", []string{"<|tools_prefix|>"}, syntax{open: "<|tools_prefix|>", shut: "<|tools_suffix|>", form: object{list: true}}},
	{"Solar Open", []string{"<|tool_call:begin|>"}, syntax{
		begin: "<|tool_calls|>", end: "<|calls|>", open: "<|tool_call:begin|>", shut: "<|tool_call:end|>",
		form: named{idFirst: "<|tool_call:name|>", between: "<|tool_call:args|>"},
	}},
	{"MiniMax M1", []string{"<tool_calls>", "<beginning_of_sentence>"}, syntax{
		begin: "<tool_calls>", end: "</tool_calls>", form: object{name: "name", args: "arguments"},
	}},
	{"Hunyuan", []string{"<tool_calls>"}, syntax{open: "<tool_calls>", shut: "</tool_calls>", form: listed}},
	{"Mistral v11", []string{"[TOOL_CALLS]", "[ARGS]"}, syntax{open: "[TOOL_CALLS]", form: named{between: "[ARGS]", id: "[CALL_ID]"}, id: mistralID}},
	{"Mistral", []string{"[TOOL_CALLS]"}, syntax{
		open: "[TOOL_CALLS]", form: object{list: true, name: "name", args: "arguments", id: "id"}, id: mistralID,
	}},
	{"Hermes", []string{"<tool_call>"}, hermes},
	{"FireFunction", []string{"functools["}, syntax{open: "functools", form: listed}},
	{"Functionary 3.1", []string{"<function=", "</function>"}, syntax{open: "<function=", form: named{between: ">", after: "</function>"}}},
	{"Functionary 3.2", []string{">>>all", ">>>"}, syntax{open: ">>>", form: named{between: "\n", plain: "all"}}},
	{"Llama 3", []string{`"parameters": dictionary`}, syntax{open: "<|python_tag|>", bare: true, form: object{name: "name", args: "parameters"}}},
}

var (
	listed         = object{list: true, name: "name", args: "arguments"}
	functionParams = params{before: "<function=", between: ">", after: "</function>", key: "<parameter=", colon: ">", stop: "</parameter>", lines: true}
)

func dsml(section string) syntax {
	const m = "｜DSML｜"
	return syntax{
		begin: "<" + m + section + ">", end: "</" + m + section + ">", open: "<" + m + "invoke name=",
		form: params{
			before: `"`, between: `">`, after: "</" + m + "invoke>",
			key: "<" + m + `parameter name="`, typed: `" string="`, colon: `">`, stop: "</" + m + "parameter>",
		},
	}
}

func deepseek(f named) syntax {
	return syntax{
		begin: "<｜tool▁calls▁begin｜>", end: "<｜tool▁calls▁end｜>", open: "<｜tool▁call▁begin｜>", shut: "<｜tool▁call▁end｜>", form: f,
	}
}

// syntaxOf returns how the models write calls that a template is for.
func syntaxOf(source string) *syntax {
	if strings.Contains(source, "<|start|>") && strings.Contains(source, messageMark) {
		return &harmonic
	}
	for i := range syntaxes {
		s := &syntaxes[i]
		all := true
		for _, text := range s.tells {
			all = all && strings.Contains(source, text)
		}
		if all {
			return &s.syntax
		}
	}
	return &hermes
}

// kimiName takes the name out of an id such as functions.get_time:0.
func kimiName(id string) (name, whole string) {
	name = strings.TrimPrefix(id, "functions.")
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[:i]
	}
	return name, id
}

// mistralID makes an id of nine letters, which Mistral's templates require.
func mistralID() string { return randomLetters(9) }

// randomID makes an id as OpenAI's are.
func randomID() string { return "call_" + randomLetters(24) }

const idLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func randomLetters(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	for i := range b {
		b[i] = idLetters[int(b[i])%len(idLetters)]
	}
	return string(b)
}
