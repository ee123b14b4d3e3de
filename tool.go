package quern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/quern-llm/quern/go/chat"
)

// A Tool is a function that the model may call. [NewTool] makes one of a Go function; without Call it is one whose calls
// the program answers itself.
type Tool struct {
	Name        string          // 1 to 128 of the characters a-z A-Z 0-9 _ - . : /
	Description string          // what the model is told of it
	Parameters  json.RawMessage // the JSON schema of the arguments; nil: none
	// Call answers a call, with texts, images and sounds. What goes wrong in the tool is best an answer too: the model may
	// correct itself.
	Call func(ctx context.Context, arguments json.RawMessage) ([]Part, error)
}

// NewTool returns a tool that calls f. In is a struct: its fields are the arguments, named as encoding/json names them and
// described by the tag jsonschema; those that may be left out have omitempty. What f returns is given to the model as JSON,
// and a string, a [Part] or a []Part as it is. A type that has no schema, such as a recursive one, is [ErrInvalid].
//
//	type place struct {
//		City string `json:"city" jsonschema:"such as Paris"`
//	}
//	weather, err := quern.NewTool("weather", "The weather in a city.", func(ctx context.Context, p place) (string, error) {
//		return "sunny", nil
//	})
func NewTool[In, Out any](name, description string, f func(context.Context, In) (Out, error)) (Tool, error) {
	schema, err := schemaOf[In]()
	if err != nil {
		return Tool{}, &failure{ErrInvalid, fmt.Errorf("the tool %s: %w", name, err)}
	}
	if f == nil {
		return Tool{}, invalid(fmt.Sprintf("the tool %s: the function is nil", name))
	}
	t := Tool{Name: name, Description: description, Parameters: schema}
	t.Call = func(ctx context.Context, arguments json.RawMessage) ([]Part, error) {
		var in In
		if err := json.Unmarshal(arguments, &in); err != nil {
			return nil, fmt.Errorf("the arguments: %w", err)
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		switch out := any(out).(type) {
		case string:
			return []Part{{Text: out}}, nil
		case Part:
			return []Part{out}, nil
		case []Part:
			return out, nil
		}
		b, err := json.Marshal(out)
		return []Part{{Text: string(b)}}, err
	}
	return t, t.check()
}

// schemaOf returns the JSON schema of a type.
func schemaOf[T any]() ([]byte, error) {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(schema)
}

func (t *Tool) check() error {
	if err := chat.CheckToolName(t.Name); err != nil {
		return &failure{ErrInvalid, fmt.Errorf("the name of a tool is %w", err)}
	}
	if t.Parameters != nil && !json.Valid(t.Parameters) {
		return invalid(fmt.Sprintf("the tool %s: its parameters are not JSON", t.Name))
	}
	return nil
}

// specs returns tools as chat templates have them.
func specs(tools []Tool) (all []json.RawMessage, err error) {
	names := map[string]bool{}
	for _, t := range tools {
		if err := t.check(); err != nil {
			return nil, err
		}
		if names[t.Name] {
			return nil, invalid("two tools have the name " + t.Name)
		}
		names[t.Name] = true
		parameters := t.Parameters
		if parameters == nil {
			parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		one, err := json.Marshal(map[string]any{"type": "function", "function": map[string]any{
			"name": t.Name, "description": t.Description, "parameters": parameters,
		}})
		if err != nil {
			return nil, &failure{ErrInvalid, fmt.Errorf("the tool %s: %w", t.Name, err)}
		}
		all = append(all, one)
	}
	return all, nil
}

// callRule returns which calls an answer may have; nil: none.
func callRule(r *Request) (*chat.CallRule, error) {
	for _, name := range r.ToolChoice.names {
		if !slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Name == name }) {
			return nil, invalid(fmt.Sprintf("ToolChoice: no tool has the name %s", name))
		}
	}
	switch {
	case len(r.Tools) == 0 && r.ToolChoice.mode == callsRequired:
		return nil, invalid("ToolChoice requires a call, and there are no Tools")
	case len(r.Tools) == 0 || r.ToolChoice.mode == callsNone:
		return nil, nil
	}
	return &chat.CallRule{Required: r.ToolChoice.mode == callsRequired, Names: r.ToolChoice.names}, nil
}

// MaxRounds is how many answers with calls [Model.Run] has the model give before one without.
const MaxRounds = 32

// Run is Chat that makes the calls that the model asks for, on the caller's goroutine, and has the model go on with their
// results until it answers without calls. Each answer of the model ends with an event that has its Result. What a tool
// returns as an error is told to the model; an error of ctx ends the run. A panic of a tool is the caller's.
//
// Each tool needs its Call. A model that has made calls [MaxRounds] times is asked once more without tools.
func (m *Model) Run(ctx context.Context, r Request) iter.Seq2[Event, error] {
	return run(ctx, r, m.Chat, func(...Message) {})
}

// run is Run with what asks the model. told is called with the results of calls.
func run(ctx context.Context, r Request, ask func(context.Context, Request) iter.Seq2[Event, error], told func(...Message)) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, t := range r.Tools {
			if t.Call == nil {
				yield(Event{}, invalid(fmt.Sprintf("the tool %s has no Call; answer its calls with Chat and ResultOf", t.Name)))
				return
			}
		}
		r := r
		r.Messages = slices.Clip(r.Messages)
		for round := 0; ; round++ {
			if round == MaxRounds {
				r.ToolChoice = NoCalls()
			}
			var result *Result
			for e, err := range ask(ctx, r) {
				if !yield(e, err) || err != nil {
					return
				}
				result = e.Result // the last event has one
			}
			if result.Finish != FinishCalls {
				return
			}
			var results []Message
			for _, call := range result.Message.Calls() {
				result, err := callTool(ctx, r.Tools, call)
				if err != nil {
					yield(Event{}, err)
					return
				}
				results = append(results, result)
			}
			told(results...)
			r.Messages = append(append(r.Messages, result.Message), results...)
			if r.ToolChoice.mode == callsRequired { // it was called
				r.ToolChoice = ToolChoice{}
			}
		}
	}
}

// callTool returns what a tool answers to a call. An error is that of the context.
func callTool(ctx context.Context, tools []Tool, call ToolCall) (Message, error) {
	if ctx.Err() != nil {
		return Message{}, context.Cause(ctx)
	}
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == call.Name })
	if i < 0 {
		return ResultOf(call, "error: there is no tool of that name"), nil
	}
	parts, err := tools[i].Call(ctx, json.RawMessage(call.Arguments))
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return Message{}, context.Cause(ctx)
	case err != nil:
		return ResultOf(call, "error: "+err.Error()), nil
	case len(parts) == 1 && parts[0].Text != "":
		return ResultOf(call, parts[0].Text), nil
	}
	return ResultOf(call, "", parts...), nil
}
