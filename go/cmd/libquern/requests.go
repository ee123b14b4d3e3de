package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/chat"
)

// A request in the form of OpenAI's chat completions, with the fields that go beyond it named as the server's.
type request struct {
	Messages []json.RawMessage `json:"messages"`
	Prompt   *string           `json:"prompt"`

	Tools             []tool             `json:"tools"`
	ToolChoice        toolChoice         `json:"tool_choice"`
	ResponseFormat    *responseFormat    `json:"response_format"`
	StructuredOutputs *structuredOutputs `json:"structured_outputs"`

	Temperature      *float64 `json:"temperature"`
	TopP             *float64 `json:"top_p"`
	TopK             *int     `json:"top_k"`
	MinP             *float64 `json:"min_p"`
	RepeatPenalty    *float64 `json:"repeat_penalty"`
	PresencePenalty  *float64 `json:"presence_penalty"`
	FrequencyPenalty *float64 `json:"frequency_penalty"`
	Seed             *uint64  `json:"seed"`

	MaxTokens           *int                       `json:"max_tokens"`
	MaxCompletionTokens *int                       `json:"max_completion_tokens"`
	Stop                texts                      `json:"stop"`
	IgnoreEOS           bool                       `json:"ignore_eos"`
	ReasoningEffort     string                     `json:"reasoning_effort"`
	ReasoningBudget     *int                       `json:"reasoning_budget"`
	ChatTemplateKwargs  map[string]json.RawMessage `json:"chat_template_kwargs"`

	Logprobs    bool `json:"logprobs"`
	TopLogprobs *int `json:"top_logprobs"`
	Priority    int  `json:"priority"`

	// What says nothing here, and what clients of the server send.
	N             *int            `json:"n"`
	Model         json.RawMessage `json:"model"`
	Stream        json.RawMessage `json:"stream"`
	StreamOptions json.RawMessage `json:"stream_options"`
	User          json.RawMessage `json:"user"`
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"` // calls are held to their schema always
	} `json:"function"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Strict      *bool           `json:"strict"`
		Schema      json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

type structuredOutputs struct {
	JSON    json.RawMessage `json:"json"`
	Regex   *string         `json:"regex"`
	Choice  []string        `json:"choice"`
	Grammar *string         `json:"grammar"`
}

// texts are a text or a list of them.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = nil
		if string(data) != "null" {
			*t = texts{one}
		}
		return nil
	}
	if json.Unmarshal(data, (*[]string)(t)) != nil {
		return invalid("%.40s, want a text or a list of texts", data)
	}
	return nil
}

// toolChoice is none, auto or required, or the function that is to be called.
type toolChoice struct{ quern.ToolChoice }

func (t *toolChoice) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "null", `"auto"`:
		t.ToolChoice = quern.ToolChoice{}
		return nil
	case `"none"`:
		t.ToolChoice = quern.NoCalls()
		return nil
	case `"required"`:
		t.ToolChoice = quern.CallOf()
		return nil
	}
	var one struct{ Function struct{ Name string } }
	if json.Unmarshal(data, &one) != nil || one.Function.Name == "" {
		return invalid(`tool_choice: %.80s, want "none", "auto", "required" or {"type": "function", "function": {"name": ...}}`,
			data)
	}
	t.ToolChoice = quern.CallOf(one.Function.Name)
	return nil
}

// decode reads a JSON object whose fields are those of a struct, and says in a line what is wrong with it.
func decode(what, text string, to any) error {
	if !utf8.ValidString(text) {
		return invalid("%s is not UTF-8", what)
	}
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return invalid("%s is %.40q, want a JSON object", what, text)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		return invalid("%s goes on after its JSON object", what)
	}
	var kind *json.UnmarshalTypeError
	var own *failure
	switch name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); {
	case errors.As(err, &own):
		return err
	case unknown:
		return invalid("%s: it has no field %s", what, name)
	case errors.As(err, &kind):
		return invalid("%s: %s is a %s, want %s", what, kind.Field, kind.Value, kind.Type)
	}
	return invalid("%s is not JSON: %v", what, strings.TrimPrefix(err.Error(), "json: "))
}

// readTexts reads the texts of which vectors are made.
func readTexts(text string) ([]string, error) {
	var r struct {
		Input texts           `json:"input"`
		Model json.RawMessage `json:"model"`
	}
	if err := decode("the request", text, &r); err != nil {
		return nil, err
	}
	if len(r.Input) == 0 {
		return nil, invalid("input: missing, want a text or a list of texts")
	}
	return r.Input, nil
}

// readRequest reads a request.
func readRequest(text string) (out quern.Request, err error) {
	var r request
	if err := decode("the request", text, &r); err != nil {
		return out, err
	}
	return r.asks()
}

// asks returns a request that has messages or a prompt.
func (r *request) asks() (out quern.Request, err error) {
	if (r.Messages == nil) == (r.Prompt == nil) {
		return out, invalid("want messages or prompt, one of them")
	}
	return r.read()
}

// read returns the request with what it has.
func (r *request) read() (out quern.Request, err error) {
	if r.N != nil && *r.N != 1 {
		return out, invalid("n: %d, want 1: begin a call for each answer", *r.N)
	}
	out = quern.Request{
		ToolChoice:  r.ToolChoice.ToolChoice,
		Temperature: r.Temperature, TopP: r.TopP, TopK: r.TopK, MinP: r.MinP, RepeatPenalty: r.RepeatPenalty,
		PresencePenalty: r.PresencePenalty, FrequencyPenalty: r.FrequencyPenalty, Seed: r.Seed,
		Stop: r.Stop, IgnoreEnd: r.IgnoreEOS, ReasoningEffort: r.ReasoningEffort, Priority: r.Priority,
		TopLogprobs: r.TopLogprobs,
	}
	if r.Prompt != nil {
		out.Prompt = *r.Prompt
	}
	if r.Logprobs && r.TopLogprobs == nil {
		out.TopLogprobs = new(int)
	}
	if n := r.ReasoningBudget; n != nil && *n != -1 {
		out.ReasoningTokens = n
	}
	for _, n := range []*int{r.MaxTokens, r.MaxCompletionTokens} {
		if n != nil && *n < 1 {
			return out, invalid("max_tokens: %d, want at least 1", *n)
		}
		if n != nil {
			out.MaxTokens = *n
		}
	}
	if len(r.ChatTemplateKwargs) > 0 {
		out.TemplateValues = map[string]any{}
		for name, v := range r.ChatTemplateKwargs {
			out.TemplateValues[name] = v
		}
	}
	if out.Messages, err = readMessages(r.Messages); err != nil {
		return out, err
	}
	for i, t := range r.Tools {
		if t.Type != "function" {
			return out, invalid("tools[%d]: type: %q, want \"function\"", i, t.Type)
		}
		f := t.Function
		out.Tools = append(out.Tools, quern.Tool{Name: f.Name, Description: f.Description, Parameters: orNil(f.Parameters)})
	}
	out.Format, err = r.format()
	return out, err
}

// orNil takes JSON's null for nothing.
func orNil(v json.RawMessage) json.RawMessage {
	if bytes.Equal(v, []byte("null")) {
		return nil
	}
	return v
}

// readMessages reads a conversation.
func readMessages(list []json.RawMessage) (out []quern.Message, err error) {
	for i, one := range list {
		m, err := readMessage(one)
		if err != nil {
			return nil, invalid("messages[%d]: %v", i, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// readMessage reads a message of a conversation. What it has besides, such as what others' answers have, is passed by.
func readMessage(data []byte) (out quern.Message, err error) {
	var m chat.Message
	if err := json.Unmarshal(data, &m); err != nil {
		if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
			return out, fmt.Errorf("%s is a %s", strings.TrimPrefix("message."+kind.Field, "message.."), kind.Value)
		}
		return out, err
	}
	out.Role = quern.Role(m.Role)
	if m.Role == "developer" { // the newer name of it
		out.Role = quern.RoleSystem
	}
	if out.Role == quern.RoleTool {
		out.Parts = []quern.Part{{Result: &quern.ToolResult{
			ID: m.ToolCallID, Name: m.Name, Text: m.Content.Text, Parts: partsOf(m.Content.Parts),
		}}}
		return out, nil
	}
	if m.ReasoningContent != "" {
		out.Parts = append(out.Parts, quern.Part{Reasoning: m.ReasoningContent})
	}
	parts := m.Content.Parts
	if parts == nil && m.Content.Text != "" {
		parts = chat.Texts(m.Content.Text)
	}
	out.Parts = append(out.Parts, partsOf(parts)...)
	for _, c := range m.ToolCalls {
		out.Parts = append(out.Parts, quern.Part{Call: &quern.ToolCall{
			ID: c.ID, Name: c.Function.Name, Arguments: string(c.Function.Arguments),
		}})
	}
	return out, nil
}

// partsOf returns texts and media.
func partsOf(parts []chat.Part) (all []quern.Part) {
	for _, p := range parts {
		one := quern.Part{Text: p.Text}
		switch {
		case p.Medium == nil:
		case p.Medium.Kind == chat.Picture:
			one.Image = p.Medium.Data
		case p.Medium.Kind == chat.Video:
			one.Video = &quern.Video{Frames: p.Medium.Frames, Rate: p.Medium.Rate}
			if p.Medium.Frames == nil {
				one.Video.Frames = [][]byte{p.Medium.Data}
			}
		default:
			one.Audio = p.Medium.Data
		}
		all = append(all, one)
	}
	return all
}

// format returns what the answer is held to.
func (r *request) format() (*quern.Format, error) {
	var all []*quern.Format
	if f := r.ResponseFormat; f != nil {
		switch {
		case f.Type == "text":
		case f.Type == "json_object":
			all = append(all, quern.JSON())
		case f.Type != "json_schema":
			return nil, invalid("response_format: type: %q, want text, json_object or json_schema", f.Type)
		case f.JSONSchema == nil || orNil(f.JSONSchema.Schema) == nil:
			return nil, invalid("response_format: json_schema: schema: missing, want a JSON schema")
		default:
			all = append(all, quern.JSONSchema(f.JSONSchema.Schema))
		}
	}
	if s := r.StructuredOutputs; s != nil {
		if orNil(s.JSON) != nil {
			all = append(all, quern.JSONSchema(s.JSON))
		}
		if s.Regex != nil {
			all = append(all, quern.Regex(*s.Regex))
		}
		if s.Choice != nil {
			all = append(all, quern.Choice(s.Choice...))
		}
		if s.Grammar != nil {
			all = append(all, quern.Grammar(*s.Grammar))
		}
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return nil, invalid("response_format and structured_outputs have %d formats, want one", len(all))
}
