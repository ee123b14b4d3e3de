package server

import (
	"context"
	"net/http"
	"time"

	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
)

// lease returns a lease of the model of a name. While it is loaded, a stream is kept alive by comments.
func (s *Server) lease(req *answer.Request, name string) (*models.Lease[ask.Model], error) {
	ctx, o := req.Context(), req.Stay
	o.Flow = req.Caller.Flow
	if s.c.Ping < 0 || req.HTTP.Request.Method != http.MethodPost {
		return s.models.Acquire(ctx, name, o)
	}
	// Most models are there: no goroutine for these.
	if st, err := s.models.Status(name); err != nil || st.State == models.Loaded {
		return s.models.Acquire(ctx, name, o)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		lease *models.Lease[ask.Model]
		err   error
	}
	got := make(chan result, 1)
	go func() {
		var r result
		r.err = panics.Catch(func() (err error) {
			r.lease, err = s.models.Acquire(ctx, name, o)
			return err
		})
		got <- r
	}()
	tick := time.NewTicker(s.c.Ping)
	defer tick.Stop()
	var out *reply.Stream
	for {
		select {
		case r := <-got:
			return r.lease, r.err
		case <-tick.C:
		}
		if out == nil {
			// Streams in lines have no comments, and nothing else to send.
			if req.Route.Speaks().Lines() || string(req.Peek("stream")) != "true" {
				continue
			}
			out = reply.NewStream(req.HTTP)
			req.Waited = true
		}
		out.Ping()
		if out.Flush() != nil {
			cancel()
			if r := <-got; r.lease != nil {
				r.lease.Release()
			}
			return nil, reply.ErrGone
		}
	}
}
