package fake

import (
	"context"
	"testing"

	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
)

// NewRouter returns a server of models that are loaded on request: a, b, which is loaded once the channel is closed,
// and one that does not fit.
func NewRouter(t testing.TB, change func(*server.Config)) (s *Site, b chan struct{}) {
	t.Helper()
	b = make(chan struct{})
	s = New(t, "Hello", func(c *server.Config, m *ask.Model, _ *Engine) {
		m.Name = "first"
		if change != nil {
			change(c)
		}
	})
	first := *s.Model()
	s.Server.Remove("first")
	for _, name := range []string{"a", "b", "huge"} {
		src := catalog.Source{
			Path: name + ".gguf", Settings: []string{"--ctx-size", "512"}, Info: ask.ModelInfo{Arch: "llama", Size: 7},
			Tags: []string{"x"},
		}
		src.Names = []string{name, "also-" + name}
		src.Load = func(ctx context.Context, progress func(float64)) (models.Instance[ask.Model], error) {
			switch name {
			case "b":
				progress(0.5)
				select {
				case <-b:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			case "huge":
				return nil, &mem.LimitError{Purpose: "the model", Need: 9 << 30, Free: 1 << 30, Limit: 16 << 30, Reason: "a test"}
			}
			m := first
			return &Still{&m}, nil
		}
		if err := s.Server.Add(src); err != nil {
			t.Fatal(err)
		}
	}
	return s, b
}
