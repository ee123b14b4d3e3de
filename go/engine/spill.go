package engine

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/platform"
)

// A spill keeps pages of a loop's prefix tree on disk. A goroutine writes those that will soon be evicted, and
// Close writes what is only in memory. A request whose prompt begins with pages on disk is held until they
// are read, if that takes less time than computing them.
//
// The disk is used without the loop's lock, and passes never wait for it: pages are held by reference while they are
// copied, and read into units of a table that no sequence uses yet. A disk that does not respond delays only the requests
// that need it, by no more than computing what they wait for takes, or by readLeast.
type spill struct {
	l     *Loop
	store pages
	root  diskcache.Key
	rate  float64                                                   // bytes per second that were read of late; under the loop's lock
	worth func(pages int, bytes uint64, compute time.Duration) bool // whether to read them; under the loop's lock

	writing chan struct{} // holds an element while pages are written
	staged  *mem.Region   // a page while it is written; of who writes, and of a store that is stuck

	reading sync.Mutex // one request's pages are read at a time
	wake    chan struct{}
	done    chan struct{}
	ctx     context.Context // ends soon after done: nobody waits for the disk any more
	cancel  context.CancelFunc
	ended   sync.Once
	work    sync.WaitGroup
}

// pages is a diskcache.Store.
type pages interface {
	Look(ctx context.Context)
	Has(k diskcache.Key) bool
	Get(ctx context.Context, p diskcache.Page) error
	Put(ctx context.Context, p diskcache.Page) error
	Paused() bool
	Stuck() bool
}

const (
	// 1/coldPart of the pool, up to coldMost bytes, is on disk before it is evicted. Passes fill memory far
	// more slowly than it is written, so this covers a pause of the disk.
	coldPart = 8
	coldMost = 256 << 20
	// assumedRate is the read rate, in bytes per second, assumed before any was measured.
	assumedRate = 200e6
	// pageTime is the fixed time to read a page, besides that of its bytes.
	pageTime = 100 * time.Microsecond
	// pageReaders is the number of concurrent page reads: disks are faster with several, and checksums overlap
	// with reads.
	pageReaders = 4
	// warmPages is how many pages Close takes from the tree at a time: each has a copy of its text up to there.
	warmPages = 256
	// flushTime limits the time for which Close writes.
	flushTime = 5 * time.Second
	// lookTime, readLeast and putTime limit how long a request waits for the folder to be looked at, for pages
	// that take less time to compute, and how long the writing goroutine waits for a page.
	lookTime  = time.Second
	readLeast = 2 * time.Second
	putTime   = 30 * time.Second
	// readTries limits how often a request's pages are looked up again after some were gone.
	readTries = 3
)

func newSpill(l *Loop, store pages, profile string) (*spill, error) {
	s := &spill{
		l: l, store: store, root: l.e.root(profile), rate: assumedRate,
		wake: make(chan struct{}, 1), done: make(chan struct{}), writing: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.worth = s.faster
	var err error
	if s.staged, err = l.e.device.budget.Alloc("pages on their way to disk", l.e.pageBytes()); err != nil {
		return nil, err
	}
	s.work.Go(s.write)
	return s, nil
}

// nudge wakes the goroutine that writes.
func (s *spill) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *spill) write() {
	for {
		select {
		case <-s.done:
			return
		case <-s.wake:
			limit := s.l.e.kv.Most()
			s.writeCold(s.ctx, min(limit/coldPart, coldMost))
		}
	}
}

// writeCold writes the pages that would be evicted if `room` bytes were needed, until ctx ends.
func (s *spill) writeCold(ctx context.Context, room uint64) {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return
	}
	for s.usable() {
		s.l.mu.Lock()
		p := s.l.tree.Cold(room)
		s.l.mu.Unlock()
		if p == nil || s.put(ctx, p) != nil {
			return
		}
	}
}

