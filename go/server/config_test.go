package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/server/answer"
)

// What a program does not say of its server is as the fields of Config have it.
func TestUsualConfig(t *testing.T) {
	t.Parallel()
	c := New(Config{}).c
	if c.Ping != 30*time.Second || c.StoreBytes != 64*1024*1024 || c.StoreTime != 24*time.Hour || c.ToolTime != 2*time.Minute || c.Progress != 10*time.Second {
		t.Errorf("%+v", c)
	}
	own := New(Config{Ping: -1, StoreBytes: 1, StoreTime: 2, ToolTime: 3, Progress: 4}).c
	if own.Ping != -1 || own.StoreBytes != 1 || own.StoreTime != 2 || own.ToolTime != 3 || own.Progress != 4 {
		t.Errorf("%+v", own)
	}
}

// Whose a request is: one of many by its address, who is an administrator; or as the program says; or a batch's. Texts
// are found apart where the program says so.
func TestCallers(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.ReleaseMode)
	of := func(c Config, ctx context.Context) answer.Caller {
		at, _ := gin.CreateTestContext(httptest.NewRecorder())
		at.Request = httptest.NewRequestWithContext(ctx, "POST", "/x", nil)
		return New(c).request(at, &answer.Route{}).Caller
	}
	ctx := t.Context()
	batched := context.WithValue(ctx, batchKey{}, &batchRequest{owner: "ann"})
	said := func(*gin.Context) answer.Caller { return answer.Caller{Flow: "f", Owner: "bob", Priority: 3} }
	for _, c := range []struct {
		config Config
		ctx    context.Context
		want   answer.Caller
	}{
		{Config{}, ctx, answer.Caller{Flow: "192.0.2.1", Admin: true, Priority: 1000}},
		{Config{Caller: said}, ctx, answer.Caller{Flow: "f", Owner: "bob", Priority: 3}},
		{Config{Caller: said, Apart: true}, ctx, answer.Caller{Flow: "f", Owner: "bob", Priority: 3, Space: "bob"}},
		{Config{Caller: said}, batched, answer.Caller{Flow: "batch ann", Background: true, Owner: "ann"}},
		{Config{Apart: true}, batched, answer.Caller{Flow: "batch ann", Background: true, Owner: "ann", Space: "ann"}},
	} {
		if got := of(c.config, c.ctx); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %+v, want %+v", c.config, got, c.want)
		}
	}
}

// A batch is told of an answer the status, the body, and when to come again.
func TestAnswersOfBatches(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "soon": 0} {
		r := &recorder{header: http.Header{}, status: 200}
		r.Header().Set("Retry-After", header)
		r.WriteHeader(429)
		if _, err := r.Write([]byte("busy")); err != nil {
			t.Fatal(err)
		}
		if got := r.answer(); got.Status != 429 || got.Retry != want || string(got.Body) != "busy" {
			t.Errorf("%q: %+v", header, got)
		}
	}
}
