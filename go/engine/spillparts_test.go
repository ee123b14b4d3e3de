package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/sched"
)

// A shelf is a store in memory.
type shelf struct {
	mu            sync.Mutex
	pages         map[diskcache.Key][][]byte
	depths        map[diskcache.Key]int
	looks, gets   int
	onGet, onPut  func(ctx context.Context) error // nil: it works
	paused, stuck bool
}

func newShelf() *shelf {
	return &shelf{pages: map[diskcache.Key][][]byte{}, depths: map[diskcache.Key]int{}}
}

func (s *shelf) Look(context.Context) { s.looks++ }
func (s *shelf) Paused() bool         { return s.paused }
func (s *shelf) Stuck() bool          { return s.stuck }

func (s *shelf) Has(k diskcache.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages[k] != nil
}

func (s *shelf) Get(ctx context.Context, p diskcache.Page) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	if s.onGet != nil {
		if err := s.onGet(ctx); err != nil {
			return err
		}
	}
	if s.pages[p.Key] == nil || s.depths[p.Key] != p.Depth {
		return fs.ErrNotExist
	}
	for i, u := range s.pages[p.Key] {
		copy(p.Units[i], u)
	}
	return nil
}

func (s *shelf) Put(ctx context.Context, p diskcache.Page) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onPut != nil {
		if err := s.onPut(ctx); err != nil {
			return err
		}
	}
	var units [][]byte
	for _, u := range p.Units {
		units = append(units, slices.Clone(u))
	}
	s.pages[p.Key], s.depths[p.Key] = units, p.Depth
	return nil
}

