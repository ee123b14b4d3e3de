package reading

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
)

// A TextError is an error of one of several texts.
type TextError struct {
	Index int
	Err   error
}

func (e *TextError) Error() string { return fmt.Sprintf("text %d: %v", e.Index, e.Err) }
func (e *TextError) Unwrap() error { return e.Err }

// Window is how many texts are with the engine at a time: of an encoder all that share a pass, but of other models no more
// than leave slots to those that generate.
func Window(slots int, encoder bool) int {
	if encoder {
		return max(slots, 1)
	}
	return max(slots/4, 1)
}

// Texts evaluates n texts, of which `most` are with the engine at a time, until all are, one fails, or ctx ends. request
// returns that of a text, but for its Sink and its Origin; an error of it, or of its submission, is a *TextError. Texts
// returns how many tokens they have, and how many of those the cache had.
func Texts[Ticket interface{ Cancel() }](
	ctx context.Context, submit func(*engine.Request) (Ticket, error), most, n int,
	request func(i int) (*engine.Request, error),
) (prompt, cached int, err error) {
	done := make(chan engine.Result, n) // a Sink never blocks
	var tickets []Ticket
	defer func() {
		for _, t := range tickets {
			t.Cancel()
		}
	}()
	var next *engine.Request
	for begun, running := 0, 0; begun < n || running > 0; {
		for begun < n && running < most {
			if next == nil {
				if next, err = request(begun); err != nil {
					return 0, 0, &TextError{begun, err}
				}
				next.Origin, next.Sink = ctx, whenDone{done}
			}
			ticket, err := submit(next)
			if busy := (*engine.BusyError)(nil); errors.As(err, &busy) && running > 0 {
				break // others are in the queue: what runs of these makes room
			}
			if err != nil {
				return 0, 0, &TextError{begun, err}
			}
			tickets, next = append(tickets, ticket), nil
			begun++
			running++
		}
		select {
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		case r := <-done:
			if running--; r.Err != nil {
				return 0, 0, r.Err
			}
			prompt += r.PromptTokens
			cached += r.CachedTokens
		}
	}
	return prompt, cached, nil
}

// whenDone is the Sink of a text that is only read.
type whenDone struct{ done chan<- engine.Result }

func (whenDone) Progress(engine.Progress)    {}
func (whenDone) Token(generate.Token) bool   { return false }
func (w whenDone) Done(result engine.Result) { w.done <- result }
