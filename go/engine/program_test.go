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
		if limit < full && readings > 1 {
			t.Errorf("memory was short for %d readings", readings)
		}
		d.Close()
	}
}
