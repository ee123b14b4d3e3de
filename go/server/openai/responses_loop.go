package openai

import (
	"context"
	"slices"

	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/reply"
)

// A calledItem is the item of the output for a call that the server makes.
type calledItem interface {
	about() (id, kind, status string)
	// waits takes how the model has written the call, and reports whether it is to be made now.
	waits(status string) bool
	// call is what is made, and take takes what came of it.
	call() *agent.Call
	take()
}

// A pendingCall is a call of a tool of the server that the model has written.
type pendingCall struct {
	at   int // in the output
	item calledItem
}

// calledOf returns the item of a block that calls a tool of the server, nil for other blocks.
func (f *responsesFormat) calledOf(b *answer.Block, id string) calledItem {
	tool := f.q.offered.names[b.Name]
	if b.Kind != answer.CallBlock || tool.served == nil {
		return nil
	}
	text := b.Text.String()
	if tool.server == nil {
		return f.newWebItem(id, tool.served, text)
	}
	it := &mcpItem{ID: id, Type: "mcp_call", Status: statusInProgress, Label: tool.namespace, Name: tool.name,
		Arguments: &text, made: &agent.Call{Tool: tool.served, Args: text}}
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
		return f.opened(at, it)
	}
	f.loop.HandsOver = f.loop.HandsOver || status == statusCompleted // it needs an approval
	return f.done(s, at, it)
}

// opened takes an item whose call is to be made.
func (f *responsesFormat) opened(at int, it calledItem) error {
	if f.open == nil {
		f.open = map[*agent.Call]pendingCall{}
	}
	f.open[it.call()] = pendingCall{at, it}
	f.loop.Written(it.call())
	return f.place(at, it)
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
		if err := f.opened(at, it); err != nil {
			return err
		}
	}
	f.q.approved = nil
	return nil
}

// Next makes the calls that the input approved, or those of a pass of the model, and starts the one that goes on. There is
// none if the client is to answer first: functions of its own, or a call that needs its approval.
func (f *responsesFormat) Next(ctx context.Context, s *reply.Stream) (*answer.Generation, error) {
	first := len(f.q.approved) > 0
	if first {
		if err := f.opens(s); err != nil {
			return nil, err
		}
	}
	return f.loop.Next(ctx, s, first)
}

// Acted reports whether a call was made.
func (f *responsesFormat) Acted() bool { return f.loop.Acted() }

// responseCalls are the calls of a response, as its loop is told of them.
type responseCalls struct{ *responsesFormat }

func (f responseCalls) Making(s *reply.Stream, c *agent.Call) error {
	p := f.open[c]
	if _, kind, status := p.item.about(); status == statusSearching {
		return f.about(s, p.at, p.item, kind+"."+status)
	}
	return nil
}

func (f responseCalls) Place(c *agent.Call) error {
	p := f.open[c]
	p.item.take()
	return f.place(p.at, p.item)
}

func (f responseCalls) Made(s *reply.Stream, c *agent.Call) error {
	p := f.open[c]
	delete(f.open, c)
	p.item.take()
	if _, kind, status := p.item.about(); kind == "mcp_call" || status == statusCompleted { // others have no event
		if err := f.about(s, p.at, p.item, kind+"."+status); err != nil {
			return err
		}
	}
	return f.done(s, p.at, p.item)
}

func (f responseCalls) Complete(s *reply.Stream) error { return f.complete(s) }

// Following is the query of the next pass of the model, after the output so far.
func (f responseCalls) Following(tokens int, first bool) (agent.Query, error) {
	q := f.q.again(tokens, first)
	if f.loop.Spent() {
		q.withoutServers()
	}
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

// again is the query of the next pass of the model, which may generate so many tokens, -1: any number. After the first a
// call that was required has been made.
func (q *responsesQuery) again(tokens int, first bool) *responsesQuery {
	next := *q.fresh
	next.fresh, next.items = q.fresh, slices.Clone(q.fresh.items)
	if tokens >= 0 {
		next.MaxTokens = tokens
	}
	if next.Choice.Mode == "required" && !first {
		next.Choice.Mode = "auto"
	}
	return &next
}

// Length is how many bytes the prompt is made of, about.
func (q *responsesQuery) Length() int {
	n := len(q.instructions) + len(q.offered.raw)
	for i := range q.items {
		n += len(q.items[i].raw)
	}
	for _, t := range q.offered.names {
		if t.served != nil {
			n += t.served.Size()
		}
	}
	return n
}

// withoutServers leaves the model the client's own tools only.
func (q *responsesQuery) withoutServers() {
	names := []string{}
	for name, t := range q.offered.names {
		if t.served == nil && (q.Choice.Names == nil ||
			slices.ContainsFunc(q.Choice.Names, func(n string) bool { return q.offered.full(n) == name })) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if q.Choice.Names = names; len(names) == 0 {
		q.Choice.Mode, q.Choice.Names = "none", nil
	}
}

// mostCalls is how many calls the response may have.
func (q *responsesQuery) mostCalls() int {
	if q.maxCalls < 0 {
		return q.limits.Calls
	}
	return min(q.maxCalls, q.limits.Calls)
}
