package ask_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/ask"
)

// places is an engine that has room for so many adapters.
type places struct {
	ask.Engine
	room    int
	full    error
	dropped []string
}

func (e *places) OpenAdapter(path string) (*engine.Adapter, error) {
	if e.room == 0 {
		return nil, fmt.Errorf("%s: %w", path, e.full)
	}
	e.room--
	return &engine.Adapter{Name: path}, nil
}

func (e *places) DropAdapter(_ context.Context, a *engine.Adapter) error {
	e.room++
	e.dropped = append(e.dropped, a.Name)
	return nil
}

// Adapters of fine-tuned models make room for others, the one that was used longest ago first, but none that a request holds.
func TestTunedAdaptersMakeRoom(t *testing.T) {
	t.Parallel()
	for _, full := range []error{engine.ErrAdapters, &mem.LimitError{}} {
		e := &places{room: 2, full: full}
		m := &ask.Model{Engine: e, Tuned: &ask.Adapters{}}
		ctx := context.Background()
		hold := func(name string) *ask.Adapter {
			a, err := m.TunedAdapter(ctx, name, name+".gguf")
			if err != nil || a.Name != name {
				t.Fatalf("%v, %v", a, err)
			}
			return a
		}
		a, b := hold("a"), hold("b")
		if _, err := m.TunedAdapter(ctx, "c", "c.gguf"); !errors.Is(err, full) || len(e.dropped) != 0 {
			t.Fatalf("where all are held: %v, dropped %v", err, e.dropped)
		}
		m.Tuned.Release(b)
		m.Tuned.Release(hold("a")) // it is still held once
		hold("c")
		m.Tuned.Release(a)
		if _, err := m.OpenAdapter(ctx, "of a folder"); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(e.dropped) != "[b a]" {
			t.Errorf("dropped %v, want b and then a", e.dropped)
		}
	}
}
