package fake

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Metadata is a vocabulary: every byte is a token, and some words are.
type Metadata map[string]any

func (m Metadata) Value(key string) (any, bool) { v, ok := m[key]; return v, ok }

// Controls are the control tokens of the usual vocabulary.
var Controls = []string{
	"<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>",
}

// Vocabulary returns a vocabulary with control tokens.
func Vocabulary(controls []string) Metadata {
	tokens := []string{"<unk>", "<s>", "</s>"}
	types := []int32{2, 3, 3}
	for b := range 256 {
		tokens = append(tokens, fmt.Sprintf("<0x%02X>", b))
		types = append(types, 6)
	}
	for _, c := range controls {
		tokens = append(tokens, c)
		types = append(types, 3)
	}
	for _, word := range []string{"He", "ll", "o", "Hell", "Hello", "\u2581world", "\u2581"} {
		tokens = append(tokens, word)
		types = append(types, 1)
	}
	scores := make([]float32, len(tokens))
	for i := range scores {
		scores[i] = -float32(i)
	}
	return Metadata{
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.scores": scores, "tokenizer.ggml.add_space_prefix": false,
		"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2),
	}
}

// Tokenizer returns the tokenizer of a vocabulary.
func Tokenizer(t testing.TB, m Metadata) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Template is ChatML of a model that thinks. opens says that the prompt opens the reasoning.
func Template(t testing.TB, opens bool) *chat.Template {
	t.Helper()
	source := `{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{% for m in messages %}{% if m.role == 'alien' %}` +
		"{{ raise_exception('roles must be of this world') }}{% endif %}" +
		"<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}" +
		"<think>\n\n</think>\n\n{% elif OPENS %}<think>\n{{''}}{% endif %}" +
		"{% endif %}{% if mark is defined %}[{{ mark }}]{% endif %}"
	tmpl, err := chat.Parse(strings.ReplaceAll(source, "OPENS", fmt.Sprint(opens)), chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// ChatML is a template of models that write calls as Hermes and Qwen do, and think.
const ChatML = `{% if tools %}<|im_start|>system
# Tools, each within <tools></tools>, called as <tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>: {% for tool in tools %}{{ tool|tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function|tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{# <think> #}`

// newModel returns the usual model of an engine, whose tokenizer it sets.
func newModel(t testing.TB, f *Engine) ask.Model {
	t.Helper()
	meta := Vocabulary(Controls)
	f.Tok = Tokenizer(t, meta)
	return ask.Model{
		Engine: f, Tokenizer: f.Tok, Template: Template(t, false), Metadata: meta,
		Name: "fake/model", Path: "fake.gguf", Fingerprint: "test", Ctx: 512, Sampling: sample.Defaults(),
		Pooling: nn.PoolLast, Normalize: engine.Euclidean, Info: ask.ModelInfo{NEmbd: 2},
	}
}

// A Still is a model without weights, which sleeps and wakes at once.
type Still struct{ Of *ask.Model }

func (i *Still) Model() *ask.Model                         { return i.Of }
func (i *Still) Bytes() uint64                             { return 0 }
func (i *Still) Need(uint64) (uint64, error)               { return 0, nil }
func (i *Still) Sleep() error                              { return nil }
func (i *Still) Wake(context.Context, func(float64)) error { return nil }
func (i *Still) Drain(context.Context)                     {}
func (i *Still) Close()                                    {}

// Shown is a conversation in a line.
func Shown(c *ask.Conversation) string {
	var all []string
	for _, m := range c.Messages {
		line := m.Role
		if m.ToolCallID != "" {
			line += " " + m.ToolCallID + " " + m.Name
		}
		if m.ReasoningContent != "" {
			line += " (" + m.ReasoningContent + ")"
		}
		line += ": " + m.Content.Text
		for i, p := range m.Content.Parts {
			if i > 0 {
				line += "|"
			}
			if line += p.Text; p.Medium != nil {
				line += "<" + p.Medium.Source + ">"
			}
		}
		for _, call := range m.ToolCalls {
			line += fmt.Sprintf(" [%s %s %s]", call.ID, call.Function.Name, call.Function.Arguments)
		}
		all = append(all, line)
	}
	return strings.Join(all, "; ")
}
