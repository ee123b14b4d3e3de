package chat

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/internal/jinja"
)

// Caps is what a template can do. Its JSON is llama-server's chat_template_caps,
// and one more.
type Caps struct {
	SystemRole        bool `json:"supports_system_role"`
	StringContent     bool `json:"supports_string_content"`
	TypedContent      bool `json:"supports_typed_content"` // a list of parts
	Tools             bool `json:"supports_tools"`
	ToolCalls         bool `json:"supports_tool_calls"`
	ParallelToolCalls bool `json:"supports_parallel_tool_calls"`
	ObjectArguments   bool `json:"supports_object_arguments"`   // of tool calls, or else text
	PreserveReasoning bool `json:"supports_preserve_reasoning"` // of earlier messages
	ReasoningEffort   bool `json:"supports_reasoning_effort"`
	EnableThinking    bool `json:"supports_enable_thinking"` // the variable enable_thinking
}

// Probe conversations are short and few: published templates take 7,000 steps for all of them. One that exceeds these
// limits is hostile, and is probed no further.
var probeLimits = jinja.Limits{Steps: 1e6, Bytes: 16 << 20}

// Words that occur in no template.
const (
	wordA    = "qpasdlkj"
	wordB    = "wmzxncbv"
	probeKey = "ykdjfhgu"
)

// aTool is the definition of a function with the name wordB.
const aTool = `[{"type": "function", "function": {"name": "` + wordB + `", "description": "d", "parameters":
	{"type": "object", "properties": {"` + probeKey + `": {"type": "string", "description": "d"}}, "required": ["` + probeKey + `"]}}}]`

// probe finds the capabilities, each by rendering a conversation and looking
// for its words in the prompt.
func (t *Template) probe() {
	until, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	left := probeLimits
	t.probing = &probing{until, &left}
	defer func() { t.probing = nil }()
	c := &t.caps
	user := Message{Role: "user", Content: Text(wordA)}
	parts := Message{Role: "user", Content: Content{Parts: Texts(wordA)}}
	// The form of the content comes first: the other probes use it.
	c.TypedContent = true
	text, ok := t.try(nil, parts)
	c.TypedContent = ok && strings.Contains(text, wordA) && !strings.Contains(text, "'type'") // as a list is printed
	c.StringContent = true
	c.StringContent = t.has(wordA, user) || !c.TypedContent // at least one form must work

	c.SystemRole = true // otherwise the message would be merged into the next
	c.SystemRole = t.has(wordB+"s", Message{Role: "system", Content: Text(wordB + "s")}, user)
	t.probeTools(user)
	answer := Message{Role: "assistant", Content: Text("no"), ReasoningContent: wordA + "r"}
	c.PreserveReasoning = t.has(wordA+"r", user, answer, user)
	c.ReasoningEffort = t.differ("reasoning_effort", "low", "high", user)
	c.EnableThinking = t.differ("enable_thinking", true, false, user)
}

func (t *Template) probeTools(user Message) {
	c := &t.caps
	text, err := t.render(aTool, nil, user)
	c.Tools = err == nil && strings.Contains(text, wordB)

	call := func(id, name string) ToolCall {
		return ToolCall{id, "function", Function{name, `{"` + probeKey + `": "` + wordA + `"}`}}
	}
	talk := func(calls ...ToolCall) []Message {
		m := []Message{{Role: "user", Content: Text("hi")}, {Role: "assistant", Content: Content{Null: true}, ToolCalls: calls}}
		for _, one := range calls {
			m = append(m, Message{Role: "tool", Name: one.Function.Name, ToolCallID: one.ID, Content: Text("ok")})
		}
		return m
	}
	first, second := call("call00001", wordB), call("call00002", "second"+wordB) // ids of nine characters, which Mistral's templates require
	for _, way := range []struct{ objects, noNull bool }{{true, false}, {true, true}, {false, false}, {false, true}} {
		c.ObjectArguments, t.noNull = way.objects, way.noNull
		text, err := t.render(aTool, nil, talk(first)...)
		// Arguments that were text and are encoded as JSON have escaped quotes.
		if err == nil && strings.Contains(text, wordA) &&
			!strings.Contains(text, `\"`+probeKey) && (t.noNull || !strings.Contains(text, "None")) {
			c.ToolCalls = true
			text, err = t.render(aTool, nil, talk(first, second)...)
			c.ParallelToolCalls = err == nil && strings.Contains(text, "second"+wordB)
			return
		}
	}
	c.ObjectArguments = false
}

// A probing is what a template is given for all of its probes.
type probing struct {
	until context.Context
	left  *jinja.Limits
}

// render renders a probe conversation. tools is a JSON array, or empty for none.
func (t *Template) render(tools string, vars map[string]any, messages ...Message) (string, error) {
	l, err := t.messages(messages)
	if err != nil {
		return "", err
	}
	all := map[string]any{"messages": l, "add_generation_prompt": true}
	if tools != "" {
		if all["tools"], err = jinja.FromJSON([]byte(tools)); err != nil {
			return "", err
		}
	}
	maps.Copy(all, vars)
	text, _, err := t.run(t.probing.until, all, time.Unix(0, 0).UTC(), t.probing.left)
	return text, err
}

// try renders without tools, and on failure with one, which some templates require.
func (t *Template) try(vars map[string]any, messages ...Message) (string, bool) {
	text, err := t.render("", vars, messages...)
	if err != nil {
		text, err = t.render(aTool, vars, messages...)
	}
	return text, err == nil
}

// has reports whether the prompt contains a word.
func (t *Template) has(word string, messages ...Message) bool {
	text, ok := t.try(nil, messages...)
	return ok && strings.Contains(text, word)
}

// differ reports whether two values of a variable give different prompts.
func (t *Template) differ(name string, x, y any, messages ...Message) bool {
	a, ok := t.try(map[string]any{name: x}, messages...)
	b, ok2 := t.try(map[string]any{name: y}, messages...)
	return ok && ok2 && a != b
}