// writeWarm writes what is only in memory, until writing fails.
func (s *spill) writeWarm() {
	for {
		s.l.mu.Lock()
		pages := s.l.tree.Warm(warmPages)
		s.l.mu.Unlock()
		if len(pages) == 0 {
			return
		}
		var err error
		for _, p := range pages {
			if err == nil {
				err = s.put(s.ctx, p)
			} else {
				s.release(p)
			}
		}
		if err != nil {
			return
		}
	}
}

// put writes a page, which takes putTime at most, and releases it. It is staged, so that its memory is free again while
// a stuck disk may still read it.
func (s *spill) put(ctx context.Context, p *kvcache.Page) error {
	ctx, cancel := context.WithTimeout(ctx, putTime)
	defer cancel()
	parts, err := s.l.e.gather(ctx, p.Numbers, p.Units, s.staged.Bytes())
	s.release(p)
	if err == nil {
		err = panics.Catch(func() error { return s.store.Put(ctx, s.page(p, slices.Concat(parts...))) })
	}
	if err == nil {
		s.l.mu.Lock()
		s.l.tree.Stored(p)
		s.l.mu.Unlock()
	}
	return err
}

// release undoes the hold of a page. A request may be waiting for its units, and none running that would wake the loop.
func (s *spill) release(p *kvcache.Page) {
	s.l.mu.Lock()
	s.l.tree.Release(p)
	s.l.mu.Unlock()
	s.l.nudge()
}

// usable reports whether pages may be written now.
func (s *spill) usable() bool {
	select {
	case <-s.done:
		return false
	default:
		return !s.store.Paused() && !s.store.Stuck() && s.l.e.file.Damaged() == nil
	}
}

func (s *spill) page(p *kvcache.Page, units [][]byte) diskcache.Page {
	c := s.l.e.mediaIDs.newChain(s.root, p.Namespace, p.Tokens)
	return diskcache.Page{Key: s.l.e.mediaIDs.page(c, p.Part, p.From, p.Tokens[p.From:]), Depth: p.From / kvcache.BlockTokens, Units: units}
}

// close stops the spill, after the loop's goroutine has ended: it writes what is only in memory. Closing again
// is a no-op. It takes flushTime at most, whatever the disk does.
func (s *spill) close() { s.ended.Do(s.flush) }

func (s *spill) flush() {
	close(s.done)
	defer s.cancel()
	defer time.AfterFunc(flushTime, s.cancel).Stop()
	s.work.Wait()
	if s.l.e.file.Damaged() == nil && !s.store.Stuck() {
		s.writeWarm()
	}
	if !s.store.Stuck() { // else the disk may read it yet
		s.staged.Close()
	}
}

// A trail is a text and the keys of its pages on disk.
type trail struct {
	namespace string
	ids       []int32
	chain     chain
	ends      []int // at which a recurrent state is stored, the last first
}

// follow returns the trail of a text.
func (s *spill) follow(namespace string, ids []int32) *trail {
	ctx, cancel := context.WithTimeout(s.ctx, lookTime)
	defer cancel()
	s.store.Look(ctx)
	r := &trail{namespace: namespace, ids: ids, chain: s.l.e.mediaIDs.newChain(s.root, namespace, ids)}
	if part, ok := s.l.tree.States(); ok {
		for at := len(ids); at > 0; at-- {
			from := (at - 1) / kvcache.BlockTokens * kvcache.BlockTokens
			if s.store.Has(s.l.e.mediaIDs.page(r.chain, part, from, ids[from:at])) {
				r.ends = append(r.ends, at)
			}
		}
	}
	return r
}

// reach returns how much of a text is worth restoring from disk. The caller holds the lock.
func (s *spill) reach(r *trail) (n, found int, bytes uint64) {
	n, found, bytes = s.l.tree.Reach(r.namespace, r.ids, r.ends, func(part, from, to int) bool {
		return s.store.Has(s.l.e.mediaIDs.page(r.chain, part, from, r.ids[from:to]))
	})
	if n == found {
		return 0, found, 0
	}
	if !s.worth((n-found)/kvcache.BlockTokens+1, bytes, s.l.sched.Prefill(found, n)) {
		return 0, found, 0
	}
	return n, found, bytes
}

