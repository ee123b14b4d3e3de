package quern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Into has a model answer with a value of T, which becomes a JSON schema as the arguments of a tool do ([NewTool]): the
// model can write nothing else. The answer that MaxTokens or the context cuts is [ErrContextFull]; the result has what
// there is of it. A request with a Format of its own is [ErrInvalid].
func Into[T any](ctx context.Context, m *Model, r Request) (value T, result *Result, err error) {
	if err := formatOf[T](&r); err != nil {
		return value, nil, err
	}
	if result, err = m.Complete(ctx, r); err != nil {
		return value, result, err
	}
	value, err = decoded[T](result)
	return value, result, err
}

// formatOf holds a request to the schema of T.
func formatOf[T any](r *Request) error {
	if r.Format != nil {
		return invalid("the request has a Format, and the type of the value is one")
	}
	schema, err := schemaOf[T]()
	if err != nil {
		return &failure{ErrInvalid, err}
	}
	r.Format = JSONSchema(schema)
	return nil
}

// decoded returns the value that an answer is.
func decoded[T any](r *Result) (value T, err error) {
	if r.Finish != FinishStop {
		return value, &failure{ErrContextFull, fmt.Errorf("the answer was cut after %d tokens: give it more", r.Usage.AnswerTokens)}
	}
	if err := json.Unmarshal([]byte(r.Text()), &value); err != nil {
		return value, &failure{ErrInternal, fmt.Errorf("the answer %.80q: %w", r.Text(), err)}
	}
	return value, nil
}

// A Task is a prompt that is used many times, each time with another input: instructions, and examples of inputs with
// their answers. The prompt is evaluated once and stays in the cache, so that each use costs its input and its answer.
// Steps of a chain are tasks that use what others made: ordinary Go code, in branches that run beside each other where
// there are goroutines. A Task is safe for concurrent use.
type Task[T any] struct {
	m *Model
	r Request
}

// An Example is an input of a task and what its answer is to be like.
type Example[T any] struct {
	Input  string
	Answer T
}

// NewTask returns a task whose answers are values of T, as [Into] has them; texts, if T is string. Of r the Messages come
// first, such as a System message with the instructions; its options are those of each use. It returns when the prompt is
// evaluated.
func NewTask[T any](ctx context.Context, m *Model, r Request, examples ...Example[T]) (*Task[T], error) {
	if r.Prompt != "" {
		return nil, invalid("a task has Messages, and no Prompt")
	}
	t := &Task[T]{m, r}
	if !t.plain() {
		if err := formatOf[T](&t.r); err != nil {
			return nil, err
		}
	}
	t.r.Messages = append([]Message(nil), r.Messages...)
	for _, e := range examples {
		text, ok := any(e.Answer).(string)
		if !ok {
			b, err := json.Marshal(e.Answer)
			if err != nil {
				return nil, &failure{ErrInvalid, fmt.Errorf("the answer of an example: %w", err)}
			}
			text = string(b)
		}
		t.r.Messages = append(t.r.Messages, User(e.Input), Assistant(text))
	}
	warm := t.with("")
	warm.MaxTokens = 1 // its prompt stays in the cache
	if _, err := m.Complete(ctx, warm); err != nil {
		return nil, err
	}
	return t, nil
}

// plain reports whether answers are texts.
func (t *Task[T]) plain() bool {
	_, ok := any(*new(T)).(string)
	return ok
}

// with returns the request of an input.
func (t *Task[T]) with(input string) Request {
	r := t.r
	r.Messages = append(r.Messages[:len(r.Messages):len(r.Messages)], User(input))
	return r
}

// Do returns the answer to an input.
func (t *Task[T]) Do(ctx context.Context, input string) (value T, err error) {
	result, err := t.m.Complete(ctx, t.with(input))
	if err != nil {
		return value, err
	}
	if text, ok := any(result.Text()).(T); ok && t.plain() {
		if result.Finish == FinishContext {
			return text, &failure{ErrContextFull, errors.New("the context is full before the answer ends")}
		}
		return text, nil
	}
	return decoded[T](result)
}
