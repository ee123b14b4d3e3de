package openai

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/reply"
)

// A pendingCall is a call of a tool of the server that the model has written.
type pendingCall struct {
	at   int // in the output
	item calledItem
}

// calledOf returns the item of a block that calls a tool of the server, nil for other blocks.
func (f *responsesFormat) calledOf(b *answer.Block, id string) calledItem {
	tool := f.q.offered.names[b.Name]
	if b.Kind != answer.CallBlock || !tool.served() {
		return nil
	}
	text := b.Text.String()
	if tool.web != nil {
		return f.newWebItem(id, tool, text)
	}
	it := &mcpItem{ID: id, Type: "mcp_call", Status: statusInProgress, Label: tool.namespace, Name: tool.name,
		Arguments: &text}
	if f.asks(b) {
		it.Type, it.Status = "mcp_approval_request", ""
	}
	return it
}

// asks reports whether a block calls a tool whose calls need an approval.
func (f *responsesFormat) asks(b *answer.Block) bool {
	tool := f.q.offered.names[b.Name]
	return b.Kind == answer.CallBlock && tool.server != nil && tool.server.asks(tool.offer)
}

// written takes the complete item of a block that calls a tool of the server. A call that is to be made stays open.
func (f *responsesFormat) written(s *reply.Stream, it calledItem, status string) error {
	at := len(f.body.Output)
	if it.waits(status) {
		f.pending = append(f.pending, pendingCall{at, it})
		return f.place(at, it)
	}
	f.handsOver = f.handsOver || status == statusCompleted // it needs an approval
	return f.done(s, at, it)
}

// place puts an item into the output, in place of what is there.
func (f *responsesFormat) place(at int, it calledItem) error {
	raw, err := reply.Encode(it)
	if err != nil {
		return err
	}
	if at == len(f.body.Output) {
		f.body.Output = append(f.body.Output, history.Item{})
	}
	id, _, _ := it.about()
	f.body.Output[at] = history.Item{ID: id, Raw: raw}
	return nil
}

// done ends an item.
func (f *responsesFormat) done(s *reply.Stream, at int, it calledItem) error {
	if err := f.place(at, it); err != nil {
		return err
	}
	return f.send(s, responseEvent{Type: "response.output_item.done", Output: &at, Item: it})
}

// about sends an event about an item.
func (f *responsesFormat) about(s *reply.Stream, at int, it calledItem, kind string) error {
	id, _, _ := it.about()
	return f.send(s, responseEvent{Type: "response." + kind, Output: &at, ItemID: id})
}

// prepared sends the lists of tools.
func (f *responsesFormat) prepared(s *reply.Stream) error {
	for i := range f.q.lists {
		it := &f.q.lists[i]
		at, empty := len(f.body.Output), *it
		empty.Tools = &[]mcpTool{}
		if err := f.send(s, responseEvent{Type: "response.output_item.added", Output: &at, Item: &empty}); err != nil {
			return err
		}
		for _, kind := range []string{"mcp_list_tools.in_progress", "mcp_list_tools.completed"} {
			if err := f.about(s, at, it, kind); err != nil {
				return err
			}
		}
		if err := f.done(s, at, it); err != nil {
			return err
		}
	}
	return nil
}

// opens begins the items of the calls that the input approved.
func (f *responsesFormat) opens(s *reply.Stream) error {
	if err := f.begin(s); err != nil {
		return err
	}
	for i := range f.q.approved {
		it := &f.q.approved[i]
		at := len(f.body.Output)
		if err := f.send(s, responseEvent{Type: "response.output_item.added", Output: &at, Item: it}); err != nil {
			return err
		}
		if err := f.about(s, at, it, "mcp_call.in_progress"); err != nil {
			return err
		}
		if err := f.place(at, it); err != nil {
			return err
		}
		f.pending = append(f.pending, pendingCall{at, it})
	}
	f.q.approved = nil
	return nil
}

// goesOn reports whether a pass of the model has calls that the server makes.
func (f *responsesFormat) goesOn() bool { return len(f.pending) > 0 }

// Next makes the calls that the input approved, or those of a pass of the model, and starts the one that goes on. There is
// none if the client is to answer first: functions of its own, or a call that needs its approval.
func (f *responsesFormat) Next(ctx context.Context, s *reply.Stream) (*answer.Generation, error) {
	if until := f.g.Opts.Until; !until.IsZero() {
		limited, cancel := context.WithDeadlineCause(ctx, until, engine.ErrDeadline)
		defer cancel()
		ctx = limited
	}
	first := len(f.q.approved) > 0
	if first {
		if err := f.opens(s); err != nil {
			return nil, err
		}
	}
	if !f.goesOn() {
		return nil, nil
	}
	barred := !first && f.q.calls >= f.q.mostCalls() // the model was offered none, and calls some: it must not go on so
	pending := f.pending
	f.pending = nil
	for i := range pending {
		p := &pending[i]
		if _, kind, status := p.item.about(); status == statusSearching {
			if err := f.about(s, p.at, p.item, kind+"."+status); err != nil {
				return nil, err
			}
		}
		err := f.waits(ctx, s, func() error {
			err := f.q.run(ctx, p.item)
			if err == nil {
				f.fit(ctx, p, len(pending)-i, first)
			}
			return err
		})
		if errors.Is(err, reply.ErrCancelled) {
			return nil, cmp.Or(f.unanswered(s, pending[i:]), err)
		}
		if err == nil {
			err = f.answered(s, p)
		}
		if err != nil {
			return nil, err
		}
	}
	left := f.left()
	f.limited = f.limited || left == 0 && !f.handsOver
	if f.handsOver || f.limited || barred {
		return nil, f.complete(s)
	}
	if late(ctx) {
		return nil, engine.ErrDeadline
	}
	q, err := f.following(first)
	if err != nil {
		return nil, err
	}
	g, err := f.g.Request.Again(ctx, f.g, q, q.length())
	if err != nil {
		return nil, err
	}
	g.Keeps = true
	f.mu.Lock()
	f.g, f.grown = g, 0
	f.mu.Unlock()
	if ctx.Err() != nil && !late(ctx) { // meanwhile
		g.Cancel()
	}
	return g, nil
}