// faster reports whether reading pages is expected to take less time than computing them.
func (s *spill) faster(pages int, bytes uint64, compute time.Duration) bool {
	read := time.Duration(float64(bytes)/s.rate*float64(time.Second)) + time.Duration(pages)*pageTime
	if read < compute {
		return true
	}
	s.rate += (assumedRate - s.rate) / 16 // it may have been measured at a bad time
	return false
}

// observe records how fast pages were read. The caller holds the lock.
func (s *spill) observe(bytes uint64, took time.Duration) {
	s.rate += (float64(bytes)/max(took.Seconds(), 1e-6) - s.rate) / 2
}

// pays reports whether a part of a text should be restored. The caller holds the lock.
func (s *spill) pays(r *trail) bool {
	n, _, _ := s.reach(r)
	return n > 0
}

// restore reads a held request's prefix in the background, then releases the request. The caller holds the lock, so that
// Close waits for what is begun here; the disk is used without it.
func (s *spill) restore(j *job, r *trail) {
	s.work.Go(func() {
		s.reading.Lock()
		for range readTries {
			err := s.read(j, r)
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, diskcache.ErrDamaged) {
				break
			}
		}
		s.reading.Unlock()
		s.l.mu.Lock()
		s.l.sched.Release(j.id)
		s.l.nudge()
		s.l.mu.Unlock()
	})
}

// get reads pages of a text, several at a time, while they are wanted and until ctx ends.
func (s *spill) get(ctx context.Context, r *trail, pages []*kvcache.Page, wanted func() bool) error {
	return panics.Share(pageReaders, len(pages), func(i int) error {
		if !wanted() {
			return nil
		}
		p := pages[i]
		key := s.l.e.mediaIDs.page(r.chain, p.Part, p.From, p.Tokens[p.From:])
		return s.fill(ctx, p, diskcache.Page{Key: key, Depth: p.From / kvcache.BlockTokens, Units: p.Units})
	})
}

// fill reads a page into its units, on all ranks.
func (s *spill) fill(ctx context.Context, p *kvcache.Page, page diskcache.Page) error {
	e := s.l.e
	if e.lead == nil {
		return s.store.Get(ctx, page)
	}
	region, err := e.device.budget.Alloc("state of all ranks", uint64(e.unitBytes(p.Numbers...)))
	if err != nil {
		return err
	}
	defer region.Close()
	parts := e.partsOf(p.Numbers, region.Bytes())
	page.Units = nil
	for i, own := range e.piecesOf(p.Numbers, p.Units) {
		page.Units = append(append(page.Units, own...), parts[i][1:]...)
	}
	if err := s.store.Get(ctx, page); err != nil {
		return err
	}
	return e.scatter(p.Numbers, parts)
}

// read reads what the disk has of a text into the tree.
func (s *spill) read(j *job, r *trail) error {
	l := s.l
	l.mu.Lock()
	n, found, bytes := s.reach(r)
	limit := max(l.sched.Prefill(found, n), readLeast)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	s.writeCold(ctx, bytes) // what has to make room
	l.mu.Lock()
	n, found, bytes = s.reach(r)
	if n == 0 || j.ended != nil {
		l.mu.Unlock()
		return nil
	}
	table, missing, err := l.tree.Fetch(r.namespace, r.ids[:n])
	l.mu.Unlock()
	if err != nil {
		return err
	}
	start := platform.Clock()
	err = s.get(ctx, r, missing, func() bool { return l.isLive(j) })
	took := platform.Clock() - start
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && j.ended == nil {
		l.tree.Keep(r.namespace, table, r.ids[:n], kvcache.How{Awaited: true, End: true})
		j.restored = true
		l.counts.Restores++
		l.counts.RestoredTokens += uint64(n - found)
		s.observe(bytes, took)
	}
	table.Free()
	return err
}
