package ollama

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// Dialect is Ollama's dialect: an error is a text, and streams are lines.
type Dialect struct{ answer.Plain }

func (Dialect) Error(_ *answer.Request, e *reply.Error) any { return errorBody{e.Message} }
func (Dialect) ErrorSchema() field.Schema                   { return field.SchemaOf(errorBody{}) }
func (Dialect) Lines() bool                                 { return true }

// Refine words a model that is not there as Ollama does.
func (Dialect) Refine(e *reply.Error, cause error) {
	if missing := (*models.NotFoundError)(nil); errors.As(cause, &missing) {
		e.Message = fmt.Sprintf("model '%s' not found, %s", missing.Name, missing.Wanted())
	}
}

type errorBody struct {
	Error string `json:"error"`
}

// A line is an answer, or a line of a stream.
type line struct {
	Model    string        `json:"model"`
	Created  string        `json:"created_at"`
	Message  *message      `json:"message,omitzero"`  // of /api/chat
	Response *string       `json:"response,omitzero"` // of /api/generate
	Thinking string        `json:"thinking,omitzero"`
	Done     bool          `json:"done"`
	Reason   string        `json:"done_reason,omitzero"`
	Logprobs *answer.Probs `json:"logprobs,omitzero"` // of the tokens since the line before
}

// A lastLine is a whole answer, or the last line of a stream.
type lastLine struct {
	line
	Context []int32 `json:"context,omitempty"`
	times
}

// answerSchema is that of an answer: one to no prompt has no times.
var answerSchema = field.Schema{"anyOf": []field.Schema{field.SchemaOf(lastLine{}), field.SchemaOf(line{})}}

type message struct {
	Role     string     `json:"role"`
	Content  string     `json:"content"`
	Thinking string     `json:"thinking,omitzero"`
	Calls    []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id,omitzero"`
	Function function `json:"function"`
}

type function struct {
	Index     int            `json:"index"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
}

// times are in nanoseconds.
type times struct {
	Total     int64 `json:"total_duration"`
	Load      int64 `json:"load_duration"`
	Prompt    int   `json:"prompt_eval_count"`
	PromptFor int64 `json:"prompt_eval_duration"`
	Eval      int   `json:"eval_count"`
	EvalFor   int64 `json:"eval_duration"`
}

func timesOf(begun time.Time, u engine.Usage) times {
	return times{
		Total: time.Since(begun).Nanoseconds(), Prompt: u.PromptTokens, PromptFor: u.Prefill.Nanoseconds(),
		Eval: u.Generated, EvalFor: u.Decode.Nanoseconds(),
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// format writes the answers of /api/chat and /api/generate.
type format struct {
	g       *answer.Generation
	name    string
	begun   time.Time
	chat    bool
	context bool    // the end has the tokens so far
	tokens  []int32 // of them, those that were generated
	cut     answer.Blocks
	calls   int

	logprobs bool
	unsent   []generate.Token // with logprobs: since the last line
}

// answer returns a line that adds to the answer.
func (f *format) answer(content, thinking string, calls ...toolCall) line {
	a := line{Model: f.name, Created: stamp(time.Now())}
	if f.chat {
		a.Message = &message{"assistant", content, thinking, calls}
	} else {
		a.Response, a.Thinking = &content, thinking
	}
	if len(f.unsent) > 0 {
		p := f.g.Probs(f.unsent)
		a.Logprobs, f.unsent = &p, nil
	}
	return a
}

// ended returns the last line.
func (f *format) ended(a line, end *answer.Ending, u engine.Usage) lastLine {
	a.Done, a.Reason = true, "stop"
	if end.Stop == answer.StopLimit {
		a.Reason = "length"
	}
	last := lastLine{line: a, times: timesOf(f.begun, u)}
	if f.context && f.g.Used.Pictures+f.g.Used.Sounds == 0 { // media are not in it
		last.Context = slices.Concat(f.g.Prompts[0], f.tokens)
	}
	return last
}

// keep notes the tokens of a piece.
func (f *format) keep(tokens []generate.Token) {
	for _, t := range tokens {
		f.tokens = append(f.tokens, t.ID)
	}
	if f.logprobs {
		f.unsent = append(f.unsent, tokens...)
	}
}

// called returns a call that is complete.
func (f *format) called(b *answer.Block) toolCall {
	arguments := jsontext.Value(b.Text.String())
	if arguments.Kind() != '{' || !arguments.IsValid() { // num_predict has ended it
		arguments, _ = reply.Encode(map[string]string{"partial_json": b.Text.String()})
	}
	f.calls++
	return toolCall{b.ID, function{f.calls - 1, b.Name, arguments}}
}

func (f *format) Whole(answers []answer.Answer) any {
	got := &answers[0]
	var calls []toolCall
	for _, b := range got.Blocks {
		if b.Kind == answer.CallBlock {
			calls = append(calls, f.called(b))
		}
	}
	f.keep(got.Tokens)
	return f.ended(f.answer(got.Blocks.Join(answer.TextBlock), got.Blocks.Join(answer.ThoughtBlock), calls...),
		&got.Ending, got.Usage)
}

func (f *format) Event(s *reply.Stream, e answer.Event) error {
	f.keep(e.Piece.Tokens)
	if err := f.cut.Write(s, &e.Piece, f); err != nil || e.End == nil {
		return err
	}
	if err := f.cut.End(s, e.End, f); err != nil {
		return err
	}
	return s.Event(f.ended(f.answer("", ""), e.End, e.Usage))
}

func (f *format) Open(*reply.Stream, *answer.Block) error { return nil }

// Add sends text and thoughts as they come. A call is sent when it is complete.
func (f *format) Add(s *reply.Stream, b *answer.Block, text string, _ []generate.Token) error {
	switch {
	case b.Kind == answer.CallBlock:
		b.Text.WriteString(text)
		return nil
	case text == "":
		return nil
	case b.Kind == answer.ThoughtBlock:
		return s.Event(f.answer("", text))
	}
	return s.Event(f.answer(text, ""))
}

func (f *format) Close(s *reply.Stream, b *answer.Block, _ *answer.Ending) error {
	if b.Kind != answer.CallBlock {
		return nil
	}
	return s.Event(f.answer("", "", f.called(b)))
}

func (f *format) End(*reply.Stream) error { return nil }

func (f *format) Failed(s *reply.Stream, err *reply.Error) error {
	return s.Event(errorBody{err.Message})
}
