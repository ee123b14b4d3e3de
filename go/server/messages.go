package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/tokenizer"
)

// A Template writes a conversation the way its model was trained on.
type Template interface {
	// Render returns the prompt. Messages have a role and content, and whatever
	// else the client gave them; vars are further variables of the template.
	Render(messages []map[string]any, generate bool, vars map[string]any) (string, error)
	// Source is the template itself.
	Source() string
}

// A conversation is messages, each with a role and content as text.
type conversation []map[string]any

const wantMessages = `an array of messages such as {"role": "user", "content": "hello"}`

func (c *conversation) take(v jsontext.Value) error {
	if v.Kind() != '[' {
		return wrong(v, wantMessages)
	}
	*c = conversation{}
	err := eachOf(v, func(i int, v jsontext.Value) error {
		m, err := readMessage(v)
		if err != nil {
			return wrap(fmt.Sprintf("message %d", i), err)
		}
		*c = append(*c, m)
		return nil
	})
	if err == nil && len(*c) == 0 {
		err = fmt.Errorf("empty, want %s", wantMessages)
	}
	return err
}

func readMessage(v jsontext.Value) (map[string]any, error) {
	fields, err := readObject(v)
	if err != nil {
		return nil, err
	}
	role := fields["role"]
	if role.Kind() != '"' {
		return nil, bad("role: %v", missing(role, "a string such as user"))
	}
	m := map[string]any{}
	for name, value := range fields {
		var x any
		if err := json.Unmarshal(value, &x); err != nil {
			return nil, bad("%s: %s is out of range", name, describe(value))
		}
		m[name] = x
	}
	switch content := fields["content"]; content.Kind() {
	case '"':
	case '[':
		if m["content"], err = readParts(content); err != nil {
			return nil, wrap("content", err)
		}
	default:
		calls, _ := m["tool_calls"].([]any)
		if str(role) != "assistant" || len(calls) == 0 || content != nil && content.Kind() != 'n' {
			return nil, bad("content: %v", missing(content, "a string or an array of text parts"))
		}
		m["content"] = "" // the calls are what it says
	}
	return m, nil
}

// missing is wrong, for values that may be absent.
func missing(v jsontext.Value, want string) error {
	if v == nil {
		return fmt.Errorf("missing, want %s", want)
	}
	return wrong(v, want)
}

// readParts joins the parts of a content, which must be text.
func readParts(v jsontext.Value) (string, error) {
	content := ""
	err := eachOf(v, func(i int, v jsontext.Value) error {
		fields, err := readObject(v)
		if err != nil {
			return wrap(fmt.Sprintf("part %d", i), err)
		}
		kind := fields["type"]
		if kind.Kind() != '"' {
			return bad("part %d: type: %v", i, missing(kind, "text"))
		}
		switch str(kind) {
		case "text", "refusal":
		case "image_url", "input_audio", "input_video", "file":
			return unsupported("part %d: the model reads text only, want no %s", i, str(kind))
		default:
			return bad("part %d: type: %v", i, wrong(kind, "text"))
		}
		part := fields[str(kind)]
		if part.Kind() != '"' {
			return bad("part %d: %s: %v", i, str(kind), missing(part, "a string"))
		}
		if i > 0 {
			content += "\n"
		}
		content += str(part)
		return nil
	})
	return content, err
}

func (c *conversation) value() any { return nil }

func (c *conversation) schema() schema {
	part := schema{"type": "object", "required": []string{"type"}, "properties": schema{"type": schema{"type": "string"}, "text": schema{"type": "string"}}}
	return schema{
		"type": "array", "minItems": 1, "description": wantMessages,
		"items": schema{"type": "object", "required": []string{"role"}, "properties": schema{
			"role":    schema{"type": "string"},
			"content": schema{"anyOf": []schema{{"type": "string"}, {"type": "array", "items": part}, {"type": "null"}}},
		}},
	}
}

// templateValues are variables for the template.
type templateValues map[string]any

func (t *templateValues) take(v jsontext.Value) error {
	if v.Kind() != '{' {
		return wrong(v, "an object")
	}
	if err := json.Unmarshal(v, t); err != nil {
		return fmt.Errorf("a number is out of range")
	}
	return nil
}

func (t *templateValues) value() any     { return map[string]any(*t) }
func (t *templateValues) schema() schema { return schema{"type": "object"} }

// resume says whether the last message is to be gone on with.
type resume struct{ given, on bool }

func (r *resume) take(v jsontext.Value) error {
	r.given = true
	return boolean{&r.on}.take(v)
}

func (r *resume) value() any     { return r.on }
func (r *resume) schema() schema { return schema{"type": "boolean"} }

// render returns the prompt of a conversation.
func (q *query) render(m *Model) (string, error) {
	if m.Template == nil {
		return "", unsupported("this model has no chat template, so it takes no messages; give it one with --chat-template, or a prompt at /v1/completions")
	}
	messages, generate, tail := q.messages, q.generate, ""
	last := messages[len(messages)-1]
	content, _ := last["content"].(string)
	assistant := last["role"] == "assistant"
	if !q.resume.given && assistant && last["tool_calls"] == nil || q.resume.on {
		if !assistant {
			return "", invalid("continue_final_message", "the last message is not the assistant's, want one that is")
		}
		if len(messages) > 1 && messages[len(messages)-2]["role"] == "assistant" {
			return "", invalid("messages", "two messages of the assistant at the end, want one at most to go on with")
		}
		messages, generate, tail = messages[:len(messages)-1], true, content
	}
	vars := maps.Clone(map[string]any(q.template))
	if vars == nil {
		vars = map[string]any{}
	}
	if q.effort == "none" {
		vars["enable_thinking"] = false
	} else if q.effort != "" {
		vars["reasoning_effort"] = q.effort
	}
	text, err := m.Template.Render(messages, generate, vars)
	if err != nil {
		return "", &apiError{status: http.StatusBadRequest, param: "messages", message: fmt.Sprintf("messages: the model's chat template: %v", err)}
	}
	return text + tail, nil
}

// encodeChat returns the tokens of a rendered conversation.
func (m *Model) encodeChat(text string) ([]int32, error) {
	return m.begun(m.Tokenizer.Encode(text, tokenizer.Options{ParseSpecial: true}))
}