// shelved returns a loop that nobody runs, which has a text of so many tokens in its cache, and a spill with a store of the
// test's.
func shelved(t *testing.T, path string, tokens int, c Config) (*Loop, *shelf, []int32) {
	t.Helper()
	c.Shared = true
	e := open(t, path, c)
	l := newLoop(e, LoopConfig{}, sched.Config{Running: 2, Memory: e.kv.Layout(), Queue: 9})
	l.sched.Cost = costs(0, time.Second, 0)
	store := newShelf()
	var err error
	if l.spill, err = newSpill(l, store, "a test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.spill.close)
	ids := randomIDs(e, 3, tokens)
	keep(t, l, ids)
	return l, store, ids
}

// keep evaluates a text into the cache of a loop.
func keep(t *testing.T, l *Loop, ids []int32) {
	t.Helper()
	s := l.e.NewSequence()
	defer s.Close()
	if err := l.e.Eval(t.Context(), s, ids, 0, nil); err != nil {
		t.Fatal(err)
	}
	l.tree.Keep("", s.table, ids, kvcache.How{End: true})
}

// request adds a request to a loop that nobody runs.
func (l *Loop) request(t *testing.T, prompt []int32) *job {
	t.Helper()
	j, s, err := l.prepareJob(greedyRequest(prompt, 5))
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.queue(j, s, nil); err != nil {
		t.Fatal(err)
	}
	return j
}

// Reading is expected to pay where the bytes at the rate of late, and a tenth of a millisecond a page, take less time than
// computing. Where it does not, the rate returns to what is usual, a sixteenth at a time; what is read counts for half.
func TestReadingPays(t *testing.T) {
	s := &spill{rate: 1e6}
	for _, c := range []struct {
		pages   int
		bytes   uint64
		compute time.Duration
		want    bool
	}{
		{0, 1e6, time.Second, false}, {0, 1e6, time.Second + 1, true}, {5, 1e6, time.Second + 500*time.Microsecond, false},
		{5, 1e6, time.Second + 500*time.Microsecond + 1, true}, {0, 0, 0, false}, {1, 0, pageTime + 1, true},
	} {
		s.rate = 1e6
		rate := 1e6
		if !c.want {
			rate += (200e6 - 1e6) / 16
		}
		if got := s.faster(c.pages, c.bytes, c.compute); got != c.want || math.Abs(s.rate-rate) > 1 {
			t.Errorf("%+v: it pays: %v; the rate is %g, want %g", c, got, s.rate, rate)
		}
	}
	for _, c := range []struct {
		bytes uint64
		took  time.Duration
		want  float64
	}{{4e6, time.Second, 3e6}, {1e6, time.Second / 2, 2e6}, {2, 0, 2e6}, {2, time.Microsecond, 2e6}} {
		if s.rate = 2e6; c.bytes == 1e6 {
			s.rate = 2e6
		}
		if s.observe(c.bytes, c.took); math.Abs(s.rate-c.want) > 1 {
			t.Errorf("%d bytes in %v: the rate is %g, want %g", c.bytes, c.took, s.rate, c.want)
		}
	}
}

// Units are copied one behind the other, and none can grow into the next.
func TestGather(t *testing.T) {
	e := open(t, tiny, Config{})
	n, own := e.kv.Layout()[0].Bytes, e.unitBytes(kvcache.Unit{})
	units := []kvcache.Unit{{Number: 1}, {Number: 0}}
	for i := range 2 * n {
		e.kv.Units(0).Memory[i] = byte(i/n + 1)
	}
	memory := make([]byte, 2*own+1)
	parts, err := e.gather(t.Context(), units, [][]byte{e.kv.Units(0).Memory[n : 2*n], e.kv.Units(0).Memory[:n]}, memory)
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != 2 || memory[0] != 2 || memory[own] != 1 || memory[2*own] != 0 {
		t.Errorf("%d parts, %d, %d, %d", len(parts), memory[0], memory[own], memory[2*own])
	}
	for i := range parts {
		if p := parts[i][0]; len(p) != n || cap(p) != n || !bytes.Equal(p, bytes.Repeat([]byte{byte(2 - i)}, n)) {
			t.Errorf("unit %d: %d bytes, with room for %d", i, len(p), cap(p))
		}
	}
}

// Pages are written while the store takes them, up to so many bytes of what would be evicted first. What is not written is
// not held.
func TestWhatIsWritten(t *testing.T) {
	l, store, ids := shelved(t, tiny, 300, Config{Ctx: 512, KVBytes: 20 * 1 << 14})
	block := uint64(l.e.kv.Layout()[0].Bytes)
	free := l.e.kv.Limit() - l.e.kv.Used()
	for what, change := range map[string]*bool{"paused": &store.paused, "stuck": &store.stuck} {
		*change = true
		if l.spill.writeCold(t.Context(), 1<<30); len(store.pages) != 0 {
			t.Errorf("%d pages are written by a store that is %s", len(store.pages), what)
		}
		*change = false
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	l.spill.writing <- struct{}{} // somebody else writes
	l.spill.writeCold(over, 1<<30)
	<-l.spill.writing
	if len(store.pages) != 0 {
		t.Errorf("%d pages are written while others write", len(store.pages))
	}
	for _, n := range []int{1, 3} {
		if l.spill.writeCold(t.Context(), free+uint64(n)*block); len(store.pages) != n {
			t.Errorf("%d pages are written to have room for %d blocks", len(store.pages), n)
		}
	}
	broken := errors.New("broken")
	tries := 0
	store.onPut = func(context.Context) error { tries++; return broken }
	l.spill.writeCold(t.Context(), 1<<30)
	l.spill.writeWarm()
	if checkBlocks(t, l); tries != 2 || len(store.pages) != 3 {
		t.Errorf("%d pages are tried, %d are written", tries, len(store.pages))
	}
	begun := time.Now()
	store.onPut = func(ctx context.Context) error {
		if end, ok := ctx.Deadline(); !ok || end.Before(begun.Add(putTime)) || end.After(time.Now().Add(putTime)) {
			t.Errorf("a page may take until %v", end)
		}
		return nil
	}
	l.spill.writeCold(t.Context(), 1<<30)
	if len(store.pages) != 5 || l.tree.Cold(1<<30) != nil {
		t.Errorf("%d pages of 5 are written", len(store.pages))
	}
	for at := 0; at < 300; at += kvcache.BlockTokens {
		end := min(at+kvcache.BlockTokens, 300)
		k := l.e.mediaIDs.page(l.e.mediaIDs.newChain(l.spill.root, "", ids[:end]), 0, at, ids[at:end])
		table := l.tree.Find("", ids[:end])
		var units [][]byte
		if err := table.Parts(func(b []byte) error { units = append(units, b); return nil }); err != nil {
			t.Fatal(err)
		}
		table.Free()
		if p := store.pages[k]; len(p) != 1 || !bytes.Equal(p[0], units[at/kvcache.BlockTokens]) || store.depths[k] != at/kvcache.BlockTokens {
			t.Errorf("the page from token %d on is not that of the text, or in depth %d", at, store.depths[k])
		}
	}
	// An eighth of the pool is written ahead.
	keep(t, l, randomIDs(l.e, 4, 512))
	keep(t, l, randomIDs(l.e, 5, 512))
	free = l.e.kv.Limit() - l.e.kv.Used()
	ahead := l.e.kv.Most() / 8
	if free >= ahead {
		t.Fatalf("%d bytes are free, of which %d are written ahead", free, ahead)
	}
	l.spill.nudge()
	l.spill.nudge() // once is enough
	eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		p := l.tree.Cold(ahead)
		if p != nil {
			l.tree.Release(p)
		}
		return p == nil && len(l.spill.wake) == 0 && len(l.spill.writing) == 0
	})
	if p := l.tree.Cold(ahead + 2*block); p == nil {
		t.Error("more is written ahead")
	} else {
		l.tree.Release(p)
	}
	checkBlocks(t, l)
}

