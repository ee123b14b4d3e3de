package ask_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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

// An adapter whose model is deleted is unloaded at once, or when the last request that holds it ends; meanwhile nobody finds it.
func TestDeletedAdaptersAreUnloaded(t *testing.T) {
	t.Parallel()
	dropped := make(chan string, 2)
	e := &drops{places{room: 3}, dropped}
	m := &ask.Model{Engine: e, Tuned: &ask.Adapters{}}
	hold := func(name string) *ask.Adapter {
		a, err := m.TunedAdapter(context.Background(), name, name+".gguf")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	m.Tuned.Release(hold("a"))
	m.Untune("a")
	m.Untune("unknown")
	if got := <-dropped; got != "a" {
		t.Errorf("dropped %s", got)
	}
	b := hold("b")
	hold("b")
	m.Untune("b")
	m.Tuned.Release(b)
	if len(m.Tuned.All()) != 0 || m.Tuned.Hold("b") != nil {
		t.Error("who asks finds a model that was deleted")
	}
	select {
	case got := <-dropped:
		t.Errorf("%s is unloaded while a request holds it", got)
	case <-time.After(20 * time.Millisecond):
	}
	release := m.Tuned.Again(b) // an answer that goes on after its request
	m.Tuned.Release(b)
	select {
	case got := <-dropped:
		t.Errorf("%s is unloaded while an answer holds it", got)
	case <-time.After(20 * time.Millisecond):
	}
	release()
	if got := <-dropped; got != "b" {
		t.Errorf("dropped %s", got)
	}
}

// What nobody holds, such as an adapter that a request names by the name of a file, is not held by an answer either.
func TestAdaptersThatNobodyHolds(t *testing.T) {
	all := &ask.Adapters{}
	a := &ask.Adapter{Name: "a"}
	all.Settle(a, true)
	all.Again(a)()
	all.Again(nil)()
	dropped := false
	all.Retire("a", func(*ask.Adapter) { dropped = true })
	if !dropped {
		t.Error("an adapter is held by nobody, and stays")
	}
}

// drops is places that says what it drops.
type drops struct {
	places
	dropped chan string
}

func (e *drops) DropAdapter(_ context.Context, a *engine.Adapter) error {
	e.dropped <- a.Name
	return nil
}
