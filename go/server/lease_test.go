package server

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
)

// An unfit is an instance that panics when it is leased, after the catalog has asked for its model.
type unfit struct {
	still
	asked atomic.Int64
}

func (u *unfit) Model() *ask.Model {
	if u.asked.Add(1) == 2 {
		panic("no model")
	}
	return u.m
}

// A panic while a request waits for its model, beside the pings of its stream, is the error of that request.
func TestLeasePanics(t *testing.T) {
	var log lockedBuffer
	var model ask.Model
	s := newSite(t, "Hello", func(c *Config, m *ask.Model, _ *fakeEngine) {
		model = *m
		c.Ping, c.Log = 10*time.Millisecond, zerolog.New(&log)
	})
	if err := s.server.Add(catalog.Source{Spec: models.Spec[ask.Model]{
		Names: []string{"bad"},
		Load: func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
			time.Sleep(30 * time.Millisecond) // pings
			return &unfit{still: still{m: &model}}, nil
		},
	}}); err != nil {
		t.Fatal(err)
	}
	status, b, _ := s.do("POST", "/v1/completions", `{"prompt":"x","model":"bad","stream":true}`)
	if status != 200 || !strings.Contains(string(b), ": ") || !strings.Contains(string(b), `"server_error"`) || strings.Contains(string(b), "no model") {
		t.Errorf("%d %s", status, b)
	}
	if text := log.String(); !strings.Contains(text, "no model") || !strings.Contains(text, `"stack"`) {
		t.Errorf("the log has %s", text)
	}
	if status, b, _ := s.do("POST", "/v1/completions", `{"prompt":"x","model":"fake/model"}`); status != 200 {
		t.Errorf("another model: %d %s", status, b)
	}
}
