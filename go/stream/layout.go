package stream

import (
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/platform"
)

// bigBytes is the size from which a unit is placed on huge pages; it then takes up to one more than its bytes
// fill.
const bigBytes = 8 * mem.HugePage

// A Range is bytes of a file and their address in the space of a Store.
type Range struct {
	File   int
	Off    int64
	N      int
	At     int    // as far into a page as Off is
	Sum    uint32 // CRC-32C, if Summed
	Summed bool
}

// cover returns the blocks around the range that are read, in the file and in the space.
func (r Range) cover() (off int64, at, n int) {
	before := r.At % Align
	return r.Off - int64(before), r.At - before, (before + r.N + Align - 1) / Align * Align
}

// pages returns the pages around the range in the space.
func (r Range) pages() (at, n int) {
	page := platform.PageSize
	at = r.At / page * page
	return at, (r.At + r.N - at + page - 1) / page * page
}

// A Unit is read and evicted as a whole.
type Unit struct {
	Ranges []Range
	// Group is 0 for units that are used in a fixed cyclic order. Units of other groups are used in any order:
	// they are evicted least recently used first, and all units of one group fit in memory at a time if
	// needed.
	Group int
}

// Bytes is the memory that the unit takes.
func (u Unit) Bytes() uint64 {
	n := 0
	for _, r := range u.Ranges {
		_, pages := r.pages()
		n += pages
	}
	return uint64(n)
}

// A Layout is the addresses of units. Each has its own in one address space, most of which is not backed by
// memory.
type Layout struct {
	Units []Unit
	Bytes int            // of the space
	huge  map[int][2]int // from where to where units lie that are on huge pages
}

// Ordered adds a unit of group 0. Each part is a list of ranges that are adjacent in the file and in the
// space; their At is set.
func (l *Layout) Ordered(parts [][]Range) {
	n := 0
	for _, p := range parts {
		n += length(p)
	}
	if n >= bigBytes {
		l.Bytes = (l.Bytes + mem.HugePage - 1) / mem.HugePage * mem.HugePage
	}
	from, u := l.Bytes, Unit{}
	for _, p := range parts {
		l.place(p)
		u.Ranges = append(u.Ranges, p...)
	}
	if n >= bigBytes {
		if l.huge == nil {
			l.huge = map[int][2]int{}
		}
		l.huge[len(l.Units)] = [2]int{from, l.Bytes}
	}
	l.Units = append(l.Units, u)
}

// Grouped adds a new group, with as many units as each part has ranges: unit i consists of range i of each
// part.
func (l *Layout) Grouped(parts [][]Range) {
	first := len(l.Units)
	for range parts[0] {
		l.Units = append(l.Units, Unit{Group: first + 1})
	}
	for _, p := range parts {
		l.place(p)
		for i, r := range p {
			u := &l.Units[first+i]
			u.Ranges = append(u.Ranges, r)
		}
	}
}

// place gives ranges their addresses, on pages of their own.
func (l *Layout) place(p []Range) {
	at := l.Bytes + int(p[0].Off%Align)
	for i := range p {
		p[i].At = at
		at += p[i].N
	}
	page := platform.PageSize
	l.Bytes = (at + page - 1) / page * page
}

func length(p []Range) int {
	n := 0
	for _, r := range p {
		n += r.N
	}
	return n
}
