package panics

import (
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

func TestCatch(t *testing.T) {
	if err := Catch(func() error { return io.EOF }); err != io.EOF {
		t.Errorf("an error came as %v", err)
	}
	err := Catch(func() error { panic("two\nlines\xff" + strings.Repeat("x", 1000)) })
	var p *Panic
	if !errors.As(err, &p) || !strings.Contains(string(p.Stack), "TestCatch") {
		t.Fatalf("a panic came as %#v", err)
	}
	if got := err.Error(); !strings.HasPrefix(got, "internal error: two linesxxx") || len(got) > 300 {
		t.Errorf("it reads %q", got)
	}
	if err := Catch(func() error { var none []int; none[len(none)] = 1; return nil }); err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Errorf("an index out of range came as %v", err)
	}
}

func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, 7} {
		got := make([]bool, n)
		if err := Each(n, func(i int) error { got[i] = true; return nil }); err != nil || slices.Contains(got, false) {
			t.Errorf("%d calls: %v, %v", n, got, err)
		}
	}
	err := Each(4, func(i int) error {
		if i > 0 {
			panic(i)
		}
		return nil
	})
	var p *Panic
	if !errors.As(err, &p) || p.Value != 1 || len(p.Stack) == 0 {
		t.Errorf("the first of several panics came as %v", err)
	}
}

// Calls that are shared are all made, at most so many at a time, until one fails: those before it are made in any case, so
// that the error is always the same.
func TestShare(t *testing.T) {
	for _, goroutines := range []int{1, 3, 100} {
		var running, most, calls atomic.Int64
		err := Share(goroutines, 40, func(i int) error {
			n := running.Add(1)
			defer running.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			calls.Add(1)
			runtime.Gosched()
			return nil
		})
		if err != nil || calls.Load() != 40 || most.Load() > int64(goroutines) {
			t.Errorf("%d goroutines: %v after %d calls, %d at a time", goroutines, err, calls.Load(), most.Load())
		}
		for range 50 {
			calls.Store(0)
			err = Share(goroutines, 40, func(i int) error {
				calls.Add(1)
				if i >= 5 {
					panic(i)
				}
				return nil
			})
			if p := (*Panic)(nil); !errors.As(err, &p) || p.Value != 5 {
				t.Fatalf("%d goroutines: %v, want the panic of call 5", goroutines, err)
			}
			if goroutines == 1 && calls.Load() != 6 {
				t.Fatalf("%d calls, want none after the one that fails", calls.Load())
			}
		}
	}
}
