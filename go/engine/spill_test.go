package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/kvcache"
)

// diskLoop opens a loop with a store in a folder, which always restores what it can.
func diskLoop(t *testing.T, path, dir string, c Config) *Loop {
	t.Helper()
	store, err := diskcache.Open(diskcache.Config{Dir: dir, Limit: 1 << 30, Log: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	l := openLoop(t, path, c, LoopConfig{Disk: store, Profile: "a test"})
	l.mu.Lock()
	l.spill.worth = func(int, uint64, time.Duration) bool { return true }
	l.mu.Unlock()
	return l
}

// ask runs a request to its end.
func ask(t *testing.T, l *Loop, r *Request) (Usage, []int32) {
	t.Helper()
	_, c := submit(t, l, r)
	res := c.wait(t)
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	return res.Usage, c.ids
}

// A conversation goes on after a restart where it would have gone on without, and says the
// same: for models that see all, with windows, with recurrent state.
func TestDiskSurvivesRestart(t *testing.T) {
	t.Parallel()
	models(t, func(t *testing.T, path string) {
		probe := open(t, path, Config{})
		dir := t.TempDir()
		first := randomIDs(probe, 1, 200)
		l := diskLoop(t, path, dir, Config{Sequences: 3, Batch: 40})
		_, said := ask(t, l, greedyRequest(first, 90))
		turn := slices.Concat(first, said, randomIDs(probe, 3, 20))
		_, said = ask(t, l, greedyRequest(turn, 20))
		turn = slices.Concat(turn, said, randomIDs(probe, 4, 20))
		l.Close()
		want := greedy(t, probe, turn, 20)

		l = diskLoop(t, path, dir, Config{Sequences: 3, Batch: 40})
		again, got := ask(t, l, greedyRequest(turn, 20))
		if !slices.Equal(got, want) {
			t.Errorf("after a restart: %v, alone %v", got, want)
		}
		if n := len(turn) - 21; again.CachedTokens != n { // the last token of an answer is not evaluated
			t.Errorf("%d tokens were found after a restart, want %d", again.CachedTokens, n)
		}
		if s := l.Status(); s.Counts.Restores != 1 || s.Counts.RestoredTokens != uint64(again.CachedTokens) {
			t.Errorf("%d restores of %d tokens", s.Counts.Restores, s.Counts.RestoredTokens)
		}
		// Another namespace has nothing.
		r := greedyRequest(turn, 20)
		r.Namespace = "another"
		if u, got := ask(t, l, r); u.CachedTokens != 0 || !slices.Equal(got, want) {
			t.Errorf("another namespace: %d tokens were found, %v", u.CachedTokens, got)
		}
		checkBlocksSoon(t, l)
	}, "qwen3", "gemma3", "gemma3n", "qwen35", "mamba", "granitehybrid", "rwkv7", "deepseek2")
}

// What memory has no room for is read from disk: two long texts take each other's memory.
func TestDiskTakesWhatIsEvicted(t *testing.T) {
	probe := open(t, tiny, Config{})
	block := uint64(probe.kv.Layout()[0].Bytes)
	l := diskLoop(t, tiny, t.TempDir(), Config{Sequences: 1, Batch: 64, KVBytes: 9 * block})
	texts := make([][]int32, 4)
	want := make([][]int32, len(texts))
	for i := range texts {
		texts[i] = randomIDs(probe, uint64(i), 240)
		want[i] = greedy(t, probe, texts[i], 8)
	}
	restored := 0
	for round := range 3 {
		for i, text := range texts {
			u, got := ask(t, l, greedyRequest(text, 8))
			if !slices.Equal(got, want[i]) {
				t.Fatalf("round %d, text %d: %v, alone %v", round, i, got, want[i])
			}
			if round > 0 {
				restored += u.CachedTokens
			}
			l.spill.writeCold(t.Context(), 9*block) // as the goroutine would have, had it had the time
		}
	}
	if c := l.Status().Counts; c.Restores < 4 || restored < 8*128 {
		t.Errorf("%d restores of %d tokens, and %d found", c.Restores, c.RestoredTokens, restored)
	}
	checkBlocksSoon(t, l)
}

// Whatever becomes of the folder, answers are the same, and nothing damaged is used.
func TestDiskDamage(t *testing.T) {
	t.Parallel()
	probe := open(t, tiny, Config{})
	text := randomIDs(probe, 7, 240)
	want := greedy(t, probe, text, 8)
	files := func(dir string) []string {
		all, err := filepath.Glob(filepath.Join(dir, "*", "*.page"))
		if err != nil || len(all) == 0 {
			t.Fatalf("no pages: %v", err)
		}
		slices.Sort(all)
		return all
	}
	edit := func(t *testing.T, path string, f func([]byte) []byte) {
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, f(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, harm := range map[string]func(t *testing.T, dir string){
		"a bit of each": func(t *testing.T, dir string) {
			for _, path := range files(dir) {
				edit(t, path, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
			}
		},
		"each cut": func(t *testing.T, dir string) {
			for _, path := range files(dir) {
				edit(t, path, func(b []byte) []byte { return b[:len(b)-1] })
			}
		},
		"some empty": func(t *testing.T, dir string) {
			for _, path := range files(dir)[:3] {
				edit(t, path, func(b []byte) []byte { return nil })
			}
		},
		"each another's": func(t *testing.T, dir string) {
			all := files(dir)
			b, err := os.ReadFile(all[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range all[1:] {
				edit(t, path, func([]byte) []byte { return b })
			}
		},
		"each a FIFO": func(t *testing.T, dir string) { // whose open would wait for a writer
			for _, path := range files(dir) {
				if err := errors.Join(os.Remove(path), makePipe(t, path)); err != nil {
					t.Fatal(err)
				}
			}
		},
		"removed behind its back": func(t *testing.T, dir string) {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := diskLoop(t, tiny, dir, Config{Batch: 64})
			ask(t, l, greedyRequest(text, 8))
			l.Close()
			harm(t, dir)
			l = diskLoop(t, tiny, dir, Config{Batch: 64})
			if strings.HasPrefix(name, "removed") {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			u, got := ask(t, l, greedyRequest(text, 8))
			if !slices.Equal(got, want) {
				t.Errorf("%v, alone %v", got, want)
			}
			if all := strings.Contains(name, "each") && name != "each another's" || strings.HasPrefix(name, "removed"); all && u.CachedTokens != 0 {
				t.Errorf("%d tokens were found", u.CachedTokens)
			}
			checkBlocksSoon(t, l)
		})
	}
}

// hungStore is a store whose disk does not respond from some time on.
type hungStore struct {
	*diskcache.Store
	hung, stuck atomic.Bool
	waits       atomic.Int64 // how many calls have begun to wait
}

func (s *hungStore) wait(ctx context.Context) error {
	s.waits.Add(1)
	<-ctx.Done()
	s.stuck.Store(true)
	return diskcache.ErrStuck
}

func (s *hungStore) Get(ctx context.Context, p diskcache.Page) error {
	if s.hung.Load() {
		return s.wait(ctx)
	}
	return s.Store.Get(ctx, p)
}

func (s *hungStore) Put(ctx context.Context, p diskcache.Page) error {
	if s.hung.Load() {
		return s.wait(ctx)
	}
	return s.Store.Put(ctx, p)
}

func (s *hungStore) Has(k diskcache.Key) bool { return !s.Stuck() && s.Store.Has(k) }
func (s *hungStore) Stuck() bool              { return s.stuck.Load() }

// A disk that does not respond delays the first request that reads from it, and the end of a loop, for some
// seconds; answers are the same.
func TestDiskHangs(t *testing.T) {
	t.Parallel()
	probe := open(t, tiny, Config{})
	text := randomIDs(probe, 7, 240)
	want := greedy(t, probe, text, 8)
	for _, read := range []bool{true, false} {
		dir := t.TempDir()
		l := diskLoop(t, tiny, dir, Config{Batch: 64})
		ask(t, l, greedyRequest(text, 8))
		l.Close()
		l = diskLoop(t, tiny, dir, Config{Batch: 64})
		s := &hungStore{Store: l.spill.store.(*diskcache.Store)}
		swapStore(l, s)
		s.hung.Store(read)
		start := time.Now()
		for range 2 {
			_, got := ask(t, l, greedyRequest(text, 8))
			if !slices.Equal(got, want) {
				t.Errorf("%v, alone %v", got, want)
			}
		}
		s.hung.Store(true)
		l.Close() // writes what is only in memory
		if took := time.Since(start); took > time.Minute {
			t.Errorf("reading hangs %v: it took %v", read, took)
		}
		if !s.Stuck() {
			t.Errorf("reading hangs %v: the disk was not used", read)
		}
	}
}

// While the disk does not respond, the loop answers: its lock is free while pages are read for a request, and while those
// that are only in memory are written at the end.
func TestNobodyWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	probe := open(t, tiny, Config{})
	text := randomIDs(probe, 7, 240)
	dir := t.TempDir()
	c := Config{Batch: 64, Sequences: 2, KVBytes: 100 * uint64(probe.kv.Layout()[0].Bytes)} // nothing is written before the end
	l := diskLoop(t, tiny, dir, c)
	ask(t, l, greedyRequest(text, 8))
	l.Close()
	l = diskLoop(t, tiny, dir, c)
	ask(t, l, greedyRequest(randomIDs(probe, 8, 240), 8)) // for the end
	s := &hungStore{Store: l.spill.store.(*diskcache.Store)}
	swapStore(l, s)
	s.hung.Store(true)
	hangs := func() {
		t.Helper()
		for end := time.Now().Add(time.Minute); s.waits.Load() == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the disk was not used: the test does not test that")
			}
		}
		start := time.Now()
		l.Status()
		if took := time.Since(start); took > readLeast/2 {
			t.Errorf("the loop told its status after %v", took)
		}
		s.waits.Store(0)
		s.stuck.Store(false)
	}
	_, reads := submit(t, l, greedyRequest(text, 8))
	hangs()
	if _, other := ask(t, l, greedyRequest(randomIDs(probe, 9, 20), 8)); len(other) != 8 {
		t.Errorf("another request has %v", other)
	}
	if r := reads.wait(t); r.Err != nil {
		t.Error(r.Err)
	}
	s.waits.Store(0)
	s.stuck.Store(false)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		l.Close()
	}()
	hangs()
	<-closed
}

// brokenStore is a store that panics.
type brokenStore struct {
	*diskcache.Store
	gets, puts atomic.Int64
}

func (s *brokenStore) Get(context.Context, diskcache.Page) error {
	s.gets.Add(1)
	panic("a bug")
}

func (s *brokenStore) Put(context.Context, diskcache.Page) error {
	s.puts.Add(1)
	panic("a bug")
}

// swapStore gives a loop another store, while nothing is written.
func swapStore(l *Loop, store pages) {
	l.spill.writing <- struct{}{}
	l.mu.Lock()
	l.spill.store = store
	l.mu.Unlock()
	<-l.spill.writing
}

// A request that needs the memory of pages which are being written, and runs alone, goes on when they are written.
func TestPagesThatAreWrittenGiveWay(t *testing.T) {
	t.Parallel()
	probe := open(t, tiny, Config{})
	room := least(probe.kv.Layout(), 128)
	l := diskLoop(t, tiny, t.TempDir(), Config{Ctx: 128, Sequences: 2, KVBytes: room})
	swapStore(l, &pausedStore{l.spill.store.(*diskcache.Store)})
	ask(t, l, greedyRequest(randomIDs(probe, 1, 100), 4))
	var held []*kvcache.Page
	l.mu.Lock()
	for p := l.tree.Cold(room); p != nil; p = l.tree.Cold(room) {
		held = append(held, p)
	}
	l.mu.Unlock()
	if len(held) == 0 {
		t.Fatal("no page is held")
	}
	ids := randomIDs(probe, 2, 100)
	_, c := submit(t, l, greedyRequest(ids, 20))
	eventually(t, func() bool { return l.Status().Counts.Preemptions > 0 })
	for _, p := range held {
		l.spill.release(p)
	}
	if r := c.wait(t); r.Err != nil || !slices.Equal(c.ids, greedy(t, probe, ids, 20)) {
		t.Errorf("%v, or another text", r.Err)
	}
}

// A pausedStore is a store that nothing is written to.
type pausedStore struct{ *diskcache.Store }

func (s *pausedStore) Paused() bool { return true }

// A panic where pages are read costs what they save, and one where they are written the pages.
func TestDiskPanics(t *testing.T) {
	probe := open(t, tiny, Config{})
	text := randomIDs(probe, 7, 240)
	want := greedy(t, probe, text, 8)
	dir := t.TempDir()
	l := diskLoop(t, tiny, dir, Config{Batch: 64})
	ask(t, l, greedyRequest(text, 8))
	l.Close()
	l = diskLoop(t, tiny, dir, Config{Batch: 64})
	s := &brokenStore{Store: l.spill.store.(*diskcache.Store)}
	swapStore(l, s)
	u, got := ask(t, l, greedyRequest(text, 8))
	if !slices.Equal(got, want) || u.CachedTokens != 0 || s.gets.Load() == 0 {
		t.Errorf("%v with %d tokens found after %d reads, alone %v", got, u.CachedTokens, s.gets.Load(), want)
	}
	l.spill.writeCold(t.Context(), 1<<30)
	if s.puts.Load() == 0 {
		t.Error("nothing was written: the test does not test that")
	}
	checkBlocksSoon(t, l)
	swapStore(l, s.Store) // for what Close writes
}

// Requests are cancelled while their prefixes are read, from many sides at once, and no block is lost.
func TestDiskStorm(t *testing.T) {
	probe := open(t, tiny, Config{})
	dir := t.TempDir()
	block := uint64(probe.kv.Layout()[0].Bytes)
	c := Config{Sequences: 3, Batch: 48, KVBytes: 12 * block}
	ls := []*Loop{diskLoop(t, tiny, dir, c), diskLoop(t, tiny, dir, c)} // two on one store
	want := make([][]int32, 5)
	for i := range want {
		want[i] = greedy(t, probe, randomIDs(probe, uint64(i), 240), 4)
	}
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := range 12 {
				text := (i*7 + w) % len(want)
				k, s := submit(t, ls[w%2], greedyRequest(randomIDs(probe, uint64(text), 240), 4))
				if (i+w)%4 == 0 {
					time.Sleep(time.Duration(i) * 100 * time.Microsecond)
					k.Cancel()
				}
				if r := s.wait(t); r.Err == nil && !slices.Equal(s.ids, want[text]) {
					t.Errorf("text %d: %v, alone %v", text, s.ids, want[text])
				}
			}
		})
	}
	wg.Wait()
	for _, l := range ls {
		checkBlocksSoon(t, l)
	}
	if n := ls[0].Status().Counts.Restores + ls[1].Status().Counts.Restores; n == 0 {
		t.Error("nothing was restored: the test does not test that")
	}
}
