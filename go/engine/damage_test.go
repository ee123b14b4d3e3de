package engine

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/model"
)

// copyOf copies a model, so that it can be cut.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(own, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return own
}

// cut empties a file in place, as a download that begins anew does.
func cut(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
}

// A file that is cut while it is mapped ends the requests that need it, and those of no other
// engine: C reads it in the workers, and Go does not die of it.
func TestCutFile(t *testing.T) {
	for _, r := range []model.Residency{model.Mapped, model.Packed} {
		d := device(t, 2)
		path := copyOf(t, tiny)
		cutLoop := openLoop(t, path, Config{Device: d, Residency: r}, LoopConfig{})
		other := openLoop(t, tiny, Config{Device: d, Residency: r}, LoopConfig{})
		prompt := randomIDs(other.e, 3, 20)
		want := greedy(t, open(t, tiny, Config{}), prompt, 8)
		for range 2 { // before, and beside one that is cut
			_, c := submit(t, other, greedyRequest(prompt, 8))
			if res := c.wait(t); res.Err != nil {
				t.Fatal(res.Err)
			} else if c.ids[7] != want[7] {
				t.Errorf("%v: %v, want %v", r, c.ids, want)
			}
			cut(t, path)
			run := greedyRequest(randomIDs(other.e, 4, 20), 40)
			if _, err := cutLoop.Submit(run); err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Errorf("%v: submitted to a cut file: %v", r, err)
				}
			} else if res := run.Sink.(*catcher).wait(t); !errors.Is(res.Err, ErrDamaged) {
				t.Errorf("%v: a request of a cut file: %+v", r, res)
			}
		}
		if err := cutLoop.e.model.Damaged(); err == nil {
			t.Errorf("%v: the model is not marked", r)
		}
	}
}

// A file that is cut while it is loaded, or before, is an error of that.
func TestCutWhileLoading(t *testing.T) {
	for _, r := range []model.Residency{model.Mapped, model.Packed} {
		path := copyOf(t, tiny)
		f, err := model.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cut(t, path)
		if e, err := New(f, Config{Device: device(t, 2), Residency: r}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%v: %v", r, err)
			e.Close()
		}
	}
}

// A file that another is written into while it is mapped ends the requests that need it; one that is renamed over it does not.
func TestOverwrittenFile(t *testing.T) {
	path := copyOf(t, tiny)
	l := openLoop(t, path, Config{Residency: model.Mapped}, LoopConfig{})
	request := func(seed uint64) error {
		run := greedyRequest(randomIDs(l.e, seed, 20), 5)
		if _, err := l.Submit(run); err != nil {
			return err
		}
		return run.Sink.(*catcher).wait(t).Err
	}
	kept := path + ".kept"
	if err := errors.Join(os.Link(path, kept), os.Rename(copyOf(t, tiny), path)); err != nil {
		t.Fatal(err)
	}
	if err := request(1); err != nil {
		t.Errorf("after a rename: %v", err)
	}
	f, err := os.OpenFile(kept, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour) // file systems may keep it in steps
	if _, err := f.WriteAt(make([]byte, 4096), size-4096); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(kept, later, later); err != nil {
		t.Fatal(err)
	}
	if err := request(2); !errors.Is(err, ErrDamaged) {
		t.Errorf("after a write: %v", err)
	}
}

// So it is where one sequence is evaluated alone.
func TestCutWhileEvaluating(t *testing.T) {
	path := copyOf(t, tiny)
	e := open(t, path, Config{Residency: model.Mapped})
	s := e.NewSequence()
	defer s.Close()
	visit := func(int, []float32) error { return nil }
	if err := e.Eval(t.Context(), s, []int32{1, 2, 3}, 0, visit); err != nil {
		t.Fatal(err)
	}
	cut(t, path)
	if err := e.Eval(t.Context(), s, []int32{4, 5}, 0, visit); !errors.Is(err, ErrDamaged) {
		t.Errorf("evaluated with a cut file: %v", err)
	}
	if s.Len() != 3 {
		t.Errorf("the sequence has %d tokens, want 3", s.Len())
	}
}
