package chat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Default is the builtin template for models that have none, and whose vocabulary tells of none.
const Default = "chatml"

// vocabularies tells by a token of its turns which builtin template a vocabulary is for. The first that it has counts: some
// have tokens of families before them.
var vocabularies = [...]struct{ mark, name string }{
	{"<|turn>", "gemma4"}, {"<start_of_turn>", "gemma"}, {"<|im_start|>", "chatml"}, {"<|start_header_id|>", "llama3"},
	{"<|header_start|>", "llama4"}, {"<|START_OF_TURN_TOKEN|>", "command-r"}, {"<|start_of_role|>", "granite"}, {"<|im_middle|>", "kimi-k2"},
	{"<｜User｜>", "deepseek3"}, {"<seed:bos>", "seed_oss"}, {"<|role_start|>", "megrez"}, {"<|role_end|>", "bailing2"}, {"[|endofturn|]", "exaone4"},
	{"<|endofturn|>", "exaone-moe"}, {"<|message|>", "gpt-oss"}, {"<用户>", "minicpm"},
}

// For returns the name of the builtin template for a vocabulary, whose tokens isToken knows by their text.
func For(isToken func(text string) bool) string {
	for _, v := range vocabularies {
		if isToken(v.mark) {
			return v.name
		}
	}
	return Default
}

// Builtin returns the source of a builtin template. The names are llama.cpp's, and
// the templates produce the same prompts; gemma4 is our own, after the models' template.
func Builtin(name string) (string, error) {
	if source, ok := builtins[name]; ok {
		return source, nil
	}
	if why, ok := refused[name]; ok {
		return "", fmt.Errorf("the chat template %q cannot be had: %s", name, why)
	}
	names := slices.Sorted(maps.Keys(builtins))
	return "", fmt.Errorf("no chat template is named %q; there are %s", name, strings.Join(names, ", "))
}

// refused maps llama.cpp's template names that are not supported to the reason.
var refused = map[string]string{
	"deepseek-ocr": "it is for a model that reads images",
	"hunyuan-vl":   "it is for a model that reads images",
}

