package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/platform"
)

// A faulty file is bytes whose reads fail, or are short, as a test wants.
type faulty struct {
	b     []byte
	short atomic.Bool  // reads of at most two pages
	fail  atomic.Int64 // this many next reads fail
	end   atomic.Int64 // of the file; 0: all of it
	reads atomic.Int64 // bytes
}

func (f *faulty) read(_ int, p []byte, off int64) (int, error) {
	if f.fail.Add(-1) >= 0 {
		return 0, syscall.EIO
	}
	f.fail.Store(0)
	if f.short.Load() {
		p = p[:min(len(p), 2*Align)]
	}
	b := f.b
	if end := f.end.Load(); end > 0 {
		b = b[:end]
	}
	n := 0
	if off < int64(len(b)) {
		n = copy(p, b[off:])
	}
	f.reads.Add(int64(n))
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// layers is n layers of these bytes that begin anywhere in a file, each with so many experts of an eighth.
func layers(n, bytes, experts int) (*faulty, *Layout) {
	random, l, at := rand.New(rand.NewPCG(1, 2)), &Layout{}, 32
	part := func(n, of int) []Range {
		var p []Range
		for range of {
			p = append(p, Range{Off: int64(at), N: n})
			at += n
		}
		at += 32 * random.IntN(9)
		return p
	}
	for range n {
		l.Ordered([][]Range{part(bytes, 1), part(bytes/2, 1)})
		if experts > 0 {
			l.Grouped([][]Range{part(bytes/8, experts), part(bytes/8, experts)})
		}
	}
	f := &faulty{b: make([]byte, at)}
	for i := range f.b {
		f.b[i] = byte(random.Uint32())
	}
	for i := range l.Units {
		for j := range l.Units[i].Ranges {
			r := &l.Units[i].Ranges[j]
			r.Sum, r.Summed = Sum(f.b[r.Off:r.Off+int64(r.N)]), j == 0
		}
	}
	return f, l
}

func open_(t *testing.T, f *faulty, l *Layout, limit uint64) *Store {
	t.Helper()
	s, err := NewStore(l, NewReader(f.read), limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// holds reports whether units in memory are what the file has.
func holds(t *testing.T, s *Store, f *faulty, numbers ...int) {
	t.Helper()
	for _, i := range numbers {
		for _, r := range s.units[i].Ranges {
			if !bytes.Equal(s.Bytes()[r.At:r.At+r.N], f.b[r.Off:r.Off+int64(r.N)]) {
				t.Errorf("unit %d is not what the file has", i)
			}
		}
	}
}

// A new store reads nothing before it is told to begin, so that its memory can be placed: not the first pages either.
func TestBegin(t *testing.T) {
	f, l := layers(9, 30000, 0)
	s := open_(t, f, l, math.MaxInt64)
	if st := s.Stats(); st.Present != 0 || resident(t, s) != 0 || f.reads.Load() != 0 {
		t.Errorf("%d bytes of a new store are present, %d in memory, after %d reads", st.Present, resident(t, s), f.reads.Load())
	}
	s.Spread([]int{-1, -1})
	s.Place(0, l.Bytes, -1)
	s.Begin()
	if st := s.Stats(); st.Present == 0 {
		t.Error("it has begun to read nothing")
	}
	for i := range l.Units {
		if err := s.Need(i); err != nil {
			t.Fatal(err)
		}
		holds(t, s, f, i)
		s.Release(i)
	}
}

// Passes through all units, in any limit from the least on, find what the file has, keep within the limit, and read
// no more of units than what does not stay.
func TestPasses(t *testing.T) {
	const passes = 4
	for _, short := range []bool{false, true} {
		for _, part := range []uint64{0, 10, 50, 99, 100} {
			f, l := layers(9, 30000, 0)
			f.short.Store(short)
			all, least := uint64(0), Least(l.Units)
			for _, u := range l.Units {
				all += u.Bytes()
			}
			s := open_(t, f, l, least+(all-least)*part/100)
			for range passes {
				for i := range l.Units {
					if err := s.Need(i); err != nil {
						t.Fatal(err)
					}
					holds(t, s, f, i)
					if st := s.Stats(); st.Present > st.Limit || st.Present > all {
						t.Fatalf("%d bytes in a limit of %d", st.Present, st.Limit)
					}
					s.Release(i)
				}
			}
			st := s.Stats()
			if most := all + (passes)*(all-st.Pinned); st.Read > most || part == 100 && (st.Read > all || st.Pinned != all) {
				t.Errorf("%d %%: %d of %d bytes stay, %d read, want %d at most", part, st.Pinned, all, st.Read, most)
			}
		}
	}
}

// Experts that are used by chance are there when they are needed, those used last for longest.
func TestExperts(t *testing.T) {
	const nLayers, nExperts = 4, 16
	f, l := layers(nLayers, 64000, nExperts)
	s := open_(t, f, l, Least(l.Units)+400000)
	random := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		for il := range nLayers {
			dense := il * (1 + nExperts)
			need := []int{dense}
			for e := range nExperts {
				if random.IntN(nExperts) < 3 || e < 2 { // the first two always
					need = append(need, dense+1+e)
				}
			}
			if err := s.Need(need...); err != nil {
				t.Fatal(err)
			}
			holds(t, s, f, need...)
			if st := s.Stats(); st.Present > st.Limit {
				t.Fatalf("%d bytes in a limit of %d", st.Present, st.Limit)
			}
			s.Release(need...)
		}
	}
	if st := s.Stats(); st.Hits == 0 || st.Misses == 0 || st.Hits+st.Misses < 30*nLayers*2 {
		t.Errorf("%+v", st)
	}
	// The whole group at once fits in any limit.
	s.SetLimit(0)
	var whole []int
	for e := range nExperts {
		whole = append(whole, 1+e)
	}
	if err := s.Need(whole...); err != nil {
		t.Fatal(err)
	}
	holds(t, s, f, whole...)
	s.Release(whole...)
	if st := s.Stats(); st.Present > Least(l.Units) {
		t.Errorf("%d bytes stay in a limit of %d", st.Present, Least(l.Units))
	}
}

// Of experts that were dropped no page stays, also where one has the ends of several.
func TestDroppedPages(t *testing.T) {
	f, l := layers(2, 24000, 12) // experts are less than a page
	s := open_(t, f, l, Least(l.Units))
	for range 2 {
		for i, u := range l.Units {
			if u.Group == 0 {
				continue
			}
			if err := s.Need(i); err != nil {
				t.Fatal(err)
			}
			holds(t, s, f, i)
			s.Release(i)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	size := platform.PageSize
	used, there := make([]bool, l.Bytes/size+1), 0
	for _, u := range s.units {
		for _, r := range u.Ranges {
			at, n := r.pages()
			for page := at / size; page < (at+n)/size; page++ {
				used[page] = used[page] || u.state != absent
			}
		}
		if u.Group != 0 && u.state != absent {
			there++
		}
	}
	if there == 0 || there == 24 {
		t.Fatalf("%d experts are there", there)
	}
	for page := range l.Bytes / size {
		if b := s.Bytes()[page*size:][:size]; !used[page] && bytes.Count(b, []byte{0}) != size {
			t.Errorf("page %d is nobody's, and is there", page)
		}
	}
}

// resident returns how many bytes of a store's space are in memory.
func resident(t *testing.T, s *Store) uint64 {
	t.Helper()
	b := s.Bytes()
	page := os.Getpagesize() // the kernel's own
	pages := make([]byte, (len(b)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	n := uint64(0)
	for _, p := range pages {
		n += uint64(p&1) * uint64(page)
	}
	return n
}

// mappings returns how many mappings the space of a store is.
func mappings(t *testing.T, s *Store) (n int) {
	t.Helper()
	all, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	b := s.Bytes()
	from := uint64(uintptr(unsafe.Pointer(&b[0])))
	for line := range strings.Lines(string(all)) {
		var lo, hi uint64
		if _, err := fmt.Sscanf(line, "%x-%x", &lo, &hi); err != nil {
			t.Fatal(err)
		}
		if lo < from+uint64(len(b)) && hi > from {
			n++
		}
	}
	return n
}

// settle waits until nothing is being read.
func settle(s *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.reading > 0 {
		s.arrived.Wait()
	}
}

// arrive waits until all that was asked for is there.
func arrive(s *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for slices.ContainsFunc(s.units, func(u unit) bool { return u.state == coming }) {
		s.arrived.Wait()
	}
}

// Large units leave their memory to the next ones, whatever the order: each has what the file has, and together they keep
// within the limit, also while it changes.
func TestMemoryMovesOn(t *testing.T) {
	const n = 5
	f, l := layers(n, bigBytes*3/4, 0) // and half of that
	least := Least(l.Units)
	s := open_(t, f, l, least)
	random := rand.New(rand.NewPCG(8, 9))
	begun := mappings(t, s)
	for pass := range 6 {
		for i := range n {
			if pass > 3 {
				i = random.IntN(n)
			}
			if err := s.Need(i); err != nil {
				t.Fatal(err)
			}
			holds(t, s, f, i)
			if got, limit := resident(t, s), s.Stats().Limit; got > limit {
				t.Fatalf("pass %d: %d bytes are in memory, in a limit of %d", pass, got, limit)
			}
			if pass == 1 { // what is read ahead now fails, and keeps its memory until it is needed
				f.fail.Store(math.MaxInt64)
			}
			s.Release(i)
			if pass == 1 {
				settle(s)
				f.fail.Store(0)
			}
		}
		if s.stuck {
			t.Error("no memory can be moved")
		}
		if got := mappings(t, s); got > begun+3*n { // not one for each huge page
			t.Errorf("pass %d: %d mappings, %d in the beginning", pass, got, begun)
		}
		s.SetLimit([]uint64{least * 2, least, math.MaxInt64, least * 3 / 2, least, least}[pass])
	}
}

// A read that fails is an error of the one who needs it, and the next try succeeds.
func TestFaults(t *testing.T) {
	f, l := layers(5, 30000, 3)
	s := open_(t, f, l, Least(l.Units))
	pass := func() (err error) {
		for i := range l.Units {
			if err := s.Need(i); err != nil {
				return err
			}
			holds(t, s, f, i)
			s.Release(i)
		}
		return nil
	}
	if err := pass(); err != nil {
		t.Fatal(err)
	}
	f.fail.Store(1000)
	if err := pass(); !errors.Is(err, syscall.EIO) {
		t.Errorf("an error of the disk: %v", err)
	}
	f.fail.Store(0)
	if err := pass(); err != nil {
		t.Errorf("after it: %v", err)
	}
	f.end.Store(70001)
	if err := pass(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that was cut: %v", err)
	}
	f.end.Store(0)
	if err := pass(); err != nil {
		t.Errorf("after it: %v", err)
	}
	f.b[l.Units[3].Ranges[0].Off] ^= 1
	if err := pass(); !errors.Is(err, ErrSum) {
		t.Errorf("another byte: %v", err)
	}
	if st := s.Stats(); st.Errors == 0 {
		t.Errorf("%+v", st)
	}
}

// A unit that was guessed is there when it is needed, in place of none that is needed or guessed; one that was guessed wrongly goes before
// those that were used.
func TestGuess(t *testing.T) {
	const nExperts = 16
	f, l := layers(3, 64000*(platform.PageSize/Align), nExperts) // in pages always the same
	size := uint64(0)                                            // of the largest
	for _, u := range l.Units[1 : 1+nExperts] {
		size = max(size, u.Bytes())
	}
	s := open_(t, f, l, Least(l.Units))
	s.SetLimit(s.parts.ring + nExperts*size) // room for as many as a layer has
	unit := func(il, e int) int { return il*(1+nExperts) + 1 + e }
	step := func(il int, experts, guesses []int) {
		t.Helper()
		var need []int
		for _, e := range experts {
			need = append(need, unit(il, e))
		}
		s.Start(need...)
		if len(guesses) > 0 {
			var next []int
			for _, e := range guesses {
				next = append(next, unit(il+1, e))
			}
			s.Guess(next...)
		}
		if err := s.Need(need...); err != nil {
			t.Fatal(err)
		}
		holds(t, s, f, need...)
		if st := s.Stats(); st.Present > st.Limit {
			t.Fatalf("%d bytes in a limit of %d", st.Present, st.Limit)
		}
		arrive(s)
		s.Release(need...)
	}
	step(0, []int{0, 1, 2, 3}, []int{4, 5, 6, 7})
	before := s.Stats()
	step(1, []int{4, 5, 6, 8}, nil)
	if st := s.Stats(); st.Guessed != 4 || st.Right != 3 || st.Hits != before.Hits+3 || st.Misses != before.Misses+1 {
		t.Errorf("%+v, before %+v: want three of four found", st, before)
	}
	// 4 of layer 0 and 5 of layer 1 are there. 8 more would drop one: the wrong one, though others are older.
	step(2, []int{0, 1, 2, 3, 4, 5, 6, 7}, nil)
	before = s.Stats()
	step(0, []int{0, 1, 2, 3}, nil)
	step(1, []int{4, 5, 6, 8}, nil)
	if st := s.Stats(); st.Misses != before.Misses {
		t.Errorf("%d of those that were used are gone", st.Misses-before.Misses)
	}
	// More than there is room for: what is needed and was guessed first stays.
	var all []int
	for e := range nExperts {
		all = append(all, e)
	}
	step(0, []int{8, 9, 10, 11}, all)
	before = s.Stats()
	step(1, all[:12], nil)
	if st := s.Stats(); st.Misses != before.Misses {
		t.Errorf("%d of 12 guesses that had room beside 4 that were needed are not there", st.Misses-before.Misses)
	}
}

// What came is fresh once, what was spoilt is read again, and an ordered unit that passes through the ring is fresh each time.
func TestFresh(t *testing.T) {
	f, l := layers(5, 30000, 2)
	s := open_(t, f, l, Least(l.Units)+l.Units[0].Bytes())
	first, ring := 0, 12 // one that stays, and one that does not
	for range 2 {
		for i := range l.Units {
			if err := s.Need(i); err != nil {
				t.Fatal(err)
			}
			fresh := s.Fresh(i)
			if i == ring && len(fresh) != 1 {
				t.Error("a unit that was read again is not fresh")
			}
			if again := s.Fresh(i); len(again) > 0 {
				t.Errorf("%v are fresh again", again)
			}
			if i == ring {
				clear(s.Bytes()[l.Units[i].Ranges[0].At:][:100]) // the next one to read it finds what the file has
			}
			s.Release(i)
		}
	}
	if err := s.Need(first); err != nil {
		t.Fatal(err)
	}
	if fresh := s.Fresh(first); len(fresh) > 0 {
		t.Errorf("%v are fresh, which stayed", fresh)
	}
	clear(s.Bytes()[l.Units[first].Ranges[0].At:][:100])
	s.Spoil(first)
	s.Release(first)
	if err := s.Need(first); err != nil {
		t.Fatal(err)
	}
	holds(t, s, f, first)
	if fresh := s.Fresh(first); len(fresh) != 1 {
		t.Error("a unit that was spoilt is not read again")
	}
	s.Release(first)
}

// Limits that change, passes that are given up, and two who use the units: what they find is right, and within the
// last limit when they are done.
func TestStorm(t *testing.T) {
	f, l := layers(8, 20000, 6)
	f.short.Store(true)
	least := Least(l.Units)
	s := open_(t, f, l, 4*least)
	var holding sync.Mutex // one at a time holds units: two could each wait for what the other one holds
	var users sync.WaitGroup
	for seed := range 2 {
		users.Go(func() {
			random := rand.New(rand.NewPCG(uint64(seed), 5))
			for range 40 {
				to := random.IntN(8) + 1
				for il := range to {
					need := []int{il * 7}
					for e := range 6 {
						if random.IntN(3) == 0 {
							need = append(need, il*7+1+e)
						}
					}
					if random.IntN(50) == 0 {
						f.fail.Store(1)
					}
					if random.IntN(2) == 0 {
						s.Start(need...)
						s.Guess((il+1)%8*7+1+random.IntN(3), (il+1)%8*7+4+random.IntN(3))
					}
					holding.Lock()
					if err := s.Need(need...); err == nil {
						holds(t, s, f, need...)
						s.Release(need...)
					}
					holding.Unlock()
				}
				if seed == 0 {
					s.SetLimit(2*least + random.Uint64N(8*least))
				}
			}
		})
	}
	users.Wait()
	s.SetLimit(2 * least)
	f.fail.Store(0)
	for i := range l.Units { // what is coming has come by then
		if err := s.Need(i); err != nil {
			t.Fatal(err)
		}
		s.Release(i)
	}
	if st := s.Stats(); st.Present > st.Limit {
		t.Errorf("%d bytes in a limit of %d", st.Present, st.Limit)
	}
}

// Files are read as they are, by each way that this machine has, also where they end within a page.
func TestReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights")
	want := make([]byte, 3<<20+777)
	random := rand.New(rand.NewPCG(7, 8))
	for i := range want {
		want[i] = byte(random.Uint32())
	}
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	direct, err := Open([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(direct.How())
	src, ok, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	threads := &Reader{files: []source{src}, queue: newQueue(), cached: !ok, piece: chunkBytes, align: Align}
	threads.serve(threads.pread, inFlight)
	for name, r := range map[string]*Reader{"as here": direct, "threads": threads} {
		l := &Layout{}
		l.Ordered([][]Range{{{Off: 100, N: 2000000}}, {{Off: 2100000, N: len(want) - 2100000}}})
		s, err := NewStore(l, r, 8<<20)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Need(0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		holds(t, s, &faulty{b: want}, 0)
		s.Release(0)
		if err := s.Unchanged(); err != nil {
			t.Error(err)
		}
		s.Close()
		s.Close()
	}
	r, err := Open([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.Truncate(path, 5000); err != nil {
		t.Fatal(err)
	}
	if err := r.Unchanged(); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that was cut: %v", err)
	}
	if _, err := Open([]string{path, "/nowhere"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Layouts place parts at addresses as far into a page as they are in the file, apart from each other.
func TestLayout(t *testing.T) {
	_, l := layers(3, 5000, 2)
	var ends []int
	for _, u := range l.Units {
		for _, r := range u.Ranges {
			if int64(r.At)%Align != r.Off%Align || r.At+r.N > l.Bytes {
				t.Errorf("%+v", r)
			}
			ends = append(ends, r.At)
		}
	}
	if slices.Sort(ends); len(slices.Compact(ends)) != 3*(2+2*2) {
		t.Errorf("%d places", len(ends))
	}
}
