// Package quernlangchain has models of Quern answer in programs that are built with LangChainGo, and make vectors for them.
//
//	m, err := quern.Open(ctx, "model.gguf")
//	...
//	text, err := llms.GenerateFromSinglePrompt(ctx, quernlangchain.New(m, quern.Request{}), "Why is the sky blue?")
//
// The program opens the model and closes it. Errors are those of the package llms, such as llms.ErrTokenLimit, and those of
// the package quern that caused them.
package quernlangchain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/embeddings"
	"github.com/tmc/langchaingo/llms"

	"github.com/quern-llm/quern"
)

// An LLM is a model of Quern as LangChainGo's chains and agents take one, and as its embedders do. It is safe for
// concurrent use.
type LLM struct {
	CallbacksHandler callbacks.Handler // told of each answer; nil: nobody is

	m       *quern.Model
	options quern.Request
}

var (
	_ llms.Model                = (*LLM)(nil)
	_ llms.ReasoningModel       = (*LLM)(nil)
	_ embeddings.EmbedderClient = (*LLM)(nil)
)

// New returns a model whose calls have these options where their own say nothing. Messages of options come before those of
// each call.
func New(m *quern.Model, options quern.Request) *LLM { return &LLM{m: m, options: options} }

// With is an option of a call that changes its request, after all else: for what LangChainGo has no option of, such as
// Format, with which quern.JSONSchema holds an answer to a schema. It follows llms.WithMetadata, which forgets it.
func With(change func(*quern.Request)) llms.CallOption {
	return func(o *llms.CallOptions) {
		before, _ := o.Metadata[changes].([]func(*quern.Request))
		metadata := maps.Clone(o.Metadata)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata[changes] = append(slices.Clip(before), change)
		o.Metadata = metadata
	}
}

// changes is where With leaves them.
const changes = "quern"

// Call implements llms.Model.
func (l *LLM) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, l, prompt, options...)
}

// SupportsReasoning implements llms.ReasoningModel.
func (l *LLM) SupportsReasoning() bool { return l.m.Info().Reasoning }

// CreateEmbedding implements embeddings.EmbedderClient. Vectors have the length 1.
func (l *LLM) CreateEmbedding(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := l.m.Embed(ctx, texts...)
	return vectors, coded(err)
}

// GenerateContent implements llms.Model. Streaming functions are called on the caller's goroutine; an error of theirs ends
// the answer, and is that of the call. Calls of tools are in the answer alone.
func (l *LLM) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	h := l.CallbacksHandler
	if h != nil {
		h.HandleLLMGenerateContentStart(ctx, messages)
	}
	response, err := l.generate(ctx, messages, options)
	if h != nil && err != nil {
		h.HandleLLMError(ctx, err)
	} else if h != nil {
		h.HandleLLMGenerateContentEnd(ctx, response)
	}
	return response, err
}

func (l *LLM) generate(ctx context.Context, messages []llms.MessageContent, options []llms.CallOption) (*llms.ContentResponse, error) {
	o := llms.CallOptions{Temperature: math.NaN()} // else 0, the likeliest token, and nothing are the same
	for _, option := range options {
		option(&o)
	}
	r, err := l.request(messages, &o)
	if err != nil {
		return nil, coded(err)
	}
	var result *quern.Result
	for e, err := range l.m.Chat(ctx, r) {
		if err != nil {
			return nil, coded(err)
		}
		if err := stream(ctx, &o, e); err != nil {
			return nil, err
		}
		result = e.Result // the last event has one
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choiceOf(result)}}, nil
}

// stream tells the functions of a call what an event adds.
func stream(ctx context.Context, o *llms.CallOptions, e quern.Event) error {
	if e.Text != "" && o.StreamingFunc != nil {
		if err := o.StreamingFunc(ctx, []byte(e.Text)); err != nil {
			return err
		}
	}
	if e.Text+e.Reasoning != "" && o.StreamingReasoningFunc != nil {
		return o.StreamingReasoningFunc(ctx, []byte(e.Reasoning), []byte(e.Text))
	}
	return nil
}

func choiceOf(r *quern.Result) *llms.ContentChoice {
	finish := r.Finish
	if finish == quern.FinishContext {
		finish = quern.FinishLength
	}
	choice := &llms.ContentChoice{
		Content: r.Text(), ReasoningContent: r.Message.Reasoning(), StopReason: string(finish),
		GenerationInfo: map[string]any{
			"PromptTokens": r.Usage.PromptTokens, "PromptCachedTokens": r.Usage.CachedTokens,
			"CompletionTokens": r.Usage.AnswerTokens, "TotalTokens": r.Usage.PromptTokens + r.Usage.AnswerTokens,
		},
	}
	for _, call := range r.Message.Calls() {
		choice.ToolCalls = append(choice.ToolCalls, llms.ToolCall{
			ID: call.ID, Type: "function", FunctionCall: &llms.FunctionCall{Name: call.Name, Arguments: call.Arguments},
		})
	}
	if len(choice.ToolCalls) > 0 {
		choice.FuncCall = choice.ToolCalls[0].FunctionCall
	}
	return choice
}

// coded gives an error the code that LangChainGo has for it.
func coded(err error) error {
	if err == nil {
		return nil
	}
	code := llms.ErrCodeUnknown
	for _, one := range []struct {
		is   error
		code llms.ErrorCode
	}{
		{context.Canceled, llms.ErrCodeCanceled}, {context.DeadlineExceeded, llms.ErrCodeTimeout},
		{quern.ErrContextFull, llms.ErrCodeTokenLimit}, {quern.ErrBusy, llms.ErrCodeRateLimit},
		{quern.ErrInvalid, llms.ErrCodeInvalidRequest}, {quern.ErrUnsupported, llms.ErrCodeNotImplemented},
		{quern.ErrClosed, llms.ErrCodeProviderUnavailable}, {quern.ErrMemory, llms.ErrCodeProviderUnavailable},
	} {
		if errors.Is(err, one.is) {
			code = one.code
			break
		}
	}
	return llms.NewError(code, "quern", err.Error()).WithCause(err)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{quern.ErrInvalid}, args...)...)
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{quern.ErrUnsupported}, args...)...)
}
