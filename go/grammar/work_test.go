package grammar

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWork(t *testing.T) {
	errPart, errLeft := errors.New("a part"), errors.New("left")
	do := func(w *Work, n, times int) (done int, err error) {
		defer Catch(&err)
		for range times {
			w.Do(n)
			done++
		}
		return done, nil
	}
	if n, err := do(nil, 1<<40, 3); n != 3 || err != nil {
		t.Errorf("without a bound: %d, %v", n, err)
	}
	if n, err := do((*Work)(nil).Part(10, errPart), 1, 12); n != 10 || !errors.Is(err, errPart) {
		t.Errorf("a part of none: %d, %v", n, err)
	}
	w := NewWork(t.Context(), 100)
	if n, err := do(w.Part(10, errPart), 3, 12); n != 3 || !errors.Is(err, errPart) || errors.Is(err, ErrLarge) {
		t.Errorf("a part: %d, %v", n, err)
	}
	if n, err := do(w, 8, 12); n != 11 || !errors.Is(err, ErrLarge) || !Overran(err) || Overran(ErrLarge) {
		t.Errorf("the whole after its part: %d, %v", n, err)
	}
	if _, err := do(w, 0, 1); !errors.Is(err, ErrLarge) {
		t.Errorf("work that has ended goes on: %v", err)
	}

	ctx, leave := context.WithCancelCause(t.Context())
	w = NewWork(ctx, 1<<30)
	if n, err := do(w, 1, 1<<20); n != 1<<20 || err != nil {
		t.Errorf("before the context ends: %d, %v", n, err)
	}
	leave(errLeft)
	for _, w := range []*Work{w, w.Part(1<<30, errPart), NewWork(ctx, 1<<30)} {
		if n, err := do(w, 1, 1<<20); n > interval || !errors.Is(err, errLeft) {
			t.Errorf("after it: %d, %v", n, err)
		}
		if w.Context() != ctx {
			t.Error("another context")
		}
	}
}

// All steps may be done at once, and none more; a panic that is none of these goes on.
func TestLastStep(t *testing.T) {
	do := func(steps, n int) (err error) {
		defer Catch(&err)
		NewWork(t.Context(), steps).Do(n)
		return nil
	}
	if err := do(5, 5); err != nil {
		t.Errorf("5 of 5: %v", err)
	}
	if err := do(5, 6); !errors.Is(err, ErrLarge) {
		t.Errorf("6 of 5: %v", err)
	}
	defer func() {
		if r := recover(); r != "another" {
			t.Errorf("got %v", r)
		}
	}()
	func() (err error) {
		defer Catch(&err)
		panic("another")
	}()
}

// An asked context counts how often it is asked whether it has ended.
type asked struct {
	context.Context
	times int
}

func (a *asked) Err() error {
	a.times++
	return a.Context.Err()
}

// The context is asked now and then, not at each step.
func TestSeldomAsked(t *testing.T) {
	const steps = 10 * interval
	ctx := &asked{Context: t.Context()}
	w := NewWork(ctx, 1<<30)
	for range steps {
		w.Do(1)
	}
	if ctx.times < 9 || ctx.times > 11 {
		t.Errorf("asked %d times in %d steps", ctx.times, steps)
	}
}

// Who waits for another's work waits no longer than its own may take.
func TestWait(t *testing.T) {
	turn := make(chan struct{}, 1)
	if err := NewWork(t.Context(), 0).Wait(turn); err != nil {
		t.Errorf("a free turn: %v", err)
	}
	if err := NewWork(t.Context(), 1000).Wait(turn); !errors.Is(err, ErrLarge) || !Overran(err) {
		t.Errorf("a taken turn: %v", err)
	}
	errLeft := errors.New("left")
	ctx, leave := context.WithCancelCause(t.Context())
	leave(errLeft)
	if err := NewWork(ctx, 1<<40).Wait(turn); !errors.Is(err, errLeft) || !Overran(err) {
		t.Errorf("after the context has ended: %v", err)
	}
	go func() { <-turn }()
	if err := (*Work)(nil).Wait(turn); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}

// It waits for exactly as long as what is left may take, of a part as of the whole, unless the turn comes before.
func TestWaitIsAsLongAsTheWorkLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errPart := errors.New("a part")
		turn := make(chan struct{}, 1)
		turn <- struct{}{}
		whole := NewWork(t.Context(), 1<<40)
		part := whole.Part(5000, errPart)
		part.Do(1000)
		half := NewWork(t.Context(), 1_000_000)
		half.Do(500_000)
		for _, tt := range []struct {
			work  *Work
			steps time.Duration
			err   error
		}{
			{NewWork(t.Context(), 1), 1, ErrLarge}, {NewWork(t.Context(), 30_000), 30_000, ErrLarge},
			{half, 500_000, ErrLarge}, {part, 4000, errPart},
		} {
			begun := time.Now()
			err := tt.work.Wait(turn)
			if took := time.Since(begun); took != tt.steps*stepTime || !errors.Is(err, tt.err) || !Overran(err) {
				t.Errorf("%d steps: %v after %v", tt.steps, err, took)
			}
		}
		time.AfterFunc(time.Minute, func() { <-turn })
		begun := time.Now()
		if err := whole.Wait(turn); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("a turn after a minute: %v after %v", err, time.Since(begun))
		}
	})
}
