package stream

import (
	"errors"
	"testing"

	"github.com/quern-llm/quern/go/internal/panics"
)

// A panic while a part of a file is read, or its sum is computed, is the error of who waits for it.
func TestPanics(t *testing.T) {
	is := func(what string, err error) {
		t.Helper()
		if p := (*panics.Panic)(nil); !errors.As(err, &p) {
			t.Errorf("%s: %v, want a panic", what, err)
		}
	}
	r := NewReader(func(int, []byte, int64) (int, error) { panic("a read") })
	defer r.Close()
	done := make(chan error)
	r.Read(0, 0, make([]byte, 3*chunkBytes), 3*chunkBytes, func(err error) { done <- err })
	is("a read", <-done)

	f := &faulty{b: make([]byte, 1<<20)}
	s := open_(t, f, &Layout{Bytes: 1 << 20, Units: []Unit{{Ranges: []Range{{N: 4096}}}}}, 1<<20)
	s.mu.Lock()
	s.units[0].left = 2 // more than came is to come: it is not finished here
	s.mu.Unlock()
	s.came(0, Range{At: 1 << 40, N: 4096, Summed: true}, nil) // a range beyond the memory
	s.sums.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	is("a sum", s.units[0].err)
}
