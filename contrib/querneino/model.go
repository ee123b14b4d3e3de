// Package querneino has models of Quern answer in programs that are built with Eino, and make vectors for them.
//
//	m, err := quern.Open(ctx, "model.gguf")
//	...
//	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{Model: querneino.NewChatModel(m, quern.Request{}), ...})
//
// The program opens the model and closes it. Errors are those of the package quern.
package querneino

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/quern-llm/quern"
)

// A ChatModel is a model of Quern as Eino's agents and graphs take one. It is safe for concurrent use.
type ChatModel struct {
	m       *quern.Model
	options quern.Request
	tools   []*schema.ToolInfo
}

var _ model.ToolCallingChatModel = (*ChatModel)(nil)

// NewChatModel returns a model whose calls have these options where their own say nothing. Messages of options come before
// those of each call.
func NewChatModel(m *quern.Model, options quern.Request) *ChatModel {
	return &ChatModel{m: m, options: options}
}

// GetType implements components.Typer.
func (c *ChatModel) GetType() string { return "Quern" }

// WithTools returns a model that may call these tools, in place of those that c may call.
func (c *ChatModel) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	if _, err := toolsOf(tools); err != nil {
		return nil, err
	}
	with := *c
	with.tools = slices.Clone(tools)
	return &with, nil
}

// With is an option of a call that changes its request, after all else: for what Eino has no option of, such as Seed,
// Format and ReasoningEffort.
func With(change func(*quern.Request)) model.Option {
	return model.WrapImplSpecificOptFn(func(s *special) { s.changes = append(s.changes, change) })
}

// special are the options that Eino does not know.
type special struct{ changes []func(*quern.Request) }

// Generate implements model.BaseChatModel.
func (c *ChatModel) Generate(ctx context.Context, input []*schema.Message, options ...model.Option) (*schema.Message, error) {
	r, err := c.request(input, options)
	if err != nil {
		return nil, err
	}
	result, err := c.m.Complete(ctx, r)
	if err != nil {
		return nil, err
	}
	message := &schema.Message{
		Role: schema.Assistant, Content: result.Text(), ReasoningContent: result.Message.Reasoning(), ResponseMeta: metaOf(result),
	}
	for i, call := range result.Message.Calls() {
		message.ToolCalls = append(message.ToolCalls, callOf(i, call))
	}
	return message, nil
}

// Stream implements model.BaseChatModel. A call of a tool is one message, once it is whole. The stream is read to its end or
// closed, which ends the answer.
func (c *ChatModel) Stream(ctx context.Context, input []*schema.Message, options ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	r, err := c.request(input, options)
	if err != nil {
		return nil, err
	}
	next, stop := iter.Pull2(c.m.Chat(ctx, r))
	first, err, _ := next() // what is wrong with the request is the caller's at once
	if err != nil {
		stop()
		return nil, err
	}
	reader, writer := schema.Pipe[*schema.Message](1)
	go func() {
		defer stop()
		defer writer.Close()
		calls := 0
		for e, ok := first, true; ok; {
			if message := chunkOf(e, &calls); message != nil && writer.Send(message, nil) {
				return
			}
			if e, err, ok = next(); err != nil {
				writer.Send(nil, err)
				return
			}
		}
	}()
	return reader, nil
}

// chunkOf returns what an event adds to a message; nil: nothing. calls is the number of those before.
func chunkOf(e quern.Event, calls *int) *schema.Message {
	message := &schema.Message{Role: schema.Assistant, Content: e.Text, ReasoningContent: e.Reasoning}
	switch {
	case e.Call != nil:
		message.ToolCalls = []schema.ToolCall{callOf(*calls, *e.Call)}
		*calls++
	case e.Result != nil:
		message.ResponseMeta = metaOf(e.Result)
	case e.Text == "" && e.Reasoning == "":
		return nil
	}
	return message
}

func callOf(i int, call quern.ToolCall) schema.ToolCall {
	return schema.ToolCall{
		Index: &i, ID: call.ID, Type: "function", Function: schema.FunctionCall{Name: call.Name, Arguments: call.Arguments},
	}
}

// metaOf returns why an answer ended, what it cost, and its log-probabilities.
func metaOf(r *quern.Result) *schema.ResponseMeta {
	finish := r.Finish
	if finish == quern.FinishContext {
		finish = quern.FinishLength
	}
	meta := &schema.ResponseMeta{FinishReason: string(finish), Usage: &schema.TokenUsage{
		PromptTokens: r.Usage.PromptTokens, PromptTokenDetails: schema.PromptTokenDetails{CachedTokens: r.Usage.CachedTokens},
		CompletionTokens: r.Usage.AnswerTokens, TotalTokens: r.Usage.PromptTokens + r.Usage.AnswerTokens,
	}}
	if len(r.Tokens) == 0 {
		return meta
	}
	meta.LogProbs = &schema.LogProbs{}
	for _, t := range r.Tokens {
		one := schema.LogProb{Token: t.Text, LogProb: t.Logprob, Bytes: bytesOf(t.Text)}
		for _, top := range t.Top {
			one.TopLogProbs = append(one.TopLogProbs, schema.TopLogProb{Token: top.Text, LogProb: top.Logprob, Bytes: bytesOf(top.Text)})
		}
		meta.LogProbs.Content = append(meta.LogProbs.Content, one)
	}
	return meta
}

func bytesOf(text string) []int64 {
	var b []int64
	for i := range len(text) {
		b = append(b, int64(text[i]))
	}
	return b
}

