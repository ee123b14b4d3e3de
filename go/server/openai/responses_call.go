package openai

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/server/ask"
)

// ToolLimits bound the calls of tools that the server makes for one response.
type ToolLimits struct {
	Calls  int           // the most of a response
	Time   time.Duration // the most that one takes
	Result int           // the most bytes of a result that the model is shown
}

// A calledItem is the item of the output for a call that the server makes.
type calledItem interface {
	about() (id, kind, status string)
	named() (tool, server string) // for the log
	// waits takes how the model has written the call, and reports whether it is to be made now.
	waits(status string) bool
	// offered reports whether the tool is among those of the response.
	offered(q *responsesQuery) bool
	// call makes it. The error is of a connection, and told to nobody but the log: lost says what the model is told then.
	call(ctx context.Context, q *responsesQuery) (text string, failed bool, err error)
	lost() string
	// ends takes what the model is told of the call that was made, and fail why there is no answer.
	ends(text string, failed bool)
	fail(why string)
	// told is the text of the answer, nil: there is none.
	told() *string
}

// run makes the call of an item. What goes wrong is for the model; the error is of a context that has ended.
func (q *responsesQuery) run(ctx context.Context, it calledItem) error {
	switch {
	case q.calls >= q.mostCalls():
		it.fail(fmt.Sprintf("not called: the response has had its %d calls", q.mostCalls()))
		return nil
	case !it.offered(q):
		it.fail("not called: it is not among the tools of this response")
		return nil
	case late(ctx):
		it.fail("not called: the request's time is over")
		return nil
	}
	q.calls++
	limited, cancel := context.WithTimeout(ctx, q.limits.Time)
	defer cancel()
	begun, text, failed := time.Now(), "", false
	err := panics.Catch(func() (err error) {
		text, failed, err = it.call(limited, q)
		return err
	})
	q.log(it, time.Since(begun), err)
	switch {
	case err != nil && late(ctx):
		it.fail("no answer before the request's time was over")
	case ctx.Err() != nil && !late(ctx):
		return ask.Ended(ctx)
	case err != nil && limited.Err() != nil:
		it.fail(fmt.Sprintf("no answer in %v", q.limits.Time))
	case err != nil:
		it.fail(it.lost())
	default:
		it.ends(cutResult(text, q.limits.Result), failed)
	}
	return nil
}

// late reports whether a context has ended at the deadline of its request.
func late(ctx context.Context) bool { return errors.Is(context.Cause(ctx), engine.ErrDeadline) }

// cutResult returns a result of at most n bytes, and says so where it had more.
func cutResult(text string, n int) string {
	if len(text) <= n {
		return text
	}
	text = head(text, n)
	return fmt.Sprintf("%s\n(cut after %d bytes)", text, len(text))
}

// mostCalls is how many calls the response may have.
func (q *responsesQuery) mostCalls() int {
	if q.maxCalls < 0 {
		return q.limits.Calls
	}
	return min(q.maxCalls, q.limits.Calls)
}