// A prefix is read where that is worth it, up to where its pages are; what is read is what was written, and counted. It is
// not read for a request that has ended; a page that is gone is tried again, and another error ends it.
func TestWhatIsRead(t *testing.T) {
	for _, path := range []string{tiny, testdata.Path(t, "archs/qwen35.gguf"), testdata.Path(t, "archs/gemma3.gguf")} {
		l, store, ids := shelved(t, path, 300, Config{Ctx: 512})
		s := l.spill
		var asked []string
		worth := true
		s.worth = func(pages int, bytes uint64, compute time.Duration) bool {
			asked = append(asked, fmt.Sprint(pages, bytes, compute))
			return worth
		}
		follow := func() *trail { return s.follow("", ids) }
		if n, found, _ := s.reach(follow()); n != 0 || found != 300 || len(asked) != 0 {
			t.Fatalf("%d tokens are to be read of a text that is in memory, of which %d are found", n, found)
		}
		s.writeWarm()
		written := uint64(0)
		for _, p := range store.pages {
			for _, u := range p {
				written += uint64(len(u))
			}
		}
		l.tree.Clear()
		gone := follow()
		n, found, read := s.reach(gone)
		compute := l.sched.Prefill(0, 300)
		if n != 300 || found != 0 || read == 0 || read > written || !slices.Equal(asked, []string{fmt.Sprint(5, read, compute)}) {
			t.Errorf("%s: %d tokens are to be read, %d found, %d bytes of %d: %v", path, n, found, read, written, asked)
		}
		if worth = false; s.pays(gone) {
			t.Errorf("%s: what is not worth it is read", path)
		}
		if n, found, read := s.reach(gone); n != 0 || found != 0 || read != 0 {
			t.Errorf("%s: %d tokens, %d found, %d bytes that are not worth it", path, n, found, read)
		}
		if worth = true; !s.pays(gone) {
			t.Errorf("%s: what is worth it is not read", path)
		}
		j := l.request(t, slices.Concat(ids, []int32{1}))
		<-l.wake // of its coming
		cached := func() int {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.tree.Len("", ids)
		}
		for _, c := range []struct {
			why   error
			tries int
		}{{fs.ErrNotExist, 3}, {diskcache.ErrDamaged, 3}, {errors.New("another"), 1}} {
			asked = nil
			store.onGet = func(context.Context) error { return c.why }
			s.restore(j, gone)
			<-l.wake // when it has ended
			if len(asked) != 2*c.tries || j.restored || cached() != 0 {
				t.Errorf("%s: %v: it is tried %d times, want %d; %d tokens are cached", path, c.why, len(asked)/2, c.tries, cached())
			}
			checkUnused(t, l)
		}
		store.gets, store.onGet = 0, func(context.Context) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			j.end(context.Canceled)
			return nil
		}
		if err := s.read(j, gone); err != nil || store.gets == 0 || store.gets > pageReaders || cached() != 0 {
			t.Errorf("%s: of a request that ends while it is read %d pages are read, and %d tokens cached: %v", path, store.gets,
				cached(), err)
		}
		store.gets = 0
		if err := s.read(j, gone); err != nil || store.gets != 0 || j.restored || l.counts.Restores != 0 {
			t.Errorf("%s: for a request that has ended %d pages are read: %v", path, store.gets, err)
		}
		checkUnused(t, l)
		j.ended = nil
		j.gone.Store(false)
		begun, rate := time.Now(), s.rate
		store.onGet = func(ctx context.Context) error {
			if end, ok := ctx.Deadline(); !ok || end.Before(begun.Add(compute)) || end.After(time.Now().Add(compute)) {
				t.Errorf("%s: reading may take until %v", path, end)
			}
			return nil
		}
		if err := s.read(j, gone); err != nil || !j.restored || s.rate == rate {
			t.Errorf("%s: %v", path, err)
		}
		if c := l.counts; c.Restores != 1 || c.RestoredTokens != 300 || cached() != 300 {
			t.Errorf("%s: %d restores of %d tokens, %d are cached", path, c.Restores, c.RestoredTokens, cached())
		}
		checkUnused(t, l)
		// What is there is not read again, and what is computed sooner may take some time all the same.
		store.gets = 0
		if err := s.read(j, gone); err != nil || store.gets != 0 || l.counts.Restores != 1 {
			t.Errorf("%s: %d pages are read again: %v", path, store.gets, err)
		}
		l.tree.Clear()
		l.sched.Cost = sched.Cost{}
		store.onGet = func(ctx context.Context) error {
			if end, ok := ctx.Deadline(); !ok || end.After(time.Now().Add(readLeast)) {
				t.Errorf("%s: reading may take until %v", path, end)
			}
			return nil
		}
		if err := s.read(j, gone); err != nil || l.counts.Restores != 2 {
			t.Errorf("%s: read again: %v", path, err)
		}
		after := func(s *Sequence, ids ...int32) (row []float32) {
			defer s.Close()
			if err := l.e.Eval(t.Context(), s, ids, len(ids)-1, func(_ int, logits []float32) error {
				row = slices.Clone(logits)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return row
		}
		was := &Sequence{e: l.e, table: l.tree.Find("", ids), ids: slices.Clone(ids)}
		if got, want := after(was, 7), after(l.e.NewSequence(), append(slices.Clone(ids), 7)...); !slices.Equal(got, want) {
			t.Errorf("%s: what was read is not what was written", path)
		}
	}
}

// checkUnused says whether the blocks of a loop are free or in its cache alone.
func checkUnused(t *testing.T, l *Loop) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if all, idle := l.tree.Bytes(); all != idle || l.e.kv.Available() != l.e.kv.Limit() {
		t.Errorf("%d bytes of %d are held by nobody, %d of %d in the tree are idle", l.e.kv.Limit()-l.e.kv.Available(),
			l.e.kv.Limit(), idle, all)
	}
}

