package engine

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// A loop that sleeps holds only what its texts have left, and continues from that with the same text.
func TestSleep(t *testing.T) {
	d := deviceOf(t, DeviceConfig{Threads: 2, Budget: mem.NewBudget(1<<30, "a test")})
	floor := d.Budget().Used()
	l := openLoop(t, tiny, Config{Device: d, Sequences: 4, Ctx: 256, Residency: model.Packed, Shift: true}, LoopConfig{Queue: 8})
	prompt := randomIDs(l.e, 7, 100)
	_, c := submit(t, l, greedyRequest(prompt, 20))
	if r := c.wait(t); r.Err != nil {
		t.Fatal(r.Err)
	}
	want, awake := c.ids, l.Bytes()
	if awake != d.Budget().Used()-floor {
		t.Errorf("it takes %d bytes, and %d are taken", awake, d.Budget().Used()-floor)
	}
	for range 2 {
		if err := l.Sleep(); err != nil {
			t.Fatal(err)
		}
	}
	parked := l.Status().KV
	if n := d.Budget().Used() - floor; n != l.Bytes() || n != parked.Cached || n == 0 || n*4 > awake {
		t.Errorf("asleep it takes %d bytes of %d: %d are taken, %d cached", l.Bytes(), awake, n, parked.Cached)
	}
	if _, err := l.Submit(greedyRequest(prompt, 1)); !errors.Is(err, ErrAsleep) {
		t.Errorf("a request while it sleeps: %v", err)
	}
	if err := d.SetThreads(1, machine.Placement{}); err != nil {
		t.Fatal(err)
	}
	need, err := l.Need(1 << 30)
	if err != nil || need == 0 {
		t.Fatal(need, err)
	}
	// Where there is no memory it sleeps on.
	limit, _ := d.Budget().Limit()
	d.Budget().SetLimit(d.Budget().Used()+need-1, "a test")
	var fit *FitError
	if err := l.Wake(t.Context(), nil); !errors.As(err, &fit) {
		t.Errorf("woken without memory: %v", err)
	}
	d.Budget().SetLimit(d.Budget().Used()+need, "a test")
	if err := l.Wake(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n := d.Budget().Used() - floor; n != l.Bytes() {
		t.Errorf("awake it takes %d bytes, and %d are taken", l.Bytes(), n)
	}
	d.Budget().SetLimit(limit, "a test")
	_, c = submit(t, l, greedyRequest(prompt, 20))
	if r := c.wait(t); r.Err != nil || !slices.Equal(c.ids, want) || r.Usage.CachedTokens < 64 {
		t.Errorf("afterwards %v, %d tokens in the cache; %v, want %v", r.Err, r.Usage.CachedTokens, c.ids, want)
	}
	if err := l.Sleep(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.e.Close()
	if n := d.Budget().Used(); n != floor {
		t.Errorf("%d bytes are taken in the end, %d at first", n, floor)
	}
}

// What wakes can run a full context, also where streamed weights take all memory that they are left.
func TestWakeHasKeysAndValues(t *testing.T) {
	for _, r := range []model.Residency{model.Packed, model.Streamed} {
		c := Config{Ctx: 2048, Shared: true, Residency: r}
		c.Device = leastDevice(t, tiny, 2, c, 1<<20)
		l := openLoop(t, tiny, c, LoopConfig{})
		if err := l.Sleep(); err != nil {
			t.Fatal(err)
		}
		need, err := l.Need(c.Device.Budget().Free())
		if err != nil {
			t.Fatal(err)
		}
		c.Device.Budget().SetLimit(c.Device.Budget().Used()+need, "a test")
		if err := l.Wake(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		_, s := submit(t, l, greedyRequest(randomIDs(l.e, 3, 2000), 48))
		if res := s.wait(t); res.Err != nil {
			t.Errorf("%v: %v", r, res.Err)
		}
	}
}

// Weights that are read on waking are those of the file that was opened, or there are none.
func TestWakeOfAnotherFile(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for _, r := range []model.Residency{model.Packed, model.Mapped, model.Streamed} {
		for _, renamed := range []bool{false, true} {
			path := copyOf(t, tiny)
			l := openLoop(t, path, Config{Ctx: 128, Residency: r}, LoopConfig{})
			if err := l.Sleep(); err != nil {
				t.Fatal(err)
			}
			if renamed {
				if err := os.Rename(copyOf(t, tiny), path); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Chtimes(path, later, later); err != nil {
				t.Fatal(err)
			}
			if err, want := l.Wake(t.Context(), nil), !renamed || r == model.Streamed; want != errors.Is(err, ErrDamaged) || !want && err != nil {
				t.Errorf("%v, renamed %v: %v", r, renamed, err)
			}
		}
	}
}

// Memory that nothing is in is given back first, then caches, then what an idle model keeps; a running one loses nothing that
// it needs, and short memory makes unused models lose their weights after that.
func TestSpare(t *testing.T) {
	f := follow(t, 12, Config{Sequences: 2, Ctx: 128})
	prompt := randomIDs(f.e, 3, 100)
	_, c := submit(t, f.Loop, greedyRequest(prompt, 10))
	c.wait(t)
	cached := f.Status().KV.Cached
	if n := f.device.Spare(1 << 40); n == 0 || f.Status().KV.Cached != cached {
		t.Errorf("%d bytes were spare; %d are cached, %d were", n, f.Status().KV.Cached, cached)
	}
	if n := f.device.Spare(1 << 40); n != 0 {
		t.Errorf("%d more bytes were spare", n)
	}
	left := f.e.kv.Limit()
	if n := f.device.Trim(1 << 40); n != left || f.Status().KV.Cached != 0 {
		t.Errorf("%d bytes of %d were trimmed", n, left)
	}
	asked := uint64(0)
	f.device.Shed(func(n uint64) uint64 { asked = n; return 0 })
	f.short(1 << 20)
	f.after()
	if asked < 1<<20 {
		t.Errorf("%d bytes of weights were asked for", asked)
	}
}

// A draft model's memory is its model's: it is counted, falls asleep and wakes with it, and what it keeps of texts is given back first.
func TestSleepWithADraftModel(t *testing.T) {
	d := deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "a test")})
	floor := d.Budget().Used()
	c := Config{Device: d, Sequences: 2, Ctx: 256, Residency: model.Packed, Shared: true}
	e, small := open(t, tiny, c), open(t, testdata.Path(t, "archs/llama.gguf"), c)
	if err := e.DraftWith(small, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	l, err := NewLoop(e, LoopConfig{Queue: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	freely(l)
	small.timeless = true
	prompt := randomIDs(e, 7, 100)
	want := greedy(t, open(t, tiny, Config{}), prompt, 20)
	ask := func(what string, drafts bool) {
		t.Helper()
		r := greedyRequest(prompt, 20)
		r.Draft = draft.Options{Sources: 1 << draft.Model, Max: 4}
		_, c := submit(t, l, r)
		if r := c.wait(t); r.Err != nil || !slices.Equal(c.ids, want) || r.Drafted[draft.Model].Guessed > 0 != drafts {
			t.Errorf("%s: %v, %+v, want %v", what, c.ids, r, want)
		}
	}
	counted := func(what string) uint64 {
		t.Helper()
		n := d.Budget().Used() - floor
		if n != l.Bytes() {
			t.Errorf("%s it takes %d bytes, and %d are taken", what, l.Bytes(), n)
		}
		return n
	}
	ask("awake", true)
	s := l.Status()
	if awake := counted("awake"); s.Drafts == nil || s.Drafts.Bytes == 0 || s.Drafts.Bytes >= awake || s.Drafts.Ctx != 256 || s.Drafts.File != small.file.Name() {
		t.Errorf("of %d bytes the draft model takes %+v", awake, s.Drafts)
	}
	if err := l.Sleep(); err != nil {
		t.Fatal(err)
	}
	s = l.Status()
	if n := counted("asleep"); n != s.KV.Cached+s.Drafts.KV.Cached || s.Drafts.KV.Cached == 0 || s.Drafts.Bytes != s.Drafts.KV.Cached {
		t.Errorf("asleep it takes %d bytes: cached %d, and %+v", n, s.KV.Cached, s.Drafts)
	}
	need, err := l.Need(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	limit, _ := d.Budget().Limit()
	d.Budget().SetLimit(d.Budget().Used()+need-1, "a test")
	var short *mem.LimitError
	if err := l.Wake(t.Context(), nil); !errors.As(err, &short) {
		t.Errorf("woken without memory: %v", err)
	}
	counted("after that")
	d.Budget().SetLimit(d.Budget().Used()+need, "a test")
	if err := l.Wake(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	counted("awake again")
	d.Budget().SetLimit(limit, "a test")
	ask("awake again", true)

	was := l.Status()
	if freed, now := d.Trim(1), l.Status(); freed == 0 || now.Drafts.KV.Bytes >= was.Drafts.KV.Bytes || now.KV.Bytes != was.KV.Bytes {
		t.Errorf("%d bytes were given back: the draft model's pool has %d of %d, the model's %d of %d", freed, now.Drafts.KV.Bytes, was.Drafts.KV.Bytes, now.KV.Bytes, was.KV.Bytes)
	}
	if d.Trim(1 << 40); l.Status().Drafts.KV.Bytes != 0 {
		t.Errorf("%d bytes are kept", l.Status().Drafts.KV.Bytes)
	}
	counted("given back")
	ask("without keys and values", false)
	l.regrow(1<<29, 1<<29)
	if err := l.Between(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	ask("grown again", true)
	counted("grown again")
	l.Close()
	small.Close()
	e.Close()
	if n := d.Budget().Used(); n != floor {
		t.Errorf("%d bytes are taken in the end, %d at first", n, floor)
	}
}

// A draft model whose weights are streamed takes all memory that is left when it wakes, but for what the model's keys and values need.
func TestWakeBesideStreamedDrafts(t *testing.T) {
	d := deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<30, "a test")})
	c := Config{Device: d, Sequences: 2, Ctx: 256, Residency: model.Packed, Shared: true}
	e := open(t, tiny, c)
	c.Residency = model.Streamed
	small := open(t, testdata.Path(t, "archs/llama.gguf"), c)
	if err := e.DraftWith(small, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	l, err := NewLoop(e, LoopConfig{Queue: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	if err := l.Sleep(); err != nil {
		t.Fatal(err)
	}
	need, err := l.Need(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	all := small.streamed
	d.Budget().SetLimit(d.Budget().Used()+need, "a test")
	if err := l.Wake(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if small.streamed >= all {
		t.Errorf("the draft model has %d bytes of weights, as many as ever: memory was not short", small.streamed)
	}
	d.Budget().SetLimit(1<<30, "a test")
	_, sink := submit(t, l, greedyRequest(randomIDs(e, 7, 100), 20))
	if r := sink.wait(t); r.Err != nil {
		t.Error(r.Err)
	}
}
