package server_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// An unfit is an instance that panics when it is leased, after the catalog has asked for its model.
type unfit struct {
	fake.Still
	asked atomic.Int64
}

func (u *unfit) Model() *ask.Model {
	if u.asked.Add(1) == 2 {
		panic("no model")
	}
	return u.Of
}

// A panic while a request waits for its model, beside the pings of its stream, is the error of that request.
func TestLeasePanics(t *testing.T) {
	t.Parallel()
	var log fake.Log
	var model ask.Model
	s := fake.New(t, "Hello", func(c *server.Config, m *ask.Model, _ *fake.Engine) {
		model = *m
		c.Ping, c.Log = 10*time.Millisecond, zerolog.New(&log)
	})
	if err := s.Server.Add(catalog.Source{Spec: models.Spec[ask.Model]{
		Names: []string{"bad"},
		Load: func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
			time.Sleep(30 * time.Millisecond) // pings
			return &unfit{Still: fake.Still{Of: &model}}, nil
		},
	}}); err != nil {
		t.Fatal(err)
	}
	status, b, _ := s.Do("POST", "/v1/completions", `{"prompt":"x","model":"bad","stream":true}`)
	if status != 200 || !strings.Contains(string(b), ": ") || !strings.Contains(string(b), `"server_error"`) ||
		strings.Contains(string(b), "no model") {
		t.Errorf("%d %s", status, b)
	}
	if text := log.String(); !strings.Contains(text, "no model") || !strings.Contains(text, `"stack"`) {
		t.Errorf("the log has %s", text)
	}
	if status, b, _ := s.Do("POST", "/v1/completions", `{"prompt":"x","model":"fake/model"}`); status != 200 {
		t.Errorf("another model: %d %s", status, b)
	}
}

func TestLoading(t *testing.T) {
	t.Parallel()
	s := server.New(server.Config{})
	fake.Starting(t, s, "a")
	h := s.Handler()
	for path, want := range map[string]int{"/health": 503, "/v1/chat/completions": 503, "/openapi.json": 200} {
		method := http.MethodGet
		if path == "/v1/chat/completions" {
			method = http.MethodPost
		}
		status, b := fake.Ask(h, method, path, "{}")
		if status != want {
			t.Errorf("%s: status %d", path, status)
		}
		if want == 503 && string(b) != `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}` {
			t.Errorf("%s: %s", path, b)
		}
	}
}
