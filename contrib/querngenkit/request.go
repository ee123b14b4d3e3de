package querngenkit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/firebase/genkit/go/ai"

	"github.com/quern-llm/quern"
)

// Config is what ai.WithConfig may say to a model: of a field that is nil or empty, the options of the model hold. An
// ai.GenerationCommonConfig does as well. The fields are those of quern.Request.
type Config struct {
	Temperature      *float64 `json:"temperature,omitempty"`
	TopP             *float64 `json:"topP,omitempty"`
	TopK             *int     `json:"topK,omitempty"`
	MinP             *float64 `json:"minP,omitempty"`
	RepeatPenalty    *float64 `json:"repeatPenalty,omitempty"`
	PresencePenalty  *float64 `json:"presencePenalty,omitempty"`
	FrequencyPenalty *float64 `json:"frequencyPenalty,omitempty"`
	Seed             *uint64  `json:"seed,omitempty"`
	MaxOutputTokens  int      `json:"maxOutputTokens,omitempty"`
	StopSequences    []string `json:"stopSequences,omitempty"`
	ReasoningEffort  string   `json:"reasoningEffort,omitempty"`
	ReasoningTokens  *int     `json:"reasoningTokens,omitempty"`
	Priority         int      `json:"priority,omitempty"`
}

// configure sets what a configuration says, of any type that has the fields of Config.
func configure(r *quern.Request, config any) error {
	b, err := json.Marshal(config)
	if err != nil {
		return invalid("the configuration: %w", err)
	}
	var c Config
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return invalid("the configuration: %w", err)
	}
	for _, one := range []struct {
		given *float64
		to    **float64
	}{
		{c.Temperature, &r.Temperature}, {c.TopP, &r.TopP}, {c.MinP, &r.MinP}, {c.RepeatPenalty, &r.RepeatPenalty},
		{c.PresencePenalty, &r.PresencePenalty}, {c.FrequencyPenalty, &r.FrequencyPenalty},
	} {
		if one.given != nil {
			*one.to = one.given
		}
	}
	if c.TopK != nil {
		r.TopK = c.TopK
	}
	if c.Seed != nil {
		r.Seed = c.Seed
	}
	if c.MaxOutputTokens != 0 {
		r.MaxTokens = c.MaxOutputTokens
	}
	if c.StopSequences != nil {
		r.Stop = c.StopSequences
	}
	if c.ReasoningEffort != "" {
		r.ReasoningEffort = c.ReasoningEffort
	}
	if c.ReasoningTokens != nil {
		r.ReasoningTokens = c.ReasoningTokens
	}
	if c.Priority != 0 {
		r.Priority = c.Priority
	}
	return nil
}

