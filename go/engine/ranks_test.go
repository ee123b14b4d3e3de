package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// inThreads returns two ranks, of which the other has memory of its own.
func inThreads(t *testing.T, path string, b *mem.Budget) (r *Ranks, wait func() error) {
	t.Helper()
	r, wait, err := InThreads(context.Background(), func(bool) (*model.File, error) { return openBoth(path) }, DeviceConfig{Threads: 2, Budget: b}, 2)
	if err != nil {
		t.Fatal(err)
	}
	r.Lost = func(err error) { t.Errorf("lost: %v", err) }
	return r, wait
}

func opened(t *testing.T, path string, c Config) (*Engine, error) {
	t.Helper()
	f, err := openBoth(path)
	if err != nil {
		t.Fatal(err)
	}
	c.Device = device(t, 1)
	return New(f, c)
}

// What cannot be divided is refused, and ranks have one model at a time, but another after it.
func TestOneModelOfRanks(t *testing.T) {
	r, wait := inThreads(t, tiny, testBudget())
	if _, err := opened(t, tiny, Config{Ranks: r, Residency: model.Streamed}); !errors.Is(err, errDivided) {
		t.Errorf("streamed: %v", err)
	}
	prompt := []int32{1, 2, 3, 4, 5}
	want := greedy(t, open(t, tiny, Config{}), prompt, 20)
	for range 2 {
		e, err := opened(t, tiny, Config{Ranks: r})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := opened(t, tiny, Config{Ranks: r}); err == nil || !strings.Contains(err.Error(), "one at a time") {
			t.Errorf("two at a time: %v", err)
		}
		if got := greedy(t, e, prompt, 20); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		e.Close()
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// Keys and values are as many as the rank with the least memory has room for, which reserves it.
func TestMemoryOfRanks(t *testing.T) {
	r, wait := inThreads(t, tiny, testBudget())
	e, err := opened(t, tiny, Config{Ranks: r, Shared: true, Sequences: 64})
	if err != nil {
		t.Fatal(err)
	}
	all := e.kv.Most()
	e.Close()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	for _, part := range []uint64{2, 4} {
		little := mem.NewBudget(all/part+4<<20, "test")
		r, wait := inThreads(t, tiny, little)
		e, err := opened(t, tiny, Config{Ranks: r, Shared: true, Sequences: 64})
		if err != nil {
			t.Fatal(err)
		}
		if e.kv.Most() >= all {
			t.Errorf("%d bytes of keys and values, %d where the other has enough memory", e.kv.Most(), all)
		}
		e.Close()
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
	for bytes, words := range map[uint64]string{1 << 16: "this rank's part needs", 8 << 20: "keys and values"} {
		r, wait = inThreads(t, tiny, mem.NewBudget(bytes, "test"))
		_, err := opened(t, tiny, Config{Ranks: r, Shared: true, KVBytes: 64 << 20})
		if err == nil || !strings.Contains(err.Error(), "rank 1") || !strings.Contains(err.Error(), words) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
		_ = wait()
	}
}

// The watch of the ranks does not come between the layers of a pass, where their answers would be late.
func TestWatchBetweenPasses(t *testing.T) {
	path := testdata.Path(t, "archs/t5.gguf")
	r, wait := inThreads(t, path, testBudget())
	c := Config{Sequences: 2, Ctx: 192, KV: kvcache.Both(kvcache.F32), Ranks: r}
	e, err := opened(t, path, c)
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	ended := make(chan error)
	go func() {
		var err error
		for !stop.Load() && err == nil {
			err = e.device.inTurn(func() error { return e.lead.Ping(0, pongAfter) })
		}
		ended <- err
	}()
	for range 8 {
		greedy(t, e, []int32{5, 9, 13, 17, 21, 25, 29, 33}, 8)
	}
	stop.Store(true)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	e.Close()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// Where a model that wakes has its weights, and no memory for keys and values, all ranks sleep on.
func TestWakeOfRanksWithoutRoom(t *testing.T) {
	theirs, ours := testBudget(), mem.NewBudget(1<<30, "a test")
	r, wait := inThreads(t, tiny, theirs)
	t.Cleanup(func() {
		if err := wait(); err != nil {
			t.Error(err)
		}
	})
	c := Config{Ctx: 2048, Shared: true, Ranks: r, Device: deviceOf(t, DeviceConfig{Threads: 1, Budget: ours})}
	l := openLoop(t, tiny, c, LoopConfig{})
	slept := func() uint64 {
		if err := l.Sleep(); err != nil {
			t.Fatal(err)
		}
		return theirs.Used()
	}
	awake := theirs.Used()
	asleep := slept()
	if asleep >= awake {
		t.Fatalf("asleep the other rank has %d bytes, awake %d", asleep, awake)
	}
	if err := l.Wake(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	need := ours.Used()
	if used := slept(); used != asleep {
		t.Fatalf("asleep again the other rank has %d bytes, before %d", used, asleep)
	}
	err := l.Wake(t.Context(), func(done, total uint64) {
		if done == total {
			ours.SetLimit(need-1, "a test")
		}
	})
	if err == nil || !strings.Contains(err.Error(), "keys and values") {
		t.Fatalf("without room it wakes: %v", err)
	}
	if used := theirs.Used(); used != asleep {
		t.Errorf("the other rank has %d bytes, asleep %d", used, asleep)
	}
	ours.SetLimit(1<<30, "a test")
	if err := l.Wake(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, s := submit(t, l, greedyRequest([]int32{1, 2, 3}, 5)); s.wait(t).Err != nil || theirs.Used() != awake {
		t.Errorf("awake the other rank has %d bytes, before %d", theirs.Used(), awake)
	}
}

// Layers that draft are left out of a model that is divided by layers, and the engine says so.
func TestNoDraftsByLayers(t *testing.T) {
	path := nextOf(t, "glm4moe", 2)
	r := divided(t, path, 2)
	r.Layers = true
	e := open(t, path, Config{Ctx: 128, MTP: true, Ranks: r})
	if err := e.MTP(); e.mtp != nil || !errors.Is(err, errByLayers) {
		t.Errorf("by layers: %v", err)
	}
	prompt := randomIDs(e, 3, 40)
	if got, want := greedy(t, e, prompt, 20), greedy(t, open(t, path, Config{Ctx: 128}), prompt, 20); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A rank that is gone when the weights are released is reported, though the engine is closed before the watch looks.
func TestRankIsLostInSleep(t *testing.T) {
	r, wait := inThreads(t, tiny, testBudget())
	var told []error
	r.Lost = func(err error) { told = append(told, err) }
	e, err := opened(t, tiny, Config{Ranks: r})
	if err != nil {
		t.Fatal(err)
	}
	r.Group.Break()
	e.sleep()
	e.Close()
	if len(told) != 1 || !errors.Is(told[0], ErrRanks) {
		t.Errorf("told of %v, want %v once", told, ErrRanks)
	}
	if err := wait(); err == nil {
		t.Error("the other rank has ended without an error")
	}
}
