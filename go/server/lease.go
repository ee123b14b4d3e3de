package server

import (
	"context"
	"net/http"
	"time"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// stay returns what a request says about the model's stay in memory.
func (s *Server) stay(req *Request) (o models.Options, err error) {
	if o.Load, err = req.Switch("autoload"); err != nil {
		return o, err
	}
	if !req.route.ollama || req.route.method != http.MethodPost {
		return o, nil
	}
	o.KeepAlive = keepAliveOf(req.body)
	if !req.Caller.Admin && o.KeepAlive != nil {
		if *o.KeepAlive == 0 && req.route.stop != nil && !asksSomething(req.body) {
			return o, errUser // it would have the model unloaded for all
		}
		o.KeepAlive = nil // the server's setting applies
	}
	return o, nil
}

// keepAliveOf returns the keep_alive of a body, nil for none. Errors in the body are reported later, when its fields are
// read.
func keepAliveOf(body []byte) *time.Duration {
	var k keepAlive
	r := field.NewReader(body)
	_ = r.Members("an object", func(member string) error {
		if member != "keep_alive" || r.Kind() == 'n' {
			_, err := r.Raw()
			return err
		}
		return k.Take(r)
	})
	return k.given
}

// wantsStream reports whether a body asks for a stream.
func wantsStream(body []byte) (stream bool) {
	r := field.NewReader(body)
	_ = r.Members("an object", func(member string) error {
		v, err := r.Raw()
		if member == "stream" {
			stream = string(v) == "true"
		}
		return err
	})
	return stream
}

// lease returns a lease of the model of a name. While it is loaded, a stream is kept alive by comments.
func (s *Server) lease(req *Request, name string, o models.Options) (*models.Lease[Model], error) {
	ctx := req.Context()
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
		lease *models.Lease[Model]
		err   error
	}
	got := make(chan result, 1)
	go func() {
		l, err := s.models.Acquire(ctx, name, o)
		got <- result{l, err}
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
			if req.route.ollama || !wantsStream(req.body) {
				tick.Stop()
				continue
			}
			out = reply.NewStream(req.HTTP)
			req.waited = true
		}
		if out.Ping() != nil || out.Flush() != nil {
			cancel()
			if r := <-got; r.lease != nil {
				r.lease.Release()
			}
			return nil, reply.ErrGone
		}
	}
}