// At its end a spill writes what is only in memory, unless the disk is stuck, which may use the memory of the page yet. A
// loop without memory for a page is refused, and takes none.
func TestEndOfASpill(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		l, store, _ := shelved(t, tiny, 300, Config{Ctx: 512})
		budget := l.e.device.budget
		was := budget.Used()
		store.stuck = stuck
		l.spill.close()
		l.spill.close()
		if want := map[bool]int{false: 5}[stuck]; len(store.pages) != want {
			t.Errorf("stuck %v: %d pages are written, want %d", stuck, len(store.pages), want)
		}
		if less := was - budget.Used(); less > 0 == stuck {
			t.Errorf("stuck %v: %d bytes are given back", stuck, less)
		}
		if l.spill.ctx.Err() == nil || l.spill.usable() {
			t.Errorf("stuck %v: it can be used after its end", stuck)
		}
		checkUnused(t, l)
	}
	e := open(t, tiny, Config{Ctx: 128, Shared: true})
	budget := e.device.budget
	l := newLoop(e, LoopConfig{}, sched.Config{Running: 1, Memory: e.kv.Layout()})
	was, held := budget.Used(), uint64(l.slotBytes())
	store, err := diskcache.Open(diskcache.Config{Dir: t.TempDir(), Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for more, want := range map[uint64]bool{0: false, e.tree.PageBytes() - 1: false, e.tree.PageBytes(): true} {
		budget.SetLimit(was+held+more, "a test")
		l, err := NewLoop(e, LoopConfig{Disk: store})
		var limit *mem.LimitError
		if (err == nil) != want || err != nil && !errors.As(err, &limit) {
			t.Errorf("with memory for %d bytes of a page: %v", more, err)
		}
		if err == nil {
			l.Close()
		}
		if budget.Used() != was {
			t.Errorf("with memory for %d bytes of a page %d are taken in the end", more, budget.Used()-was)
		}
	}
}
