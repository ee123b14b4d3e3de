package engine

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sched"
)

// sleeper returns a loop that has a draft model and what was cached of a text, and sleeps.
func sleeper(t *testing.T, c Config) (*Loop, *mem.Budget) {
	t.Helper()
	c.Device = deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "a test")})
	c.Shared, c.Shift = true, true // so both have movers
	e, small := open(t, tiny, c), open(t, copyOf(t, testdata.Path(t, "archs/llama.gguf")), c)
	if err := e.DraftWith(small, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	l, err := NewLoop(e, LoopConfig{Queue: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	_, sink := submit(t, l, greedyRequest(randomIDs(e, 7, 100), 5))
	if r := sink.wait(t); r.Err != nil {
		t.Fatal(r.Err)
	}
	if err := l.Sleep(); err != nil {
		t.Fatal(err)
	}
	return l, c.Device.Budget()
}

// However much memory is lost while a model wakes, and at whatever time, it wakes, or sleeps on and gives all back.
func TestWakingWithLessMemory(t *testing.T) {
	t.Parallel()
	l, budget := sleeper(t, Config{Sequences: 2, Ctx: 256, Residency: model.Packed})
	asleep := budget.Used()
	limit := func(n uint64) { budget.SetLimit(n, "a test") }
	most := uint64(0) // taken while it wakes
	fails := map[bool]int{}
	check := func(what string, ctx context.Context, progress func(done, total uint64)) {
		t.Helper()
		err := l.Wake(ctx, progress)
		limit(1 << 30)
		fails[err != nil]++
		if err == nil {
			if l.asleep || budget.Used() != l.Bytes() {
				t.Errorf("%s: awake it takes %d bytes, and %d are taken", what, l.Bytes(), budget.Used())
			}
			if err := l.Sleep(); err != nil {
				t.Fatal(err)
			}
		} else if !strings.Contains(err.Error(), ".gguf: ") {
			t.Errorf("%s: %v", what, err)
		}
		if !l.asleep || budget.Used() != asleep || l.Bytes() != asleep {
			t.Fatalf("%s: %v; %d bytes are taken, it says %d, %d before", what, err, budget.Used(), l.Bytes(), asleep)
		}
		if _, err := l.Submit(greedyRequest(randomIDs(l.e, 7, 100), 1)); !errors.Is(err, ErrAsleep) {
			t.Errorf("%s: a request of a model that sleeps: %v", what, err)
		}
	}
	check("as it was", t.Context(), func(_, _ uint64) { most = max(most, budget.Used()) })
	for _, n := range []uint64{0, asleep + l.heldBytes - 1, asleep + l.heldBytes} {
		limit(n)
		check("from the beginning", t.Context(), nil)
	}
	for part := range uint64(24) {
		n := asleep + (most-asleep)*part/18
		check("while weights are read", t.Context(), func(uint64, uint64) { limit(n) })
		check("when they are read", t.Context(), func(uint64, uint64) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.calls = []func(){func() { limit(n) }} // before what Wake does then
		})
	}
	for part := range uint64(48) { // in small steps, near to what it takes
		check("while weights are read, nearly enough", t.Context(), func(uint64, uint64) { limit(most - part*(24<<10)) })
	}
	for more := range uint64(40) {
		check("when they are read, nearly enough", t.Context(), func(uint64, uint64) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.calls = []func(){func() { limit(budget.Used() + more<<9) }}
		})
	}
	if fails[true] < 20 || fails[false] < 5 {
		t.Errorf("it failed, or woke, as seldom as %v", fails)
	}
	ctx, cancel := context.WithCancel(t.Context())
	check("until nobody waits for it", ctx, func(uint64, uint64) { cancel() })
	if err := l.Wake(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("for nobody: %v", err)
	}
	check("for somebody", t.Context(), nil)
	// The draft model's file is another by now: the model is not awake without it.
	small := l.e.drafts.e.file.Name()
	if err := os.Chtimes(small, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := l.Wake(t.Context(), nil); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), small) || budget.Used() != asleep {
		t.Errorf("with another file: %v; %d bytes are taken, %d before", err, budget.Used(), asleep)
	}
}

