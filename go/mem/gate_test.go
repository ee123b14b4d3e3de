package mem

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const unit = 1 << 14

func entered(t *testing.T, g *Gate, n uint64) *Pass {
	t.Helper()
	p, err := g.Enter(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What is admitted at a time is within the share and reserved from the budget; others wait in the order of arrival,
// also those that would fit.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(8000*unit, "test")
		g := NewGate(b, "work", 2, nil) // 3000 for large work, 1000 for small, which is up to 62
		first := entered(t, g, 2000*unit)
		var mu sync.Mutex
		var order []uint64
		var wg sync.WaitGroup
		for _, n := range []uint64{1500 * unit, 800 * unit, 2000 * unit} {
			wg.Go(func() {
				p := entered(t, g, n)
				mu.Lock()
				order = append(order, n)
				mu.Unlock()
				time.Sleep(time.Second)
				p.Release()
			})
			synctest.Wait()
		}
		if order != nil || b.Used() != 2000*unit {
			t.Errorf("%v went ahead, %d bytes are reserved", order, b.Used())
		}
		small := entered(t, g, 62*unit) // waits for none of them
		if got := b.ByPurpose()["work"]; got != 2062*unit {
			t.Errorf("%d bytes are reserved", got)
		}
		small.Release()
		first.Release()
		wg.Wait()
		if !slices.Equal(order, []uint64{1500 * unit, 800 * unit, 2000 * unit}) && !slices.Equal(order, []uint64{800 * unit, 1500 * unit, 2000 * unit}) { // those two fit together
			t.Errorf("the order was %v", order)
		}
		if b.Used() != 0 {
			t.Errorf("%d bytes are left", b.Used())
		}
	})
}

// Who leaves does not hold up those behind.
func TestGateLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(8000*unit, "test")
		g := NewGate(b, "work", 2, nil)
		first := entered(t, g, 2500*unit)
		ctx, leave := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		left := make(chan error, 1)
		go func() { _, err := g.Enter(ctx, 2000*unit); left <- err }()
		synctest.Wait()
		done := make(chan *Pass, 1)
		go func() { done <- entered(t, g, 500*unit) }()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("one went ahead of the first that waits")
		}
		leave(gone)
		if err := <-left; err != gone {
			t.Errorf("got %v", err)
		}
		(<-done).Release()
		first.Release()
		if b.Used() != 0 {
			t.Errorf("%d bytes are left", b.Used())
		}
	})
}

// Work that is larger than the share is admitted alone; what the budget can never hold is refused, and what it
// cannot hold now, if nothing can be spared.
func TestGateLarge(t *testing.T) {
	b := NewBudget(8000*unit, "test")
	spared := uint64(0)
	other, _ := b.Reserve("other", 5000*unit)
	g := NewGate(b, "work", 2, func(n uint64) uint64 {
		spared += n
		if n > 3000*unit {
			return 0
		}
		other.Set(other.Bytes() - n)
		return n
	})
	var short *LimitError
	if _, err := g.Enter(t.Context(), 8001*unit); !errors.As(err, &short) || short.Need <= short.Limit {
		t.Errorf("got %v", err)
	}
	entered(t, g, 50*unit).Release() // is small, and has its share
	p := entered(t, g, 4000*unit)
	if spared != 1000*unit || b.Used() != 8000*unit {
		t.Errorf("%d were spared, %d are used", spared, b.Used())
	}
	p.Shrink(3000 * unit)
	p.Shrink(3500 * unit)
	if b.Used() != 7000*unit {
		t.Errorf("%d are used", b.Used())
	}
	p.Release()
	p.Release()
	if _, err := g.Enter(t.Context(), 7500*unit); !errors.As(err, &short) || short.Need > short.Limit {
		t.Errorf("got %v", err)
	}
	entered(t, g, 3000*unit).Release()
	other.Set(9000 * unit)
	entered(t, g, 50*unit).Release() // little is too little to matter
	var none *Gate
	entered(t, none, 1<<60).Release()
}
