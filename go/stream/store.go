package stream

import (
	"container/list"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/platform"
)

// ErrSum reports a checksum mismatch.
var ErrSum = errors.New("a checksum does not match: the file was damaged")

// concurrentReads is the number of units of group 0 that are read concurrently.
const concurrentReads = 2

// A Store holds units at fixed addresses, and limits the memory of those present.
//
// Units that are used in order: the first ones stay, as many as fit. The others pass through a ring, the rest
// of the memory: one is dropped after its use, and the next are read meanwhile, including those of the next
// cycle. Units of other groups are evicted least recently used first, within what is left.
//
// It is safe for concurrent use.
type Store struct {
	reader  *Reader
	space   *mem.Region
	arrived *sync.Cond // on mu
	sums    sync.WaitGroup

	mu      sync.Mutex
	units   []unit
	order   []int // numbers of the units of group 0
	next    int   // in order: the one that is used next
	reading int   // units of group 0 that are being read
	parts   parts
	ring    uint64     // bytes of the ring that are taken
	spare   []int      // where huge pages are that units of the ring have left, for the next ones
	stuck   bool       // memory cannot be moved
	cached  uint64     // bytes of units of other groups
	recent  *list.List // numbers of these, the last used first
	guessed []int      // numbers of those that Guess named last
	stats   Stats
	closed  bool
}

// parts is the division of the limit.
type parts struct{ pinned, ring, cache uint64 }

type unit struct {
	Unit
	size   uint64
	at     int    // in order
	pages  [2]int // from where to where it has huge pages for itself
	state  state
	pinned bool
	held   int
	left   int  // ranges that are being read
	soon   bool // it was asked for, or guessed
	fresh  bool // it came, and Fresh has not said so
	spoilt bool // it is to be read again
	err    error
	recent *list.Element
}

type state int

const (
	absent state = iota
	coming
	present
)

// Stats are the contents and counters of a Store.
type Stats struct {
	How     string // its files are read
	Bytes   uint64 // of all units
	Least   uint64 // that it works with
	Limit   uint64
	Pinned  uint64        // bytes that stay
	Ring    uint64        // bytes that others pass through
	Cache   uint64        // bytes for units that are used by chance
	Present uint64        // bytes that are in memory
	Read    uint64        // bytes that were read
	Waited  time.Duration // for units
	Hits    uint64        // units by chance that were there when they were needed
	Misses  uint64        // and that were not
	Guessed uint64        // units by chance that were named ahead
	Right   uint64        // and needed next
	Errors  uint64        // of reads
}

// Least returns the smallest limit for which a Store of these units works.
func Least(units []Unit) uint64 {
	p, _ := divide(units, 0)
	return p.ring + p.cache
}

// divide returns the division of a limit, and how many units of group 0 stay in memory. If the limit is too
// small, it returns the minimum.
func divide(units []Unit, limit uint64) (p parts, pinned int) {
	var ordered []uint64
	all, chance, groups := uint64(0), uint64(0), map[int]uint64{}
	for _, u := range units {
		if n := u.Bytes(); u.Group == 0 {
			ordered = append(ordered, n)
			all += n
		} else {
			groups[u.Group] += n
			chance += n
		}
	}
	least := uint64(0)
	for _, n := range groups {
		least = max(least, n)
	}
	if all+least <= limit {
		return parts{all, 0, min(limit-all, chance)}, len(ordered)
	}
	for i, n := range ordered {
		if next := (i + 1) % len(ordered); next != i {
			n += ordered[next]
		}
		p.ring = max(p.ring, n)
	}
	p.cache = least
	rest := limit - min(limit, p.ring+p.cache)
	for _, n := range ordered {
		if p.pinned+n > rest {
			break
		}
		p.pinned += n
		pinned++
	}
	p.cache = min(p.cache+rest-p.pinned, chance)
	return p, pinned
}

// NewStore returns a Store of the units of a layout, none of them in memory. It takes ownership of the
// Reader. The limit must be at least Least. Nothing is read before Begin, or the first Need: until then Spread and Place
// decide where pages will be.
func NewStore(l *Layout, r *Reader, limit uint64) (*Store, error) {
	space, err := mem.Space(uint64(l.Bytes), "streamed weights")
	if err != nil {
		return nil, err
	}
	for _, h := range l.huge {
		if err := space.Huge(h[0], h[1]-h[0]); err != nil {
			space.Close()
			return nil, err
		}
	}
	s := &Store{reader: r, space: space, recent: list.New()}
	s.arrived = sync.NewCond(&s.mu)
	for i, u := range l.Units {
		s.units = append(s.units, unit{Unit: u, size: u.Bytes()})
		s.stats.Bytes += u.Bytes()
		if u.Group == 0 {
			s.units[i].at = len(s.order)
			s.order = append(s.order, i)
		}
		if h, ok := l.huge[i]; ok {
			s.units[i].pages = [2]int{h[0], h[1] / mem.HugePage * mem.HugePage}
		}
	}
	s.stats.How, s.stats.Least = r.How(), Least(l.Units)
	s.divide(limit)
	return s, nil
}

