package mem

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

func TestRefusal(t *testing.T) {
	b := NewBudget(4e9, "cgroup memory.max")
	if _, err := b.Reserve("activations", 900e6); err != nil {
		t.Fatal(err)
	}
	_, err := b.Reserve("packed weights", 4.9e9)
	const want = "no memory for packed weights: want 4.9 GB, 3.1 GB of the 4.0 GB limit are free (cgroup memory.max); use a smaller model or context, or raise the limit"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	var limit *LimitError
	if !errors.As(err, &limit) || limit.Need != 4.9e9 || limit.Free != 3.1e9 {
		t.Errorf("as a LimitError: %+v", limit)
	}
	if _, err = b.Reserve("packed weights", 3.1e9+1); err == nil || !strings.Contains(err.Error(), "want 3100000001 bytes, 3100000000 of") {
		t.Errorf("one byte too many: %v", err)
	}
	if _, err = b.Reserve("packed weights", 3.1e9); err != nil {
		t.Errorf("all that is free: %v", err)
	}
	if _, err = b.Reserve("one more", math.MaxUint64); err == nil {
		t.Error("the sum overflowed")
	}
}

func TestLender(t *testing.T) {
	b := NewBudget(100, "--memory")
	lend := b.Lender("sound")
	free, err := lend(60)
	if err != nil || b.ByPurpose()["sound"] != 60 {
		t.Fatalf("%v, %v", err, b.ByPurpose())
	}
	if _, err := lend(41); !errors.As(err, new(*LimitError)) {
		t.Errorf("more than there is: %v", err)
	}
	if free(); b.Used() != 0 {
		t.Errorf("%d bytes are not given back", b.Used())
	}
	if b = nil; b.Lender("sound") != nil {
		t.Error("nothing is counted of no budget")
	}
}

func TestBudgetAlloc(t *testing.T) {
	b := NewBudget(10<<20, "--memory")
	r, err := b.Alloc("packed weights", 6<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Bytes()) != 6<<20 || b.Used() != 6<<20 || b.ByPurpose()["packed weights"] != 6<<20 {
		t.Errorf("%d bytes, used %d, %v", len(r.Bytes()), b.Used(), b.ByPurpose())
	}
	if _, err := b.Alloc("KV blocks", 6<<20); err == nil {
		t.Error("12 MiB of 10")
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if b.Used() != 0 || b.Free() != 10<<20 || len(b.ByPurpose()) != 0 {
			t.Errorf("after close: used %d, %v", b.Used(), b.ByPurpose())
		}
	}
	if b.Peak() != 6<<20 {
		t.Errorf("peak %d", b.Peak())
	}
	// What the kernel refuses is given back.
	big := NewBudget(math.MaxUint64, "none")
	for _, n := range []uint64{0, 1 << 62} {
		if _, err := big.Alloc("dreams", n); err == nil || big.Used() != 0 {
			t.Errorf("%d bytes: %v, used %d", n, err, big.Used())
		}
	}
}

// Any row of calls leaves the sums as a plain account has them.
func TestBudgetAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	purposes := []string{"packed weights", "KV blocks", "activations"}
	for round := range 200 {
		limit := rng.Uint64N(1000)
		b := NewBudget(limit, "test")
		var held []*Reservation
		want := map[string]uint64{}
		var sum, peak uint64
		for step := range 100 {
			if len(held) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(held))
				r := held[i]
				sum -= r.Bytes()
				want[r.purpose] -= r.Bytes()
				r.Release()
				r.Release()
				held = append(held[:i], held[i+1:]...)
			} else {
				n, purpose := rng.Uint64N(200), purposes[rng.IntN(len(purposes))]
				r, err := b.Reserve(purpose, n)
				if (err == nil) != (sum+n <= limit) {
					t.Fatalf("round %d step %d: %d more of %d/%d: %v", round, step, n, sum, limit, err)
				}
				if err == nil {
					held = append(held, r)
					sum += n
					want[purpose] += n
				}
			}
			peak = max(peak, sum)
			maps.DeleteFunc(want, func(_ string, n uint64) bool { return n == 0 })
			got := b.ByPurpose()
			maps.DeleteFunc(got, func(_ string, n uint64) bool { return n == 0 })
			if b.Used() != sum || b.Free() != limit-sum || b.Peak() != peak || !maps.Equal(got, want) {
				t.Fatalf("round %d step %d: used %d peak %d %v, want %d %d %v", round, step, b.Used(), b.Peak(), got, sum, peak, want)
			}
		}
	}
}

