package engine

import (
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/mem"
)

// Models come and go, requests are cancelled, the limit changes: a thousand times in any
// order, with texts on disk. The budget is never exceeded, and in the end all memory is back.
func TestChurn(t *testing.T) {
	steps := 1000
	if testing.Short() {
		steps = 100
	}
	const limit = 24 << 20
	budget := mem.NewBudget(limit, "a test")
	d := deviceOf(t, DeviceConfig{Threads: 2, Budget: budget})
	rng := rand.New(rand.NewPCG(4, 2))
	disk := diskcache.Config{Dir: t.TempDir(), Limit: 2 << 20, Log: func(line string) { t.Error(line) }}
	store, err := diskcache.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	probe := open(t, tiny, Config{})
	type running struct {
		*Ticket
		c *catcher
	}
	var loops []*Loop
	var requests []running
	pick := func() *Loop { return loops[rng.IntN(len(loops))] }
	count := map[string]int{}
	shut := func(l *Loop) {
		count["restores"] += int(l.Status().Counts.Restores)
		l.Close()
		if err := l.e.Close(); err != nil {
			t.Error(err)
		}
	}
	floor := uint64(0)
	for i := range steps {
		switch op := rng.IntN(10); {
		case len(loops) == 0 || op == 0 && len(loops) < 4:
			c := Config{Device: d, Sequences: 1 + rng.IntN(4), Ctx: 64 + rng.IntN(200), Batch: 32, Shared: true, KVBytes: uint64(rng.IntN(4)) << 20}
			e, err := Open(tiny, c)
			if err != nil {
				count["refused models"]++
				var short *mem.LimitError
				if !errors.As(err, &short) && c.KVBytes == 0 {
					t.Fatalf("step %d: %v", i, err)
				}
				continue
			}
			l, err := NewLoop(e, LoopConfig{Queue: 8, Disk: store})
			if err != nil {
				e.Close()
				continue
			}
			l.spill.worth = func(int, uint64, time.Duration) bool { return true }
			loops = append(loops, l)
			count["models"]++
		case op == 1:
			k := rng.IntN(len(loops))
			shut(loops[k])
			loops = append(loops[:k], loops[k+1:]...)
		case op == 2 && len(requests) > 0:
			requests[rng.IntN(len(requests))].Cancel()
			count["cancelled"]++
		case op == 3:
			r := Reading{Limit: limit - rng.Uint64N(limit/2), Reason: "a test"}
			d.Adjust(r)
			if budget.Over() > 0 && d.Pressure() != Critical {
				t.Fatalf("step %d: %d bytes over the limit, pressure %v", i, budget.Over(), d.Pressure())
			}
			for range calmReadings {
				d.Adjust(Reading{Limit: limit, Reason: "a test"})
			}
		default:
			r := greedyRequest(randomIDs(probe, rng.Uint64N(6), 1+rng.IntN(150)), rng.IntN(20))
			r.Priority = rng.IntN(3) - 1
			ticket, err := pick().Submit(r)
			if err != nil {
				count["refused requests"]++
				continue
			}
			requests = append(requests, running{ticket, r.Sink.(*catcher)})
			count["requests"]++
		}
		if used := store.Status().Bytes; used > disk.Limit {
			t.Fatalf("step %d: %d bytes are on disk, of %d", i, used, disk.Limit)
		}
		if used, peak := budget.Used(), budget.Peak(); used > limit || peak > limit {
			t.Fatalf("step %d: %d bytes are taken, %d at most, of %d", i, used, peak, limit)
		}
		if len(requests) > 20 {
			requests[0].c.wait(t)
			requests = requests[1:]
		}
		if i == steps/4 { // all code ran, and the heap has its size
			debug.FreeOSMemory()
			floor = mem.Anonymous()
		}
	}
	for _, l := range loops {
		shut(l)
	}
	for _, r := range requests {
		r.c.wait(t)
	}
	if budget.Used() != 0 {
		t.Errorf("%v are still taken", budget.ByPurpose())
	}
	debug.FreeOSMemory()
	if now := mem.Anonymous(); now > floor+8<<20 {
		t.Errorf("%s are in memory, %s after a quarter of the steps", mem.FormatBytes(now), mem.FormatBytes(floor))
	}
	if count["models"] == 0 || count["cancelled"] == 0 || count["requests"] == 0 || count["restores"] == 0 ||
		store.Status().Removed == 0 && !testing.Short() {
		t.Errorf("%v: the test does not test that", count)
	}
	t.Logf("%v, %+v", count, store.Status())
}