// Spread asks that units which are read from now on be on these NUMA nodes in turns. Where a container forbids it, they
// are on the nodes of the threads that read them.
func (s *Store) Spread(nodes []int) { _ = s.space.Interleave(nodes) }

// Place asks that the whole huge pages of n bytes of the address space be on a NUMA node when they are first read. Those of
// units in the ring move on to the addresses of others, and stay where they are.
func (s *Store) Place(at, n, node int) {
	from := (at + mem.HugePage - 1) / mem.HugePage * mem.HugePage
	if to := (at + n) / mem.HugePage * mem.HugePage; from < to {
		_ = s.space.Place(from, to-from, node) // where that is forbidden, as with Spread
	}
}

// Bytes returns the address space. Absent units read as zeros.
func (s *Store) Bytes() []byte { return s.space.Bytes() }

// SetLimit changes the limit. Held units stay until they are released.
func (s *Store) SetLimit(limit uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.divide(limit)
	s.readAhead()
	s.arrived.Broadcast() // there may be room now for who waits
}

// divide divides a limit, and evicts what exceeds it.
func (s *Store) divide(limit uint64) {
	units := make([]Unit, len(s.units))
	for i := range s.units {
		units[i] = s.units[i].Unit
	}
	p, pinned := divide(units, limit)
	s.parts, s.ring, s.stats.Limit = p, 0, limit
	for at, i := range s.order {
		u := &s.units[i]
		u.pinned = at < pinned
		if !u.pinned && u.state != absent {
			s.ring += u.size
		}
	}
	s.shrink()
	s.trim()
}

// Begin starts reading the units that are used first, before the first Need. What Spread and Place asked comes before it:
// pages stay where they are once something was read into them.
func (s *Store) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readAhead()
}

// Start starts reading units of other groups that the next Need will ask for, to overlap the reads with other
// work. Units used in order are already being read.
func (s *Store) Start(numbers ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(numbers)
	s.fetch(numbers, false)
}

// Guess prefetches units of one group that the Need after the next may ask for, after all required reads.
// They evict the least recently used units, but none that was started or prefetched.
func (s *Store) Guess(numbers ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(nil)
	s.guessed = append(s.guessed[:0], numbers...)
	s.stats.Guessed += uint64(len(numbers))
	s.fetch(numbers, true)
}

// fetch starts reading the absent ones of these units, as far as others can be evicted for them.
func (s *Store) fetch(numbers []int, later bool) {
	for _, i := range numbers {
		if u := &s.units[i]; u.Group != 0 {
			u.soon = true
			if u.recent != nil {
				s.recent.MoveToFront(u.recent)
			}
		}
	}
	for _, i := range numbers {
		if u := &s.units[i]; u.Group != 0 && u.state == absent && u.err == nil && s.fits(u) {
			s.start(i, later)
		}
	}
}

// settle compares the last prefetch with what is needed of the same group, or drops it if nothing is. Wrongly
// prefetched units are evicted first.
func (s *Store) settle(needed []int) {
	if len(s.guessed) == 0 {
		return
	}
	group := s.units[s.guessed[0]].Group
	if len(needed) > 0 && !slices.ContainsFunc(needed, func(i int) bool { return s.units[i].Group == group }) {
		return
	}
	for _, i := range s.guessed {
		u := &s.units[i]
		u.soon = false
		if slices.Contains(needed, i) {
			s.stats.Right++
		} else if u.recent != nil {
			s.recent.MoveToBack(u.recent)
		}
	}
	s.guessed = s.guessed[:0]
}

// Need waits until units are in memory and holds them until Release. It returns the error of a failed read;
// then none is held, and the next Need tries again.
func (s *Store) Need(numbers ...int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := time.Now()
	s.settle(numbers)
	var ahead []int // reads that began before: where one fails, it is tried again
	for _, i := range numbers {
		u := &s.units[i]
		if u.state == coming {
			ahead = append(ahead, i)
		}
		u.held++ // before others make room
		u.soon = false
		if u.state == absent {
			u.err = nil // of a read ahead: it is tried again
		}
		if u.Group == 0 {
			s.next = u.at
		} else if u.state == present {
			s.stats.Hits++
			s.recent.MoveToFront(u.recent)
		} else {
			s.stats.Misses++
		}
	}
	var first error
	for waiting := true; waiting; {
		waiting = false
		for _, i := range numbers {
			u := &s.units[i]
			switch {
			case u.state == present:
				continue
			case u.state == coming:
				waiting = true
				continue
			case u.err != nil && slices.Contains(ahead, i):
				ahead = slices.DeleteFunc(ahead, func(k int) bool { return k == i })
				u.err = nil
			case u.err != nil:
				if first == nil {
					first = u.err
				}
				u.err = nil
				continue
			}
			if first == nil {
				waiting = true
				if s.room(u, 0) {
					s.start(i, false)
				}
			}
		}
		if waiting {
			s.readAhead()
			s.arrived.Wait()
		}
	}
	s.stats.Waited += time.Since(start)
	if first != nil {
		s.release(numbers)
	}
	return first
}