func TestBudgetConcurrent(t *testing.T) {
	b := NewBudget(1000, "test")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 0))
			purpose := string(rune('a' + g%3))
			for range 2000 {
				r, err := b.Reserve(purpose, rng.Uint64N(400))
				if used := b.Used(); used > 1000 {
					t.Errorf("used %d of 1000", used)
				}
				if err == nil {
					var both sync.WaitGroup // two owners that both clean up
					both.Go(r.Release)
					r.Release()
					both.Wait()
				}
				b.ByPurpose()
			}
		})
	}
	wg.Wait()
	if b.Used() != 0 || len(b.ByPurpose()) != 0 || b.Peak() > 1000 || b.Peak() == 0 {
		t.Errorf("in the end: used %d, peak %d, %v", b.Used(), b.Peak(), b.ByPurpose())
	}
}

func TestRSS(t *testing.T) {
	before := RSS()
	r, err := Alloc(64<<20, "tests")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Prefault(2); err != nil {
		t.Fatal(err)
	}
	with := RSS()
	r.Close()
	after, peak := RSS(), PeakRSS()
	if with < before+48<<20 || after+48<<20 > with || peak+16<<20 < with { // the kernel counts in batches
		t.Errorf("RSS %d, with 64 MiB %d, after %d, peak %d", before, with, after, peak)
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 1499: "1.5 kB", 999949: "999.9 kB", 999950: "1.0 MB",
		4.9e9: "4.9 GB", 4 << 30: "4.3 GB", 999_999_999_999: "1.0 TB", 5e15: "5.0 PB", math.MaxUint64: "18.4 EB",
	} {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %q, want %q", n, got, want)
		}
	}
}

// A reservation that grows and shrinks counts as one that was always so.
func TestResize(t *testing.T) {
	b := NewBudget(100, "a test")
	other, err := b.Reserve("others", 40)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Reserve("answers", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{10, 60, 5, 60} {
		if err := r.Resize(n); err != nil || b.Used() != 40+n || r.Bytes() != n || b.ByPurpose()["answers"] != n {
			t.Errorf("%d: %v, used %d", n, err, b.Used())
		}
	}
	var full *LimitError
	if err := r.Resize(61); !errors.As(err, &full) || full.Free != 60 || r.Bytes() != 60 || b.Used() != 100 {
		t.Errorf("beyond the limit: %v, %d used", err, b.Used())
	}
	r.Release()
	r.Release()
	if _, there := b.ByPurpose()["answers"]; there || b.Used() != 40 || b.Peak() != 100 {
		t.Errorf("released: %d used, peak %d, %v", b.Used(), b.Peak(), b.ByPurpose())
	}
	other.Release()
}

// A limit that falls below what is taken leaves nothing free, and what is released counts.
func TestSetLimit(t *testing.T) {
	b := NewBudget(100, "a test")
	kept, err := b.Reserve("weights", 60)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := b.Reserve("caches", 40)
	if err != nil {
		t.Fatal(err)
	}
	b.SetLimit(70, "a smaller one")
	if b.Free() != 0 || b.Over() != 30 {
		t.Errorf("%d bytes are free, %d over; want 0 and 30", b.Free(), b.Over())
	}
	if _, err := b.Reserve("more", 1); err == nil || !strings.Contains(err.Error(), "0 B of the 70 B limit are free (a smaller one)") {
		t.Errorf("a byte more: %v", err)
	}
	if err := cache.Resize(41); err == nil {
		t.Error("it grew beyond the limit")
	}
	for _, n := range []uint64{40, 20, 10} {
		if err := cache.Resize(n); err != nil {
			t.Errorf("shrinking to %d: %v", n, err)
		}
	}
	if b.Free() != 0 || b.Over() != 0 || b.Used() != 70 {
		t.Errorf("%d free, %d over, %d used; want 0, 0, 70", b.Free(), b.Over(), b.Used())
	}
	b.SetLimit(200, "a larger one")
	if err := cache.Resize(140); err != nil || b.Free() != 0 {
		t.Errorf("all of the larger limit: %v, %d free", err, b.Free())
	}
	kept.Set(100) // measured, not asked for
	if b.Over() != 40 || b.ByPurpose()["weights"] != 100 {
		t.Errorf("%d over, %v", b.Over(), b.ByPurpose())
	}
	kept.Release()
	cache.Release()
	if b.Used() != 0 || len(b.ByPurpose()) != 0 {
		t.Errorf("%d are still taken: %v", b.Used(), b.ByPurpose())
	}
}
