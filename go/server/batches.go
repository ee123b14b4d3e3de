package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/server/batch"
)

// batchKey is the key of the batchRequest in the context of a request of a batch.
type batchKey struct{}

// A batchRequest is a request of a batch.
type batchRequest struct {
	owner  string
	barred bool // its key was removed
	over   bool // it is to be sent again later: it is barred, or the quota of its key is used up
}

// batchOf returns the request of a batch that runs in a context; nil: none does.
func batchOf(ctx context.Context) *batchRequest {
	b, _ := ctx.Value(batchKey{}).(*batchRequest)
	return b
}

// batchWidth is how many requests of batches are made at a time: enough for a pass over the weights to serve several,
// and few beside those of people who wait.
const batchWidth = 4

// RunBatches runs batches until ctx ends.
func (s *Server) RunBatches(ctx context.Context) {
	if s.c.Batches == nil {
		return
	}
	h := s.batchHandler()
	r := batch.Runner{
		Store: s.c.Batches, Width: batchWidth, Wait: s.batchWait,
		Do: func(ctx context.Context, owner, url string, body []byte) batch.Answer {
			to := &recorder{header: http.Header{}, status: http.StatusOK}
			about := &batchRequest{owner: owner}
			req, err := http.NewRequestWithContext(context.WithValue(ctx, batchKey{}, about), http.MethodPost, url,
				bytes.NewReader(body))
			if err != nil { // the url is an endpoint's
				panic(err)
			}
			h.ServeHTTP(to, req)
			a := to.answer()
			a.Over = about.over
			return a
		},
		Log: func(id string, err error) {
			e, message := s.c.Log.Error().Str("batch", id).Err(err), "a batch failed"
			if p := (*panics.Panic)(nil); errors.As(err, &p) {
				e = e.Bytes("stack", p.Stack)
			}
			if p := (*batch.PanicError)(nil); errors.As(err, &p) {
				message = "a request of a batch panicked"
			}
			e.Msg(message)
		},
	}
	r.Run(ctx)
}

// batchWait is how long it takes until an owner of batches may send a request, at least.
func (s *Server) batchWait(owner string) time.Duration {
	if s.c.Account == nil {
		return 0
	}
	account, ok := s.c.Account(owner)
	if !ok {
		return time.Hour
	}
	return account.Wait()
}

// batchHandler is Handler, for requests of batches.
func (s *Server) batchHandler() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	if s.c.Batched != nil {
		e.Use(func(c *gin.Context) {
			begun, b, ended := time.Now(), batchOf(c.Request.Context()), false
			defer func() {
				if !ended { // a panic is propagating
					c.Status(http.StatusInternalServerError)
				}
				status := c.Writer.Status()
				again := b == nil || b.over || status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable ||
					c.Request.Context().Err() != nil
				if !again {
					s.c.Batched(c, begun, b.owner)
				}
			}()
			c.Next()
			ended = true
		})
	}
	s.Register(e)
	s.Fallback(e)
	return e
}

// A recorder is a ResponseWriter that keeps what is written.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// answer is what was written.
func (r *recorder) answer() batch.Answer {
	retry, _ := strconv.Atoi(r.header.Get("Retry-After"))
	return batch.Answer{Status: r.status, Retry: time.Duration(retry) * time.Second, Body: r.body.Bytes()}
}

// batchEndpoints are those that a batch may name.
func (s *Server) batchEndpoints() []string {
	var list []string
	for _, r := range s.routes {
		if path := r.Paths[0]; r.Method == http.MethodPost && !r.Always && !r.Admin && r.Body.Name != "" &&
			strings.HasPrefix(path, "/v1/") && !strings.Contains(path, ":") {
			list = append(list, path)
		}
	}
	return list
}