// Fresh returns those of the held units that were read since Fresh last returned them: in-place conversions
// of their bytes are lost.
func (s *Store) Fresh(numbers ...int) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fresh []int
	for _, i := range numbers {
		if u := &s.units[i]; u.fresh {
			u.fresh = false
			fresh = append(fresh, i)
		}
	}
	return fresh
}

// Spoil marks units to be read again when they are next needed.
func (s *Store) Spoil(numbers ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range numbers {
		s.units[i].spoilt = true
	}
}

// Release releases units held by Need.
func (s *Store) Release(numbers ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range numbers {
		if u := &s.units[i]; u.Group == 0 {
			s.next = (u.at + 1) % len(s.order)
		}
	}
	s.release(numbers)
}

func (s *Store) release(numbers []int) {
	for _, i := range numbers {
		u := &s.units[i]
		u.held--
		if u.held == 0 && u.state == present && (u.Group == 0 && !u.pinned || u.spoilt) {
			s.drop(i)
		}
	}
	s.shrink()
	s.readAhead()
	s.arrived.Broadcast()
}

// readAhead starts reading the next units in order, as far as there is room.
func (s *Store) readAhead() {
	for k := 0; k < len(s.order) && s.reading < concurrentReads && !s.closed; k++ {
		i := s.order[(s.next+k)%len(s.order)]
		u := &s.units[i]
		if u.state != absent {
			continue
		}
		if u.err != nil || !s.room(u, k) { // an error waits for the one who needs the unit
			return
		}
		s.start(i, false)
	}
}

// room makes room for the unit that is used k-th from now, and reports whether it succeeded.
func (s *Store) room(u *unit, k int) bool {
	if u.Group != 0 {
		for !s.fits(u) {
			if !s.forget(true) {
				return false
			}
		}
		return true
	}
	for !u.pinned && s.ring+u.size > s.parts.ring {
		if !s.yield(k) {
			return false
		}
	}
	return true
}

// yield drops the unit of the ring with the latest next use, if that is later than the k-th from now.
func (s *Store) yield(k int) bool {
	for far := len(s.order) - 1; far > k; far-- {
		i := s.order[(s.next+far)%len(s.order)]
		if u := &s.units[i]; !u.pinned && u.state == present && u.held == 0 {
			s.drop(i)
			return true
		}
	}
	return false
}

// fits evicts units that nobody asked for to make room for a unit, and reports whether there is some.
func (s *Store) fits(u *unit) bool {
	for s.cached+u.size > s.parts.cache {
		if !s.forget(false) {
			return false
		}
	}
	return true
}

// forget evicts the least recently used unit; units that were asked for only if `asked` is set.
func (s *Store) forget(asked bool) bool {
	for e := s.recent.Back(); e != nil; e = e.Prev() {
		if u := &s.units[e.Value.(int)]; u.held == 0 && u.state == present && (asked || !u.soon) {
			s.drop(e.Value.(int))
			return true
		}
	}
	return false
}

// shrink evicts what exceeds the limit.
func (s *Store) shrink() {
	for s.ring > s.parts.ring && s.yield(-1) {
	}
	for s.cached > s.parts.cache && s.forget(true) {
	}
}

// drop removes a unit from memory. The huge pages of a unit in the ring are kept for the next: the kernel
// zeroes newly allocated memory, which takes longer than some disks take to read.
func (s *Store) drop(i int) {
	u := &s.units[i]
	u.state, u.spoilt = absent, false
	kept := 0 // up to where its pages are
	if u.Group == 0 && !u.pinned && !s.stuck {
		for at := u.pages[0]; at < u.pages[1]; at += mem.HugePage {
			s.spare = append(s.spare, at)
		}
		kept = u.pages[1]
	}
	for part, r := range u.Ranges {
		at, n := r.pages()
		if at < kept {
			at, n = kept, n-(kept-at)
		}
		if u.Group != 0 { // pages at the ends may be a neighbour's as well
			page := platform.PageSize
			if s.uses(i, part, at) {
				at, n = at+page, n-page
			}
			if n > 0 && s.uses(i, part, at+n-page) {
				n -= page
			}
		}
		if n > 0 {
			_ = s.space.Discard(at, n) // a failure costs memory, not correctness
		}
	}
	s.stats.Present -= u.size
	switch {
	case u.Group != 0:
		s.cached -= u.size
		s.recent.Remove(u.recent)
		u.recent = nil
	case !u.pinned:
		s.ring -= u.size
		s.trim()
	}
}