// request returns what a call asks for.
func request(options quern.Request, in *ai.ModelRequest) (quern.Request, error) {
	r := options
	if in.Config != nil {
		if err := configure(&r, in.Config); err != nil {
			return r, err
		}
	}
	r.Tools = slices.Clip(r.Tools)
	for _, t := range in.Tools {
		one := quern.Tool{Name: t.Name, Description: t.Description}
		if t.InputSchema != nil {
			var err error
			if one.Parameters, err = json.Marshal(t.InputSchema); err != nil {
				return r, invalid("the tool %s: %w", t.Name, err)
			}
		}
		r.Tools = append(r.Tools, one)
	}
	// Genkit makes tools a map: in one order they are one prompt, whose beginning is in the cache.
	slices.SortStableFunc(r.Tools[len(options.Tools):], func(a, b quern.Tool) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	switch in.ToolChoice {
	case "":
	case ai.ToolChoiceAuto:
		r.ToolChoice = quern.ToolChoice{}
	case ai.ToolChoiceRequired:
		r.ToolChoice = quern.CallOf()
		if answered(in.Messages) { // it was called: Genkit asks for no other
			r.ToolChoice = quern.ToolChoice{}
		}
	case ai.ToolChoiceNone:
		r.ToolChoice = quern.NoCalls()
	default:
		return r, invalid("the tool choice %q, want auto, required or none", in.ToolChoice)
	}
	if out := in.Output; out != nil && out.Constrained && out.Schema != nil {
		schema, err := json.Marshal(out.Schema)
		if err != nil {
			return r, invalid("the schema of the output: %w", err)
		}
		r.Format = quern.JSONSchema(schema)
	}
	messages, err := messagesOf(in.Messages)
	r.Messages = append(slices.Clip(r.Messages), messages...)
	return r, err
}

// answered reports whether the last message has results of calls.
func answered(messages []*ai.Message) bool {
	return len(messages) > 0 && messages[len(messages)-1].Role == ai.RoleTool
}

var roles = map[ai.Role]quern.Role{
	ai.RoleSystem: quern.RoleSystem, ai.RoleUser: quern.RoleUser, ai.RoleModel: quern.RoleAssistant, ai.RoleTool: quern.RoleTool,
}

// messagesOf returns the messages of Genkit's.
func messagesOf(input []*ai.Message) ([]quern.Message, error) {
	var messages []quern.Message
	for i, in := range input {
		role, ok := roles[in.Role]
		if !ok {
			return nil, invalid("message %d: the role %q, want system, user, model or tool", i, in.Role)
		}
		m := quern.Message{Role: role}
		for k, part := range in.Content {
			p, err := partOf(part)
			if err != nil {
				return nil, fmt.Errorf("message %d: part %d: %w", i, k, err)
			}
			m.Parts = append(m.Parts, p)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

func partOf(part *ai.Part) (quern.Part, error) {
	switch {
	case part.IsText(), part.IsData():
		return quern.Part{Text: part.Text}, nil
	case part.IsReasoning():
		return quern.Part{Reasoning: part.Text}, nil
	case part.IsToolRequest():
		arguments, err := json.Marshal(part.ToolRequest.Input)
		if err != nil {
			return quern.Part{}, invalid("the arguments of %s: %w", part.ToolRequest.Name, err)
		}
		return quern.Part{Call: &quern.ToolCall{ID: part.ToolRequest.Ref, Name: part.ToolRequest.Name, Arguments: string(arguments)}}, nil
	case part.IsToolResponse():
		result, err := answerOf(part.ToolResponse)
		return quern.Part{Result: result}, err
	case part.IsMedia():
		return mediumOf(part)
	}
	return quern.Part{}, unsupported("a part that is no text, picture, sound or call")
}

// mediumOf returns a picture or a sound.
func mediumOf(part *ai.Part) (quern.Part, error) {
	kind, text, ok := strings.Cut(part.Text, ";base64,")
	if !ok || !strings.HasPrefix(kind, "data:") {
		return quern.Part{}, unsupported("a link to a picture or a sound; want a data URL in base64")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) == 0 {
		return quern.Part{}, invalid("a picture or a sound is not in base64")
	}
	if strings.HasPrefix(part.ContentType, "audio/") || strings.HasPrefix(kind, "data:audio/") {
		return quern.Part{Audio: data}, nil
	}
	return quern.Part{Image: data}, nil
}

// answerOf returns what a tool answered: JSON, or a text as it is, and what else there is.
func answerOf(r *ai.ToolResponse) (*quern.ToolResult, error) {
	out := &quern.ToolResult{ID: r.Ref, Name: r.Name}
	text, plain := r.Output.(string)
	if !plain && (r.Output != nil || len(r.Content) == 0) {
		b, err := json.Marshal(r.Output)
		if err != nil {
			return nil, invalid("what %s answered: %w", r.Name, err)
		}
		text = string(b)
	}
	out.Text = text
	for _, p := range r.Content {
		switch {
		case p.IsText() && out.Parts == nil:
			out.Text += p.Text
		case p.IsText():
			out.Parts = append(out.Parts, quern.Part{Text: p.Text})
		case p.IsMedia():
			medium, err := mediumOf(p)
			if err != nil {
				return nil, fmt.Errorf("what %s answered: %w", r.Name, err)
			}
			out.Parts = append(out.Parts, medium)
		default:
			return nil, unsupported("what %s answered has a part that is no text, picture or sound", r.Name)
		}
	}
	return out, nil
}

// partsOf returns what Genkit has for a part: nothing for an empty one, and for a call that was cut.
func partsOf(p quern.Part) []*ai.Part {
	switch {
	case p.Text != "":
		return []*ai.Part{ai.NewTextPart(p.Text)}
	case p.Reasoning != "":
		return []*ai.Part{ai.NewReasoningPart(p.Reasoning, nil)}
	case p.Call != nil:
		var input any
		if err := json.Unmarshal([]byte(p.Call.Arguments), &input); err == nil {
			return []*ai.Part{ai.NewToolRequestPart(&ai.ToolRequest{Ref: p.Call.ID, Name: p.Call.Name, Input: input})}
		}
	}
	return nil
}

// response returns what Genkit has for a result.
func response(in *ai.ModelRequest, r *quern.Result) *ai.ModelResponse {
	out := &ai.ModelResponse{
		Request: in, Message: &ai.Message{Role: ai.RoleModel}, FinishReason: ai.FinishReasonStop,
		Usage: &ai.GenerationUsage{
			InputTokens: r.Usage.PromptTokens, CachedContentTokens: r.Usage.CachedTokens,
			OutputTokens: r.Usage.AnswerTokens, TotalTokens: r.Usage.PromptTokens + r.Usage.AnswerTokens,
		},
	}
	switch r.Finish {
	case quern.FinishLength:
		out.FinishReason = ai.FinishReasonLength
	case quern.FinishContext:
		out.FinishReason, out.FinishMessage = ai.FinishReasonLength, "the context is full"
	}
	for _, p := range r.Message.Parts {
		out.Message.Content = append(out.Message.Content, partsOf(p)...)
	}
	return out
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{quern.ErrInvalid}, args...)...)
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{quern.ErrUnsupported}, args...)...)
}
