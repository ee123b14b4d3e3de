package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/server/ask"
)

// A Call is a call of a tool of the server that a model has written.
type Call struct {
	Tool *Tool  // nil: the answer has none of that name any more
	Args string // as the model has written them: JSON, if it is right

	Why   Reason
	Told  string  // what the model is told
	Found []Found // of a search

	server string // the MCP server of a tool that is nil, and its name there, for the log
	name   string
	whole  int // bytes of Told that the tool has said; what follows says that there was more
}

// A Reason is what came of a call.
type Reason int

const (
	Pending      Reason = iota // it is still to be made
	Answered                   // the tool has done what it was asked for
	Failed                     // the tool says that it could not
	BadArguments               // they are not those of the tool
	TooLong                    // what is searched for, or the URL of the page
	Unknown                    // the page is none that the conversation has
	LeftOut                    // the page is of a site that the request leaves out
	Unreadable                 // the page cannot be had
	WrongKind                  // the page is nothing that has a text
	TooLarge                   // the page
	Spent                      // the answer has had its calls
	SpentTool                  // the tool has
	Lost                       // nothing has come back: that is told by the server
)

// silent reports whether no tool has answered: what the model is told is short, and the server's own.
func (c *Call) silent() bool { return c.Why >= Spent }

// Unmade is a call of a tool that the answer has not: it fails.
func Unmade(server, name, args string) *Call { return &Call{Args: args, server: server, name: name} }

// named is the tool for the log.
func (c *Call) named() (tool, server string) {
	if c.Tool == nil {
		return c.name, c.server
	}
	return c.Tool.Name, c.Tool.Server
}

// fail ends a call that has no answer of a tool.
func (c *Call) fail(why Reason, text string) {
	c.Why, c.Told, c.Found, c.whole = why, "error: "+text, nil, 0
}

// Results is what the model is told of a search, by its results; together it is all that it is told.
func (c *Call) Results() []string {
	all := make([]string, len(c.Found))
	at := 0
	for i := range all {
		to := len(c.Told)
		if i+1 < len(all) {
			to = max(at, min(c.Found[i+1].from, c.whole))
		}
		all[i], at = c.Told[at:to], to
	}
	return all
}

// cut cuts what the model is told after n bytes.
func (c *Call) cut(n int, note string) {
	c.Told = head(c.Told, n)
	c.whole = min(c.whole, len(c.Told))
	c.Told += note
}

// make makes a call. What goes wrong is for the model; the error is of a context that has ended.
func (l *Loop) make(ctx context.Context, c *Call) error {
	switch {
	case l.Spent():
		c.fail(Spent, fmt.Sprintf("not called: the response has had its %d calls", l.Most))
		return nil
	case c.Tool == nil:
		c.fail(Lost, "not called: it is not among the tools of this response")
		return nil
	case late(ctx):
		c.fail(Lost, "not called: the request's time is over")
		return nil
	}
	l.calls++
	if l.Uses != nil && !l.Uses(c.Tool) {
		c.fail(SpentTool, "not called: the tool has had its calls of this request")
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, l.Limits.Time)
	defer cancel()
	begun, text, why := time.Now(), "", Failed
	err := panics.Catch(func() (err error) {
		text, why, err = c.Tool.does.call(limited, l, c)
		return err
	})
	l.log(c, time.Since(begun), err)
	switch {
	case err != nil && late(ctx):
		c.fail(Lost, "no answer before the request's time was over")
	case ctx.Err() != nil && !late(ctx):
		return ask.Ended(ctx)
	case err != nil && limited.Err() != nil:
		c.fail(Lost, fmt.Sprintf("no answer in %v", l.Limits.Time))
	case err != nil:
		c.fail(Lost, c.Tool.does.lost())
	default:
		c.Why, c.Told, c.whole = why, text, len(text)
		if n := len(head(text, l.Limits.Result)); n < len(text) {
			c.cut(n, fmt.Sprintf("\n(cut after %d bytes)", n))
		}
	}
	return nil
}

// log tells of a call that was made.
func (l *Loop) log(c *Call, took time.Duration, err error) {
	tool, server := c.named()
	e := l.Log.Info().Str("tool", tool)
	if server != "" {
		e = e.Str("mcp_server", server)
	}
	e.Dur("took_ms", took).Err(err).Msg("called a tool")
}

// late reports whether a context has ended at the deadline of its request.
func late(ctx context.Context) bool { return errors.Is(context.Cause(ctx), engine.ErrDeadline) }
