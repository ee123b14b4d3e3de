package openai

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/reply"
)

// keptResponse is the kind of responses in the history.
const keptResponse history.Kind = "response"

// createResponse serves POST /v1/responses.
func (s *API) createResponse(req *answer.Request) error {
	m := req.Model
	q := s.newResponsesQuery(m)
	q.owner = req.Caller.Owner
	if err := req.Read(q); err != nil {
		return err
	}
	if err := q.recall(req); err != nil {
		return err
	}
	if q.offered.calls {
		if err := mayCall(req); err != nil {
			return err
		}
	}
	if err := q.prepare(); err != nil {
		return err
	}
	begin := req.Begin
	if len(q.approved) > 0 {
		begin = req.Hold // until they are made
	}
	g, err := begin(q, responseIDs)
	if err != nil {
		return err
	}
	if q.background {
		return s.inBackground(req, q, g)
	}
	return req.Finish(q, g)
}

// inBackground answers with a response that is generated meanwhile, and stored from now
// on, or with its events as they come, which others may follow too. What the request has stays until it has ended.
func (s *API) inBackground(req *answer.Request, q *responsesQuery, g *answer.Generation) error {
	f := q.Format(g).(*responsesFormat)
	begun := f.body
	r := f.stored()
	ctx, end := context.WithCancelCause(context.WithoutCancel(req.Context()))
	r.Cancel = func() {
		end(reply.ErrCancelled)
		f.loop.Cancel()
	}
	if q.Stream {
		f.log = reply.NewLog()
		r.Log = f.log
	}
	s.Stored.Put(r)
	outlived := req.Outlive()
	done := s.Host.Running.Act(g.ID, q.owner, f, r.Cancel)
	go func() {
		defer outlived()
		defer func() { f.loop.Generation().Close() }() // the last
		defer end(nil)
		defer done()
		if err := models.Guard(g.Name, nil, func() error { return f.run(ctx) }); err != nil { // it would end the process
			f.loop.Cancel()
			req.LogHidden(err)
			_ = f.Failed(nil, req.Refusal(err)) // is logged if there is no memory, too
		}
		s.Stored.Update(r, func(r *history.Record) {
			if r.Body.(response).Status == statusStopped { // whatever it came to meanwhile
				f.body.Status, f.body.Error, f.body.Completed = statusStopped, nil, nil
			}
			r.Body, r.Cancel = f.body, nil
		})
		if f.log != nil {
			f.log.End()
		}
	}()
	if q.Stream {
		return r.Log.Follow(req.Context(), reply.NewStream(req.HTTP), reply.Place{}, req.Quiet(g.Opts))
	}
	req.Send(begun)
	return nil
}

// run makes the response, whole or as events in its log, for whoever comes for it. The context ends calls of tools; what
// the model does ends with its generation.
func (f *responsesFormat) run(ctx context.Context) error {
	for g := f.loop.Generation(); g != nil; {
		if err := f.pass(g); err != nil {
			return err
		}
		var err error
		if g, err = f.Next(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// pass takes what one generation yields.
func (f *responsesFormat) pass(g *answer.Generation) error {
	if f.log == nil {
		answers, err := g.Collect(context.Background())
		if err == nil {
			f.Whole(answers)
		}
		return err
	}
	var failed error
	err := g.Each(context.Background(), 0, func(events []answer.Event) (bool, error) {
		for _, e := range events {
			if failed = answer.Show(f, nil, e); failed != nil {
				return false, failed
			}
		}
		return true, nil
	})
	return cmp.Or(failed, err)
}

// getResponse serves GET /v1/responses/:id.
func (s *API) getResponse(req *answer.Request) error {
	r, err := s.Stored.Get(keptResponse, req.Caller.Owner, req.HTTP.Param("id"))
	if err != nil {
		return err
	}
	stream, err := req.On("stream")
	if err != nil {
		return err
	}
	after := -1
	if text := req.HTTP.Query("starting_after"); text != "" {
		if after, err = strconv.Atoi(text); err != nil || after < 0 || after == math.MaxInt {
			return reply.Invalid("starting_after", "%s, want the sequence_number of an event", field.Quote(text))
		}
	}
	if stream {
		if r.Log == nil {
			return reply.Invalid("stream", "the response %s was not asked for with background and stream: it is sent whole",
				field.Quote(r.ID))
		}
		return r.Log.Follow(req.Context(), reply.NewStream(req.HTTP), reply.Place{Part: after + 1}, s.Host.Ping)
	}
	req.Send(s.Stored.Body(r))
	return nil
}

type responseDeleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// deleteResponse serves DELETE /v1/responses/:id.
func (s *API) deleteResponse(req *answer.Request) error {
	id := req.HTTP.Param("id")
	if err := s.Stored.Remove(keptResponse, req.Caller.Owner, id); err != nil {
		return err
	}
	req.Send(responseDeleted{id, "response", true})
	return nil
}

// responseIDs is what the ids of responses begin with.
const responseIDs = "resp_"

// cancelResponse serves POST /v1/responses/:id/cancel.
func (s *API) cancelResponse(req *answer.Request) error {
	id := req.HTTP.Param("id")
	r, err := s.Stored.Get(keptResponse, req.Caller.Owner, id)
	if err != nil && strings.HasPrefix(id, responseIDs) { // one that is not in the background is stored once it has ended
		f, _ := s.Host.Running.Cancel(id, &req.Caller)
		if f, ok := f.(*responsesFormat); ok {
			req.Send(f.first.stopped())
			return nil
		}
	}
	if err != nil {
		return err
	}
	if !s.Stored.Body(r).(response).Background {
		return reply.Bad("the response %s has ended", field.Quote(r.ID))
	}
	s.Stored.Update(r, func(r *history.Record) {
		r.Cancel()
		r.Body = r.Body.(response).stopped()
	})
	req.Send(s.Stored.Body(r))
	return nil
}

// responseItemList is a page of items.
type responseItemList = page[history.Item]

// itemPages is how stored items are listed.
func itemPages(order string) paging { return paging{order, 20, 100} }

// listInputItems serves GET /v1/responses/:id/input_items.
func (s *API) listInputItems(req *answer.Request) error {
	r, err := s.Stored.Get(keptResponse, req.Caller.Owner, req.HTTP.Param("id"))
	if err != nil {
		return err
	}
	return sendPage(req, r.Given(), "desc")
}

// sendPage answers with some of the items, as limit, order and after say. They are in the order in which they came.
func sendPage(req *answer.Request, items []history.Item, order string) error {
	list, err := pageOf(req, items, func(v history.Item) string { return v.ID }, itemPages(order))
	if err == nil {
		req.Send(list)
	}
	return err
}

// A responsesCountQuery is a request to /v1/responses/input_tokens.
type responsesCountQuery struct{ *responsesQuery }

func (s *API) newResponsesCountQuery(m *ask.Model) responsesCountQuery {
	return responsesCountQuery{s.newResponsesQuery(m)}
}

func (q responsesCountQuery) Fields() []field.Field { return q.input() }

// countResponse serves POST /v1/responses/input_tokens.
func (s *API) countResponse(req *answer.Request) error {
	m := req.Model
	q := s.newResponsesCountQuery(m)
	q.owner = req.Caller.Owner
	if err := req.Read(q); err != nil {
		return err
	}
	if err := q.recall(req); err != nil {
		return err
	}
	q.Conversation.Counted = true
	src, err := q.Source(req.Context(), m)
	if err != nil {
		return err
	}
	req.Send(tokenCount{"response.input_tokens", len(src.Prompts[0])})
	return nil
}