// answered ends the item of a call.
func (f *responsesFormat) answered(s *reply.Stream, p *pendingCall) error {
	if _, kind, status := p.item.about(); kind == "mcp_call" || status == statusCompleted { // others have no event
		if err := f.about(s, p.at, p.item, kind+"."+status); err != nil {
			return err
		}
	}
	return f.done(s, p.at, p.item)
}

// unanswered ends the items of calls whose response was cancelled: of the first, which was being made, and of those after it.
func (f *responsesFormat) unanswered(s *reply.Stream, calls []pendingCall) error {
	why := "the response was cancelled before it answered"
	for i := range calls {
		calls[i].item.fail(why)
		if err := f.answered(s, &calls[i]); err != nil {
			return err
		}
		why = "not called: the response was cancelled"
	}
	return nil
}

// left is how many tokens the model may still generate, -1: any number.
func (f *responsesFormat) left() int {
	if f.body.MaxTokens == nil {
		return -1
	}
	left := *f.body.MaxTokens
	if u := f.body.Usage; u != nil {
		left -= u.Output
	}
	return max(left, 0)
}

// following is the query of the next pass of the model, after the output so far.
func (f *responsesFormat) following(first bool) (*responsesQuery, error) {
	q := f.q.again(f.left(), first)
	for _, v := range f.body.Output {
		item, err := readItem(v.Raw)
		if err != nil {
			return nil, err
		}
		if find(q.items, item.Type, item.ID) == nil {
			q.items = append(q.items, item)
		}
	}
	return q, nil
}

// Acted reports whether a call was made.
func (f *responsesFormat) Acted() bool { return f.q.calls > 0 }

// waits runs a call, and keeps a stream alive meanwhile.
func (f *responsesFormat) waits(ctx context.Context, s *reply.Stream, unsafe func() error) error {
	run := func() error { return panics.Catch(unsafe) } // it is not always on a goroutine that others guard
	if s == nil {
		return run()
	}
	if s.Flush() != nil { // what the client waits for
		return reply.ErrGone
	}
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	var silence <-chan time.Time
	if quiet := f.g.Request.Quiet(f.g.Opts); quiet > 0 {
		timer := time.NewTicker(quiet)
		defer timer.Stop()
		silence = timer.C
	}
	var gone error
	for {
		select {
		case err := <-ended:
			if gone != nil {
				err = gone
			}
			if ctx.Err() != nil && !late(ctx) {
				err = ask.Ended(ctx)
			}
			return err
		case <-silence:
			if gone == nil && (f.g.Request.Route.Speaks().Ping(s) != nil || s.Flush() != nil) {
				gone = reply.ErrGone // the context ends with the connection, and the call with that
			}
		}
	}
}

// again is the query of the next pass of the model, which may generate so many tokens, -1: any number. After the first a
// call that was required has been made. The calls of a response are counted together.
func (q *responsesQuery) again(tokens int, first bool) *responsesQuery {
	next := *q.fresh
	next.fresh, next.calls, next.pages, next.items = q.fresh, q.calls, q.pages, slices.Clone(q.fresh.items)
	if tokens >= 0 {
		next.MaxTokens = tokens
	}
	if next.Choice.Mode == "required" && !first {
		next.Choice.Mode = "auto"
	}
	if q.calls >= q.mostCalls() {
		next.withoutServers()
	}
	return &next
}

// length is how many bytes the prompt is made of, about.
func (q *responsesQuery) length() int {
	n := len(q.instructions) + len(q.offered.raw)
	for i := range q.items {
		n += len(q.items[i].raw)
	}
	for _, s := range q.offered.servers {
		for i := range s.offers {
			n += len(s.offers[i].Schema) + len(s.offers[i].Description)
		}
	}
	return n
}

// withoutServers leaves the model the client's own tools only.
func (q *responsesQuery) withoutServers() {
	names := []string{}
	for name, t := range q.offered.names {
		if !t.served() && (q.Choice.Names == nil ||
			slices.ContainsFunc(q.Choice.Names, func(n string) bool { return q.offered.full(n) == name })) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if q.Choice.Names = names; len(names) == 0 {
		q.Choice.Mode, q.Choice.Names = "none", nil
	}
}