// request returns what a call asks for.
func (c *ChatModel) request(input []*schema.Message, options []model.Option) (quern.Request, error) {
	r := c.options
	o := model.GetCommonOptions(&model.Options{Tools: c.tools}, options...)
	if o.Temperature != nil {
		r.Temperature = new(float64(*o.Temperature))
	}
	if o.TopP != nil {
		r.TopP = new(float64(*o.TopP))
	}
	if o.MaxTokens != nil {
		r.MaxTokens = *o.MaxTokens
	}
	if o.Stop != nil {
		r.Stop = o.Stop
	}
	if o.Model != nil {
		return r, fmt.Errorf("%w: WithModel(%q): the model is the one that NewChatModel was given", quern.ErrUnsupported, *o.Model)
	}
	tools, err := toolsOf(o.Tools)
	if err != nil {
		return r, err
	}
	r.Tools = append(slices.Clip(r.Tools), tools...)
	if o.ToolChoice != nil {
		switch *o.ToolChoice {
		case schema.ToolChoiceForbidden:
			r.ToolChoice = quern.NoCalls()
		case schema.ToolChoiceAllowed:
			r.ToolChoice = quern.ToolChoice{}
			if names := o.AllowedToolNames; len(names) > 0 {
				r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t quern.Tool) bool { return !slices.Contains(names, t.Name) })
			}
		case schema.ToolChoiceForced:
			r.ToolChoice = quern.CallOf(o.AllowedToolNames...)
		default:
			return r, fmt.Errorf("%w: the tool choice %q, want forbidden, allowed or forced", quern.ErrInvalid, *o.ToolChoice)
		}
	}
	messages, err := messagesOf(input)
	if err != nil {
		return r, err
	}
	r.Messages = append(slices.Clip(r.Messages), messages...)
	for _, change := range model.GetImplSpecificOptions(&special{}, options...).changes {
		change(&r)
	}
	return r, nil
}

// toolsOf returns the tools of Eino's. Their calls are answered by the program.
func toolsOf(infos []*schema.ToolInfo) ([]quern.Tool, error) {
	var tools []quern.Tool
	for i, info := range infos {
		if info == nil {
			return nil, fmt.Errorf("%w: tool %d is nil", quern.ErrInvalid, i)
		}
		t := quern.Tool{Name: info.Name, Description: info.Desc}
		if info.ParamsOneOf != nil {
			s, err := info.ToJSONSchema()
			if err == nil && s != nil {
				t.Parameters, err = json.Marshal(s)
			}
			if err != nil {
				return nil, fmt.Errorf("%w: the tool %s: %w", quern.ErrInvalid, info.Name, err)
			}
		}
		tools = append(tools, t)
	}
	return tools, nil
}

// messagesOf returns the messages of Eino's.
func messagesOf(input []*schema.Message) ([]quern.Message, error) {
	var messages []quern.Message
	for i, in := range input {
		if in == nil {
			return nil, fmt.Errorf("%w: message %d is nil", quern.ErrInvalid, i)
		}
		m, err := messageOf(in)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

func messageOf(in *schema.Message) (quern.Message, error) {
	parts, err := partsOf(in)
	if err != nil {
		return quern.Message{}, err
	}
	switch in.Role {
	case schema.System, schema.User:
		return quern.Message{Role: quern.Role(in.Role), Parts: parts}, nil
	case schema.Tool:
		call := quern.ToolCall{ID: in.ToolCallID, Name: in.ToolName}
		for _, p := range parts {
			if p.Image != nil || p.Audio != nil {
				return quern.ResultOf(call, "", parts...), nil
			}
		}
		return quern.ResultOf(call, quern.Message{Parts: parts}.Text()), nil
	case schema.Assistant:
		if in.ReasoningContent != "" {
			parts = slices.Insert(parts, 0, quern.Part{Reasoning: in.ReasoningContent})
		}
		for _, call := range in.ToolCalls {
			parts = append(parts, quern.Part{Call: &quern.ToolCall{
				ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments,
			}})
		}
		return quern.Message{Role: quern.RoleAssistant, Parts: parts}, nil
	}
	return quern.Message{}, fmt.Errorf("%w: the role %q, want system, user, assistant or tool", quern.ErrInvalid, in.Role)
}

// fileOf returns the file of a text in base64.
func fileOf(text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err == nil && len(data) == 0 {
		err = errors.New("it is empty")
	}
	return data, err
}

// partsOf returns what a message holds: its parts in any of three fields, else its Content.
func partsOf(in *schema.Message) (parts []quern.Part, err error) {
	add := func(kind schema.ChatMessagePartType, text string) {
		if kind == schema.ChatMessagePartTypeText {
			parts = append(parts, quern.Part{Text: text})
		} else if err == nil {
			err = fmt.Errorf("%w: a part of the type %s; models read texts, and pictures and sounds in base64", quern.ErrUnsupported, kind)
		}
	}
	//lint:ignore SA1019 older programs have it
	for _, p := range in.MultiContent {
		add(p.Type, p.Text)
	}
	for _, p := range in.UserInputMultiContent {
		switch {
		case p.Image != nil && p.Image.Base64Data != nil:
			data, bad := fileOf(*p.Image.Base64Data)
			if bad != nil {
				return nil, fmt.Errorf("%w: an image: %w", quern.ErrInvalid, bad)
			}
			parts = append(parts, quern.Part{Image: data})
		case p.Audio != nil && p.Audio.Base64Data != nil:
			data, bad := fileOf(*p.Audio.Base64Data)
			if bad != nil {
				return nil, fmt.Errorf("%w: a sound: %w", quern.ErrInvalid, bad)
			}
			parts = append(parts, quern.Part{Audio: data})
		default:
			add(p.Type, p.Text)
		}
	}
	for _, p := range in.AssistantGenMultiContent {
		add(p.Type, p.Text)
	}
	if len(parts) == 0 && in.Content != "" {
		parts = append(parts, quern.Part{Text: in.Content})
	}
	return parts, err
}
