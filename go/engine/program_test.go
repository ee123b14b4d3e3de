package engine

import (
	"runtime/debug"
	"testing"

	"github.com/quern-llm/quern/go/mem"
)

func counted(t *testing.T, limit uint64) *Device {
	t.Helper()
	d, err := NewDevice(DeviceConfig{Threads: 1, Budget: mem.NewBudget(limit, "test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if err := d.CountProgram(); err != nil {
		t.Fatal(err)
	}
	return d
}

// Go's heap may grow to what the budget leaves to it: less when others reserve, more when the limit rises, and never
// less than it needs.
func TestHeapLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	d := counted(t, 4<<30)
	limit := func() uint64 { return uint64(debug.SetMemoryLimit(-1)) }
	near := func(what string, want uint64) {
		t.Helper()
		if got := limit(); got > want || got < want-want/8 {
			t.Errorf("%s: the heap may have %s, want %s", what, mem.FormatBytes(got), mem.FormatBytes(want))
		}
	}
	near("at first", 4<<30)
	r, err := d.Budget().Reserve("keys and values", 2<<30)
	if err != nil {
		t.Fatal(err)
	}
	answers, _ := d.Budget().Reserve("answers", 64<<20) // which are in the heap
	cache := uint64(64 << 20)
	d.Count("grammars", func() uint64 { return cache }) // so are these
	reading := Reading{Limit: 4 << 30, Reason: "test"}
	d.Adjust(reading)
	near("with keys and values", 2<<30)
	answers.Release()
	reading.Limit = 8 << 30
	d.Adjust(reading)
	near("with a larger limit", 6<<30)
	reading.Limit = 1 << 30
	d.Adjust(reading)
	if got := limit(); got < 32<<20 {
		t.Errorf("the heap may have %s, which it cannot do with", mem.FormatBytes(got))
	}
	r.Release()
	d.Close()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("afterwards the heap may have %d, want %d", got, before)
	}
}

// What a burst of requests leaves in the heap is given back to the system some readings later, and at once if memory
// is short.
func TestLitterIsCollected(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // as if the collector saw no reason
	for _, limit := range []uint64{16 << 30, 256 << 20} {
		d := counted(t, 16<<30)
		litter := make([][]byte, 512)
		for i := range litter {
			litter[i] = make([]byte, 1<<20)
		}
		clear(litter)
		full, readings := heapBytes(), 0
		for ; readings < 10 && heapBytes() > full-400<<20; readings++ {
			d.Adjust(Reading{Limit: limit, Reason: "test"})
		}
		if left := heapBytes(); left > full-400<<20 {
			t.Errorf("limit %s: %s are left of %s", mem.FormatBytes(limit), mem.FormatBytes(left), mem.FormatBytes(full))
		}
		if limit < full && readings > 1 || limit > full && readings < collectEvery {
			t.Errorf("limit %s: it was collected after %d readings", mem.FormatBytes(limit), readings)
		}
		d.Close()
	}
}

// A heap without litter is not collected, nor is one that nobody counts.
func TestNothingIsCollected(t *testing.T) {
	for _, counts := range []bool{false, true} {
		d := deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(16<<30, "test")})
		if counts {
			d = counted(t, 16<<30)
			if err := d.CountProgram(); err != nil || d.gc.base == 0 { // again
				t.Error(err)
			}
		}
		want := 0
		for range 3 {
			if d.Adjust(Reading{Limit: 16 << 30, Reason: "test"}); counts {
				want++
			}
		}
		if d.gc.since != want {
			t.Errorf("counted %v: %d readings since the last collection, want %d", counts, d.gc.since, want)
		}
	}
}

// The heap is littered where it is much larger than after the last collection: at once if memory is short, else some
// readings later, once it grows no more.
func TestLittered(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		base  uint64
		sizes []uint64 // at each reading
		short bool
		want  int // the reading, counted from 1; 0: never
	}{
		"little":           {100 * mb, []uint64{264 * mb, 264 * mb, 264 * mb, 264 * mb, 264 * mb, 264 * mb}, false, 0},
		"much":             {100 * mb, []uint64{264*mb + 1, 264*mb + 1, 264*mb + 1, 264*mb + 1, 264*mb + 1}, false, collectEvery},
		"growing":          {100 * mb, []uint64{300 * mb, 301 * mb, 302 * mb, 303 * mb, 304 * mb, 305 * mb, 305 * mb}, false, 7},
		"shrinking":        {100 * mb, []uint64{500 * mb, 490 * mb, 480 * mb, 470 * mb, 460 * mb}, false, collectEvery},
		"short":            {100 * mb, []uint64{264*mb + 1}, true, 1},
		"short, growing":   {100 * mb, []uint64{200 * mb, 264 * mb, 300 * mb}, true, 3},
		"short, of little": {100 * mb, []uint64{264 * mb, 264 * mb, 264 * mb, 264 * mb, 264 * mb, 264 * mb}, true, 0},
	} {
		h, got := goHeap{base: c.base}, 0
		for i, n := range c.sizes {
			if h.littered(n, c.short) && got == 0 {
				got = i + 1
			}
		}
		if got != c.want {
			t.Errorf("%s: littered at reading %d, want %d", name, got, c.want)
		}
	}
}

// The heap's limit is what the budget leaves, by sums: beside what is not of the heap, an allowance and a margin; or what
// is alive and some more, where that is more.
func TestHeapLimitBySum(t *testing.T) {
	b := mem.NewBudget(8<<30, "a test")
	d := deviceOf(t, DeviceConfig{Threads: 1, Budget: b})
	want := uint64(8<<30 - 8<<30/heapMargin - programBytes)
	check := func(what string, live uint64) {
		t.Helper()
		if got := d.heapLimit(live); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	reserve := func(purpose string, n uint64) {
		r, err := b.Reserve(purpose, n)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Release)
	}
	check("nothing is taken", 1000)
	reserve("keys and values", 1<<30)
	want -= 1 << 30
	check("what is not of the heap", 1000)
	for _, purpose := range append(heapPurposes, programPurpose) {
		reserve(purpose, 1<<20)
	}
	check("what is of the heap", 1000)
	d.Count("grammars", func() uint64 { return 1 << 28 })
	d.measure()
	check("what is counted apart", 1000)
	want = 8<<30*5/4 + littleGarbage/2
	check("much is alive", 8<<30)
	reserve("answers", 4<<30) // more than the heap has
	if got := ProgramBytes(b); got != programBytes {
		t.Errorf("the program takes %d bytes beside what is counted, want the allowance of %d", got, programBytes)
	}
}
