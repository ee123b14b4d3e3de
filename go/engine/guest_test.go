package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/sched"
)

// A guest without requests beside it goes on at once, and stays away from its CPUs no longer than it says while there are some.
func TestGuestGivesWay(t *testing.T) {
	d := device(t, 1)
	l := openLoop(t, tiny, Config{Device: d}, LoopConfig{})
	alone := l.e
	_, first := submit(t, l, greedyRequest([]int32{1, 5, 9}, 60))
	if r := first.wait(t); r.Err != nil {
		t.Fatal(r.Err)
	}
	const turn = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan struct{})
	turns, beside, whole := 0, 0, 0
	over := errors.New("over")
	go func() {
		defer close(waited)
		err := d.Guest(ctx, func(g *Guest) error {
			for ctx.Err() == nil {
				if g.Pool() != alone.device.pool {
					t.Error("a guest has other threads")
				}
				time.Sleep(turn) // as if it computed
				turns++
				busy, was := d.quiet() != nil, time.Now()
				g.Between()
				waited := time.Since(was)
				if !busy {
					continue
				}
				beside++
				if d.quiet() == nil || ctx.Err() != nil {
					continue // which ended the waiting
				}
				whole++
				if waited < (guestPart-1)*turn {
					t.Errorf("the guest waited for %v after a turn of %v or more", waited, turn)
				}
			}
			return over
		})
		if !errors.Is(err, over) {
			t.Errorf("error %v", err)
		}
	}()
	time.Sleep(3 * turn)
	request := greedyRequest([]int32{1, 5, 9}, 60)
	c := request.Sink.(*catcher)
	c.on = func(int) { time.Sleep(turn / 4) } // it is slow enough for several turns of the guest
	submit(t, l, request)
	r := c.wait(t)
	cancel()
	<-waited
	if r.Err != nil || !slices.Equal(c.ids, first.ids) {
		t.Errorf("beside a guest: %v, %v, want %v", c.ids, r.Err, first.ids)
	}
	if beside == 0 {
		t.Errorf("in %d turns the guest never gave way", turns)
	}
	// The tokens' sleeps alone are longer than one wait: the guest has turns while there is a request, and few of them.
	t.Logf("%d turns, %d of them beside the request, %d with the whole wait, in %v", turns, beside, whole, r.Usage.Decode)
	if len(d.loads) == 0 && d.hushed != nil {
		t.Error("somebody waits for the end of no requests")
	}
}

// What a guest waits for ends with its context, and with the requests beside it.
func TestGuestWaitsNoLonger(t *testing.T) {
	d := device(t, 1)
	l := &Loop{} // whose load is the test's alone
	for name, end := range map[string]func(cancel func()){
		"context":  func(cancel func()) { cancel() },
		"requests": func(func()) { d.load(l, sched.Load{}) },
	} {
		d.load(l, sched.Load{Streams: 1})
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		time.AfterFunc(50*time.Millisecond, func() { end(cancel) })
		if err := d.Guest(ctx, func(g *Guest) error {
			g.since = start.Add(-time.Hour) // so it would wait for 9
			g.Between()
			return nil
		}); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < 40*time.Millisecond || took > 20*time.Second {
			t.Errorf("%s: the guest waited for %v", name, took)
		}
		d.load(l, sched.Load{})
		cancel()
	}
}

// What others do in a guest's turn, which it has given away, is done.
func TestGuestAside(t *testing.T) {
	d := device(t, 1)
	err := d.Guest(t.Context(), func(g *Guest) error {
		g.Aside(func() {
			if err := d.inTurn(func() error { return nil }); err != nil {
				t.Error(err)
			}
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