// refill gives a unit the huge pages that it kept, and spare ones.
func (s *Store) refill(u *unit) {
	var empty []int
	for at := u.pages[0]; at < u.pages[1]; at += mem.HugePage {
		if own := slices.Index(s.spare, at); own >= 0 {
			s.spare = slices.Delete(s.spare, own, own+1)
		} else {
			empty = append(empty, at)
		}
	}
	n := min(len(empty), len(s.spare))
	for k, from := range s.spare[:n] { // in order: what stays side by side stays one mapping, of which a process has only so many
		if s.stuck || s.space.Move(empty[k], from, mem.HugePage) != nil {
			s.stuck = true
			_ = s.space.Discard(from, mem.HugePage) // a failure costs memory, not correctness
		}
	}
	s.spare = slices.Delete(s.spare, 0, n)
	s.trim()
}

// trim releases the spare pages that the ring has no room for.
func (s *Store) trim() {
	for len(s.spare) > 0 && s.ring+uint64(len(s.spare))*mem.HugePage > s.parts.ring {
		_ = s.space.Discard(s.spare[0], mem.HugePage) // a failure costs memory, not correctness
		s.spare = slices.Delete(s.spare, 0, 1)
	}
}

// uses reports whether a neighbor of unit i in its group that is not absent has bytes of a part on the page
// at an offset.
func (s *Store) uses(i, part, page int) bool {
	for _, step := range []int{-1, 1} {
		for k := i + step; k >= 0 && k < len(s.units) && s.units[k].Group == s.units[i].Group; k += step {
			r := s.units[k].Ranges[part]
			if r.At+r.N <= page || page+platform.PageSize <= r.At {
				break
			}
			if s.units[k].state != absent {
				return true
			}
		}
	}
	return false
}

// start begins to read a unit; if `later` is set, at low priority.
func (s *Store) start(i int, later bool) {
	u := &s.units[i]
	u.state, u.left, u.err = coming, len(u.Ranges), nil
	s.stats.Present += u.size
	switch {
	case u.Group != 0:
		s.cached += u.size
		u.recent = s.recent.PushFront(i)
	default:
		s.reading++
		if !u.pinned {
			s.ring += u.size
		}
		s.refill(u)
	}
	for _, r := range u.Ranges {
		off, at, n := r.cover()
		if err := s.space.Commit(at, n); err != nil {
			s.sums.Go(func() { s.record(i, r, err) }) // which waits for the lock
			continue
		}
		s.reader.ask(r.File, off, s.space.Bytes()[at:at+n:at+n], r.At-at+r.N, later, func(err error) { s.came(i, r, err) })
	}
	if u.left == 0 {
		s.finish(i)
	}
}

// came verifies a range of unit i after it was read. The Reader calls it, so it must not block.
func (s *Store) came(i int, r Range, err error) {
	if err != nil || !r.Summed {
		s.record(i, r, err)
		return
	}
	s.sums.Go(func() {
		s.record(i, r, panics.Catch(func() error {
			if Sum(s.space.Bytes()[r.At:r.At+r.N]) != r.Sum {
				return ErrSum
			}
			return nil
		}))
	})
}

// record records that a range of unit i was read, or its error.
func (s *Store) record(i int, r Range, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &s.units[i]
	if err != nil {
		s.stats.Errors++
		if u.err == nil {
			u.err = fmt.Errorf("read the weights: %w", err)
		}
	} else {
		s.stats.Read += uint64(r.N)
	}
	if u.left--; u.left == 0 {
		s.finish(i)
	}
}

// finish marks a unit present, or absent if a read failed.
func (s *Store) finish(i int) {
	u := &s.units[i]
	u.state, u.fresh = present, true
	if u.Group == 0 {
		s.reading--
	}
	if u.err != nil {
		s.drop(i)
	}
	s.shrink()
	s.readAhead()
	s.arrived.Broadcast()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the checksum of a Range.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Unchanged returns ErrChanged if a file was modified since it was opened.
func (s *Store) Unchanged() error { return s.reader.Unchanged() }

// Stats returns the contents and counters.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Pinned, st.Ring, st.Cache = s.parts.pinned, s.parts.ring, s.parts.cache
	return st
}

// Close stops reading and releases the memory. No unit may be held. Closing again is a no-op.
func (s *Store) Close() {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if !was {
		s.reader.Close()
		s.sums.Wait()
		s.space.Close()
	}
}
