package server

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// stay returns what a request says about the model's stay in memory.
func (s *Server) stay(c *gin.Context, r route) (o models.Options, err error) {
	if o.Load, err = switchOf(c, "autoload"); err != nil {
		return o, err
	}
	if r.ollama && r.method == http.MethodPost {
		o.KeepAlive = keepAliveOf(received(c))
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

// leased is the context key of a request's lease.
const leased = "leased"

// waited is the context key of a stream that began while its request waited for the model.
const waited = "waited"

// lease returns a lease of the model of a name. While it is loaded, a stream is kept alive by comments.
func (s *Server) lease(c *gin.Context, name string, o models.Options) (*models.Lease[Model], error) {
	ctx := c.Request.Context()
	if s.c.Ping < 0 || c.Request.Method != http.MethodPost {
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
			if c.GetBool(ollamaRequest) || !wantsStream(received(c)) {
				tick.Stop()
				continue
			}
			out = reply.NewStream(c)
			c.Set(waited, true)
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
