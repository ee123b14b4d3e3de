package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/mem"
)

// Whatever allocation is the first that is refused, while a model is loaded, its loop begun or a request served, that
// is one sentence, and nothing stays taken; with enough memory the answer is the same.
func TestRefusedAnywhere(t *testing.T) {
	probe := open(t, tiny, Config{})
	text := randomIDs(probe, 1, 100)
	want := greedy(t, probe, text, 4)
	store, err := diskcache.Open(diskcache.Config{Dir: t.TempDir(), Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	purposes := map[string]bool{}
	refused := func(limit uint64, err error) {
		t.Helper()
		var short *mem.LimitError
		if errors.As(err, &short) {
			purposes[short.Purpose] = true
		}
		if strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%d bytes: %q", limit, err)
		}
	}
	serve := func(limit uint64) (served bool) {
		budget := mem.NewBudget(limit, "a test")
		d := deviceOf(t, DeviceConfig{Threads: 1, Budget: budget})
		defer func() {
			if used := budget.Used(); used != 0 || budget.Peak() > limit {
				t.Errorf("%d bytes: %v are still taken, %d at most were", limit, budget.ByPurpose(), budget.Peak())
			}
		}()
		e, err := Open(tiny, Config{Device: d, Ctx: 128, Batch: 32, Shared: true})
		if err != nil {
			refused(limit, err)
			return false
		}
		defer e.Close()
		l, err := NewLoop(e, LoopConfig{Queue: 4, Disk: store})
		if err != nil {
			refused(limit, err)
			return false
		}
		defer l.Close()
		l.mu.Lock()
		l.spill.worth = func(int, uint64, time.Duration) bool { return true }
		l.mu.Unlock()
		r := greedyRequest(text, 4)
		if _, err := l.Submit(r); err != nil {
			refused(limit, err)
			return false
		}
		c := r.Sink.(*catcher)
		if res := c.wait(t); res.Err != nil || !slices.Equal(c.ids, want) {
			t.Errorf("%d bytes: %v, %v, want %v", limit, res.Err, c.ids, want)
		}
		return true
	}
	enough := uint64(1 << 16)
	for !serve(enough) {
		enough += enough / 8
	}
	below := enough - enough/9 // where it was refused, unless that was the first
	for range 40 {             // every step between them
		if mid := below + (enough-below)/2; serve(mid) {
			enough = mid
		} else {
			below = mid
		}
		if enough-below < 64 {
			break
		}
	}
	for limit := below; limit > below/2; limit -= below / 40 {
		if serve(limit) {
			t.Errorf("%d bytes are enough, and %d are not", limit, below)
		}
	}
	t.Log(purposes, enough)
	if len(purposes) < 2 {
		t.Errorf("only %v were refused: the test does not test that", purposes)
	}
}
