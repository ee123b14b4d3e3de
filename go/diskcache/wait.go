package diskcache

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quern-llm/quern/go/internal/panics"
)

// ErrStuck reports that the file system did not answer in time, or has not answered an earlier call yet.
var ErrStuck = errors.New("the disk does not respond")

// A call is a use of the file system that its caller may stop waiting for. It cannot be interrupted.
type call struct {
	mu   sync.Mutex
	left bool // its caller has gone: memory of theirs may not be written
}

// copy copies to memory of the caller, and reports whether that is still there.
func (c *call) copy(to, from []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left {
		copy(to, from)
	}
	return !c.left
}

// wait runs f until ctx ends. A panic of f is its error. If f has not returned by then, the store is stuck until it does.
func (s *Store) wait(ctx context.Context, f func(c *call) error) error {
	if s.Stuck() {
		return ErrStuck
	}
	c := &call{}
	done := make(chan error, 1)
	go func() { done <- panics.Catch(func() error { return f(c) }) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
	select {
	case err := <-done:
		return err
	default:
	}
	s.count(1)
	go func() {
		<-done
		s.count(-1)
	}()
	return fmt.Errorf("%w: %w", ErrStuck, ctx.Err())
}

func (s *Store) count(stuck int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stuck += stuck
}

// Stuck reports whether the file system has not answered a call that its caller no longer waits for. Until it
// has, the store has nothing and takes nothing.
func (s *Store) Stuck() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stuck > 0
}
