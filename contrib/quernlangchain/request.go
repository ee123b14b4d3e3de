package quernlangchain

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/quern-llm/quern"
)

// request returns what a call asks for. An option that is 0 is not given, but for the temperature.
func (l *LLM) request(messages []llms.MessageContent, o *llms.CallOptions) (quern.Request, error) {
	r := l.options
	if !math.IsNaN(o.Temperature) {
		r.Temperature = &o.Temperature
	}
	for _, one := range []struct {
		given float64
		to    **float64
	}{
		{o.TopP, &r.TopP}, {o.RepetitionPenalty, &r.RepeatPenalty}, {o.FrequencyPenalty, &r.FrequencyPenalty}, {o.PresencePenalty, &r.PresencePenalty},
	} {
		if one.given != 0 {
			*one.to = &one.given
		}
	}
	if o.TopK != 0 {
		r.TopK = &o.TopK
	}
	if o.Seed != 0 {
		r.Seed = new(uint64(o.Seed))
	}
	if o.MaxTokens != 0 {
		r.MaxTokens = o.MaxTokens
	}
	if o.StopWords != nil {
		r.Stop = o.StopWords
	}
	switch {
	case o.Model != "":
		return r, unsupported("WithModel(%q): the model is the one that New was given", o.Model)
	case o.N > 1 || o.CandidateCount > 1:
		return r, unsupported("WithN and WithCandidateCount: an answer is one; call in several goroutines, they share the work")
	case o.MinLength != 0 || o.MaxLength != 0:
		return r, unsupported("WithMinLength and WithMaxLength; WithMaxTokens limits an answer")
	}
	switch o.ResponseMIMEType {
	case "", "text/plain":
	case "application/json":
		r.Format = quern.JSON()
	default:
		return r, unsupported("WithResponseMIMEType(%q), want text/plain or application/json", o.ResponseMIMEType)
	}
	if o.JSONMode {
		r.Format = quern.JSON()
	}
	if err := addTools(&r, o); err != nil {
		return r, err
	}
	added, err := messagesOf(messages)
	if err != nil {
		return r, err
	}
	r.Messages = append(slices.Clip(r.Messages), added...)
	return r, addMetadata(&r, o)
}

// addMetadata heeds what options leave in the metadata.
func addMetadata(r *quern.Request, o *llms.CallOptions) error {
	for name := range o.Metadata {
		switch name {
		case "thinking_config", changes:
		case "prompt_caching": // it always is
		default:
			return unsupported("the metadata %q", name)
		}
	}
	if think := llms.GetThinkingConfig(o); think != nil {
		if think.Mode != "" && think.Mode != llms.ThinkingModeAuto {
			r.ReasoningEffort = string(think.Mode)
		}
		if think.BudgetTokens > 0 {
			r.ReasoningTokens = &think.BudgetTokens
		}
	}
	list, _ := o.Metadata[changes].([]func(*quern.Request))
	for _, change := range list {
		change(r)
	}
	return nil
}

// addTools adds the tools of a call, whose calls the program answers, and which of them may be called.
func addTools(r *quern.Request, o *llms.CallOptions) error {
	tools := slices.Clone(o.Tools)
	for i := range o.Functions {
		tools = append(tools, llms.Tool{Type: "function", Function: &o.Functions[i]})
	}
	r.Tools = slices.Clip(r.Tools)
	for i, t := range tools {
		if t.Type != "function" || t.Function == nil {
			return invalid("tool %d has the type %q, want function", i, t.Type)
		}
		one := quern.Tool{Name: t.Function.Name, Description: t.Function.Description}
		if t.Function.Parameters != nil {
			b, err := json.Marshal(t.Function.Parameters)
			if err != nil {
				return invalid("the tool %s: %w", t.Function.Name, err)
			}
			one.Parameters = b
		}
		r.Tools = append(r.Tools, one)
	}
	choice := o.ToolChoice
	if choice == nil && o.FunctionCallBehavior != "" {
		choice = string(o.FunctionCallBehavior)
	}
	if p, ok := choice.(*llms.ToolChoice); ok && p != nil {
		choice = *p
	}
	switch c := choice.(type) {
	case nil:
		return nil
	case llms.ToolChoice:
		if c.Function != nil {
			r.ToolChoice = quern.CallOf(c.Function.Name)
			return nil
		}
	case string:
		switch c {
		case "auto":
			r.ToolChoice = quern.ToolChoice{}
			return nil
		case "none":
			r.ToolChoice = quern.NoCalls()
			return nil
		case "required", "any":
			r.ToolChoice = quern.CallOf()
			return nil
		}
	}
	return invalid("the tool choice %v, want auto, none, required or an llms.ToolChoice with a function", choice)
}

// roles are those of LangChainGo's messages, where they are not those of calls.
var roles = map[llms.ChatMessageType]quern.Role{
	llms.ChatMessageTypeSystem: quern.RoleSystem, llms.ChatMessageTypeHuman: quern.RoleUser, llms.ChatMessageTypeGeneric: quern.RoleUser,
	llms.ChatMessageTypeAI: quern.RoleAssistant, llms.ChatMessageTypeTool: quern.RoleTool, llms.ChatMessageTypeFunction: quern.RoleTool,
}

// messagesOf returns the messages of LangChainGo's.
func messagesOf(input []llms.MessageContent) ([]quern.Message, error) {
	var messages []quern.Message
	for i, in := range input {
		role, ok := roles[in.Role]
		if !ok {
			return nil, invalid("message %d: the role %q, want system, human, ai, tool, function or generic", i, in.Role)
		}
		m := quern.Message{Role: role}
		for k, part := range in.Parts {
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

func partOf(part llms.ContentPart) (quern.Part, error) {
	switch p := part.(type) {
	case llms.CachedContent:
		return partOf(p.ContentPart)
	case llms.TextContent:
		return quern.Part{Text: p.Text}, nil
	case llms.ToolCall:
		if p.FunctionCall != nil {
			return quern.Part{Call: &quern.ToolCall{ID: p.ID, Name: p.FunctionCall.Name, Arguments: arguments(p.FunctionCall.Arguments)}}, nil
		}
	case llms.ToolCallResponse:
		return quern.Part{Result: &quern.ToolResult{ID: p.ToolCallID, Name: p.Name, Text: p.Content}}, nil
	case llms.BinaryContent:
		return mediumOf(p.MIMEType, p.Data)
	case llms.ImageURLContent:
		kind, text, ok := strings.Cut(p.URL, ";base64,")
		if !ok || !strings.HasPrefix(kind, "data:") {
			return quern.Part{}, unsupported("a link to an image; want a data URL in base64, or a BinaryPart")
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return quern.Part{}, invalid("an image is not in base64: %w", err)
		}
		return mediumOf("", data)
	}
	return quern.Part{}, unsupported("%T; models read texts, pictures and sounds", part)
}

// mediumOf returns a picture or a sound.
func mediumOf(mimeType string, data []byte) (quern.Part, error) {
	switch {
	case len(data) == 0:
		return quern.Part{}, invalid("a picture or a sound is empty")
	case strings.HasPrefix(mimeType, "audio/"):
		return quern.Part{Audio: data}, nil
	}
	return quern.Part{Image: data}, nil
}

// arguments returns the arguments of a call as the model wrote them. Agents of LangChainGo have tools of one text, which
// models know as __arg1, and tell them the text alone.
func arguments(text string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) == nil {
		return text
	}
	b, err := json.Marshal(map[string]string{"__arg1": text})
	if err != nil {
		return text
	}
	return string(b)
}