// What waking needs is what it takes then. It is less by what the caches have already.
func TestNeedOfWaking(t *testing.T) {
	t.Parallel()
	l, budget := sleeper(t, Config{Sequences: 2, Ctx: 256, Residency: model.Packed})
	need := func() uint64 {
		t.Helper()
		n, err := l.Need(budget.Free())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	with, asleep := need(), budget.Used()
	if err := l.Wake(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Wake(t.Context(), nil); err != nil { // again
		t.Fatal(err)
	}
	took := budget.Used() - asleep
	if took > with || with-took > with/8 {
		t.Errorf("%d bytes are said to be needed, %d are taken", with, took)
	}
	cached := l.Status().KV.Cached
	if l.e.device.Trim(1 << 40); cached == 0 || l.Status().KV.Cached != 0 {
		t.Fatalf("%d bytes were cached, %d are", cached, l.Status().KV.Cached)
	}
	if err := l.Sleep(); err != nil {
		t.Fatal(err)
	}
	if without := need(); without != with+cached {
		t.Errorf("%d bytes are needed with %d cached, %d without", with, cached, without)
	}
	if n := l.Bytes(); n != 0 {
		t.Errorf("it takes %d bytes without anything cached", n)
	}
}

// A loop with requests does not sleep, and they go on.
func TestNoSleepWithRequests(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 1, Ctx: 512}, LoopConfig{})
	sink := newCatcher()
	begun := make(chan struct{})
	sink.on = func(n int) {
		if n == 1 {
			close(begun)
		}
	}
	r := greedyRequest(randomIDs(l.e, 7, 20), 200)
	r.Sink = sink
	if _, err := l.Submit(r); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := l.Sleep(); !errors.Is(err, errUsed) && len(sink.done) == 0 {
		t.Errorf("asleep with a request: %v", err)
	}
	if res := sink.wait(t); res.Err != nil || res.Generated != 200 {
		t.Errorf("%+v", res)
	}
}

// A mapped model leaves room for the pages of its file: half of what is free, and no more than the file has. Asleep it
// leaves none.
func TestRoomForPages(t *testing.T) {
	for _, more := range []uint64{1 << 20, 1 << 28} {
		c := Config{Ctx: 256, Shared: true, Residency: model.Mapped}
		c.Device = leastDevice(t, tiny, 1, c, more)
		l := openLoop(t, tiny, c, LoopConfig{})
		budget := c.Device.Budget()
		// At first half of what the keys and values of a full context leave.
		least, free := least(l.e.kv.Layout(), l.e.ctx), budget.Free()+l.e.hot.Bytes()+l.e.kv.Limit()+l.heldBytes
		if want := min(l.e.file.Size(), (free-least)/2); l.e.hot.Bytes() != want || budget.ByPurpose()[hotPurpose] != want {
			t.Errorf("with %d bytes free %d are for pages, want %d", free, l.e.hot.Bytes(), want)
		}
		if err := l.Sleep(); err != nil {
			t.Fatal(err)
		}
		if n := budget.ByPurpose()[hotPurpose]; n != 0 {
			t.Errorf("%d bytes are for pages of a model that sleeps", n)
		}
		if err := l.Wake(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		hot := budget.ByPurpose()[hotPurpose]
		if want := min(l.e.file.Size(), (budget.Free()+hot)/2); hot != want || l.e.hot.Bytes() != want || budget.Used() != l.Bytes() {
			t.Errorf("%d bytes are for pages, want %d; %d are taken, it says %d", hot, want, budget.Used(), l.Bytes())
		}
	}
}

// A closed loop is none of the device's: it is not waited for, and nothing is taken from it or given to it. Closing again
// is no fault.
func TestClosedLoops(t *testing.T) {
	d := device(t, 1)
	a, b := openLoop(t, tiny, Config{Device: d, Ctx: 128}, LoopConfig{}), openLoop(t, tiny, Config{Device: d, Ctx: 128}, LoopConfig{})
	if all := d.running(); !slices.Equal(all, []*Loop{a, b}) {
		t.Errorf("%d loops run", len(all))
	}
	d.load(a, sched.Load{Streams: time.Second, Target: time.Second})
	used := requestsBytes(b)
	a.pulse.beat.Store(1)
	a.pulse.work.Store(1)
	for range 2 {
		if a.Close(); !slices.Equal(d.running(), []*Loop{b}) || d.beside(nil) != (sched.Load{}) || d.Stalled() != 0 {
			t.Errorf("a closed loop is one of %d that run, and needs %+v", len(d.running()), d.beside(nil))
		}
	}
	if n := requestsBytes(b); n != used-a.heldBytes {
		t.Errorf("%d bytes are reserved for requests, %d before", n, used)
	}
	if n := a.give(1<<40, idle); n != 0 {
		t.Errorf("%d bytes are taken from a closed loop", n)
	}
	if err := a.Between(func() error { return nil }); !errors.Is(err, ErrClosing) {
		t.Errorf("between two passes of a closed loop: %v", err)
	}
}