var builtins = map[string]string{
	"chatml":            turns("<|im_start|>ROLE\nCONTENT<|im_end|>\n", "<|im_start|>assistant\n"),
	"llama3":            turns("<|start_header_id|>ROLE<|end_header_id|>\n\nTRIMMED<|eot_id|>", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
	"llama4":            turns("<|header_start|>ROLE<|header_end|>\n\nTRIMMED<|eot|>", "<|header_start|>assistant<|header_end|>\n\n"),
	"phi3":              turns("<|ROLE|>\nCONTENT<|end|>\n", "<|assistant|>\n"),
	"phi4":              turns("<|im_start|>ROLE<|im_sep|>CONTENT<|im_end|>", "<|im_start|>assistant<|im_sep|>"),
	"falcon3":           turns("<|ROLE|>\nCONTENT\n", "<|assistant|>\n"),
	"zephyr":            turns("<|ROLE|>\nCONTENT<|endoftext|>\n", "<|assistant|>\n"),
	"granite":           turns("<|start_of_role|>ROLE<|end_of_role|>CONTENT<|end_of_text|>\n", "<|start_of_role|>assistant<|end_of_role|>\n"),
	"megrez":            turns("<|role_start|>ROLE<|role_end|>CONTENT<|turn_end|>", "<|role_start|>assistant<|role_end|>"),
	"glmedge":           turns("<|ROLE|>\nCONTENT", "<|assistant|>"),
	"chatglm3":          "[gMASK]sop" + turns("<|ROLE|>\n CONTENT", "<|assistant|>"),
	"chatglm4":          "[gMASK]<sop>" + turns("<|ROLE|>\nCONTENT", "<|assistant|>\n"),
	"monarch":           turns("{% if not loop.first %}<s>{% endif %}ROLE\nCONTENT</s>\n", "<s>assistant\n"),
	"command-r":         roles("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>TRIMMED<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>TRIMMED<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>TRIMMED<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"),
	"granite-4.0":       turns("<|start_of_role|>ROLE<|end_of_role|>CONTENT<|end_of_text|>\n", "<|start_of_role|>assistant<|end_of_role|>"),
	"granite-4.1":       turns("<|start_of_role|>ROLE<|end_of_role|>CONTENT<|end_of_text|>\n", "<|start_of_role|>assistant<|end_of_role|>"),
	"solar-open":        turns("<|begin|>ROLE<|content|>CONTENT<|end|>", "<|begin|>assistant"),
	"exaone-moe":        turns("<|ROLE|>\nTRIMMED<|endofturn|>\n", "<|assistant|>\n"),
	"seed_oss":          turns("<seed:bos>ROLE\n{{ message.content|trim if message.role == 'assistant' else message.content }}<seed:eos>", "<seed:bos>assistant\n"),
	"gpt-oss":           turns("<|start|>ROLE<|message|>CONTENT{{ '<|return|>' if message.role == 'assistant' else '<|end|>' }}", "<|start|>assistant"),
	"bailing":           turns(bailing, "<role>ASSISTANT</role>"),
	"bailing-think":     turns(bailing, "<role>ASSISTANT</role><think>"),
	"bailing2":          "{% if messages[0].role != 'system' %}<role>SYSTEM</role>detailed thinking off<|role_end|>{% endif %}" + turns(bailing+"<|role_end|>", "<role>ASSISTANT</role>"),
	"kimi-k2":           roles("<|im_system|>system<|im_middle|>CONTENT<|im_end|>", "<|im_user|>user<|im_middle|>CONTENT<|im_end|>", "<|im_assistant|>assistant<|im_middle|>CONTENT<|im_end|>", "<|im_assistant|>assistant<|im_middle|>"),
	"grok-2":            roles("System: TRIMMED<|separator|>\n\n", "Human: TRIMMED<|separator|>\n\n", "Assistant: CONTENT<|separator|>\n\n", "Assistant:"),
	"rwkv-world":        roles("System: TRIMMED\n\n", "User: TRIMMED\n\n", "Assistant: TRIMMED\n\n", "Assistant:"),
	"gigachat":          roles("CONTENT<|message_sep|>", "user<|role_sep|>CONTENT<|message_sep|>available functions<|role_sep|>[]<|message_sep|>", "assistant<|role_sep|>CONTENT<|message_sep|>", "assistant<|role_sep|>"),
	"yandex":            roles("", " Пользователь: CONTENT\n\n", " Ассистент: CONTENT\n\n", " Ассистент:[SEP]"),
	"orion":             roles("", "Human: CONTENT\n\nAssistant: </s>", "CONTENT</s>", ""),
	"minicpm":           roles("TRIMMED", "<用户>TRIMMED<AI>", "TRIMMED", ""),
	"smolvlm":           "<|im_start|>" + roles("CONTENT\n\n", "User: CONTENT<end_of_utterance>\n", "Assistant: CONTENT<end_of_utterance>\n", "Assistant:"),
	"hunyuan-moe":       roles("<|startoftext|>CONTENT<|extra_4|>", "<|startoftext|>CONTENT<|extra_0|>", "CONTENT<|eos|>", ""),
	"hunyuan-dense":     "<｜hy_begin▁of▁sentence｜>" + roles("CONTENT<｜hy_place▁holder▁no▁3｜>", "<｜hy_User｜>CONTENT", "<｜hy_Assistant｜>CONTENT<｜hy_place▁holder▁no▁2｜>", "<｜hy_Assistant｜>"),
	"pangu-embedded":    "{% if messages[0].role != 'system' %}[unused9]系统：[unused10]{% endif %}" + roles("[unused9]系统：CONTENT[unused10]", "[unused9]用户：CONTENT[unused10]", "[unused9]助手：CONTENT[unused10]", "[unused9]助手："),
	"exaone4":           roles("[|system|]TRIMMED[|endofturn|]\n", "[|user|]TRIMMED\n", "[|assistant|]TRIMMED[|endofturn|]\n", "[|assistant|]"),
	"deepseek":          roles("CONTENT", "### Instruction:\nCONTENT\n", "### Response:\nCONTENT\n<|EOT|>\n", "### Response:\n"),
	"deepseek2":         roles("CONTENT\n\n", "User: CONTENT\n\n", "Assistant: CONTENT<｜end▁of▁sentence｜>", "Assistant:"),
	"deepseek3":         roles("CONTENT\n\n", "<｜User｜>CONTENT", "<｜Assistant｜>CONTENT<｜end▁of▁sentence｜>", "<｜Assistant｜>"),
	"exaone3":           roles("[|system|]TRIMMED[|endofturn|]\n", "[|user|]TRIMMED\n", "[|assistant|]TRIMMED[|endofturn|]\n", "[|assistant|]"),
	"openchat":          roles("CONTENT<|end_of_turn|>", "GPT4 Correct User: CONTENT<|end_of_turn|>", "GPT4 Correct Assistant: CONTENT<|end_of_turn|>", "GPT4 Correct Assistant:"),
	"vicuna":            roles("CONTENT\n\n", "USER: CONTENT\n", "ASSISTANT: CONTENT</s>\n", "ASSISTANT:"),
	"vicuna-orca":       roles("SYSTEM: CONTENT\n", "USER: CONTENT\n", "ASSISTANT: CONTENT</s>\n", "ASSISTANT:"),
	"mistral-v7":        roles("[SYSTEM_PROMPT] CONTENT[/SYSTEM_PROMPT]", "[INST] CONTENT[/INST]", " CONTENT</s>", ""),
	"mistral-v7-tekken": roles("[SYSTEM_PROMPT]CONTENT[/SYSTEM_PROMPT]", "[INST]CONTENT[/INST]", "CONTENT</s>", ""),

	"mistral-v1":        instructions(" [INST] ", "CONTENT\n\n", "CONTENT [/INST]", " CONTENT</s>"),
	"mistral-v3":        instructions("[INST] ", "CONTENT\n\n", "CONTENT[/INST]", " TRIMMED</s>"),
	"mistral-v3-tekken": instructions("[INST]", "CONTENT\n\n", "CONTENT[/INST]", "CONTENT</s>"),
	"llama2":            instructions("[INST] ", "CONTENT\n", "CONTENT [/INST]", "CONTENT</s>"),
	"llama2-sys":        instructions("[INST] ", "<<SYS>>\nCONTENT\n<</SYS>>\n\n", "CONTENT [/INST]", "CONTENT</s>"),
	"llama2-sys-bos":    instructions("{% if not loop.first %}<s>{% endif %}[INST] ", "<<SYS>>\nCONTENT\n<</SYS>>\n\n", "CONTENT [/INST]", "CONTENT</s>"),
	"llama2-sys-strip":  instructions("[INST] ", "<<SYS>>\nTRIMMED\n<</SYS>>\n\n", "TRIMMED [/INST]", "TRIMMED</s>"),

	"gemma": `{% set ns = namespace(system='') %}{% for message in messages %}{% if message.role == 'system' %}` +
		`{% set ns.system = ns.system ~ message.content|trim ~ '\n\n' %}{% else %}` +
		`<start_of_turn>{{ 'model' if message.role == 'assistant' else message.role }}` + "\n" +
		`{% if message.role != 'assistant' %}{{ ns.system }}{% set ns.system = '' %}{% endif %}` +
		`{{ message.content|trim }}<end_of_turn>` + "\n" +
		`{% endif %}{% endfor %}{% if add_generation_prompt %}<start_of_turn>model` + "\n" + `{% endif %}`,

	"gemma4": `{% set own = messages[0].role == 'system' %}{% if own or enable_thinking %}<|turn>system` + "\n" +
		`{% if enable_thinking %}<|think|>` + "\n" + `{% endif %}{% if own %}{{ messages[0].content|trim }}{% endif %}<turn|>` + "\n" +
		`{% endif %}{% for message in messages %}{% if not (own and loop.first) %}` +
		`<|turn>{{ 'model' if message.role == 'assistant' else message.role }}` + "\n{{ message.content|trim }}<turn|>\n" +
		`{% endif %}{% endfor %}{% if add_generation_prompt %}<|turn>model` + "\n" +
		`{% if not enable_thinking %}<|channel>thought` + "\n" + `<channel|>{% endif %}{% endif %}`,
}

// bailing is a turn of the Ling and Ring models, without its end.
const bailing = "<role>{{ 'HUMAN' if message.role == 'user' else message.role|upper }}</role>CONTENT"

// fill replaces ROLE, CONTENT and TRIMMED by expressions for the fields of a message.
var fill = strings.NewReplacer("ROLE", "{{ message.role }}", "CONTENT", "{{ message.content }}", "TRIMMED", "{{ message.content|trim }}").Replace

// turns returns a template in which all roles have the same form. prompt is the
// generation prompt.
func turns(turn, prompt string) string {
	return "{% for message in messages %}" + fill(turn) + "{% endfor %}" + generation(prompt)
}

// roles returns a template in which each role has a form of its own.
func roles(system, user, assistant, prompt string) string {
	return "{% for message in messages %}{% if message.role == 'system' %}" + fill(system) +
		"{% elif message.role == 'user' %}" + fill(user) +
		"{% elif message.role == 'assistant' %}" + fill(assistant) + "{% endif %}{% endfor %}" + generation(prompt)
}

// instructions returns a template in which open precedes the system and user
// messages of each turn, and there is no generation prompt.
func instructions(open, system, user, assistant string) string {
	return "{% set ns = namespace(open=false) %}{% for message in messages %}" +
		"{% if not ns.open %}" + open + "{% set ns.open = true %}{% endif %}" +
		"{% if message.role == 'system' %}" + fill(system) +
		"{% elif message.role == 'user' %}" + fill(user) +
		"{% else %}" + fill(assistant) + "{% set ns.open = false %}{% endif %}{% endfor %}"
}

func generation(prompt string) string {
	return "{% if add_generation_prompt %}" + prompt + "{% endif %}"
}
