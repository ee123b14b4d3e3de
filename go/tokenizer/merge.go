package tokenizer

import "slices"

// Both kinds of vocabulary encode a word in the same way: cut it into its
// smallest parts, then join the best pair of neighbours, the leftmost among
// equals, until no pair can be joined. They differ in what the best pair is.

// maxWord limits the bytes of a word that is merged, so that positions fit in 31 bits. Longer words are
// split. No context holds a word of this size.
const maxWord = 1 << 30

// maxToken limits the bytes of a token that may be merged, so that sizes in candidates fit in 16 bits.
const maxToken = 1<<16 - 1

// symbol is a part of a word. A merger has it at the index of its first byte; the index of its last byte, if that
// is another, has its size too, negated. Between the two, sizes are at most 0.
type symbol struct{ size, id int32 }

// pairing decides which neighbors may be merged.
type pairing interface {
	// pair returns the id of the merged symbol, whose text is given, and the rank of the merge: lower ranks are
	// merged first.
	pair(text string, left, right int32) (rank uint32, id int32, ok bool)
}

// candidate is a pair that could be merged when it was pushed. Later merges make it stale, which the sizes
// show.
type candidate struct {
	order    uint64 // rank, then position from the left
	leftSize uint16
	size     uint16 // of both
	id       int32
}

// merger holds the symbols of one word during merging: 8 bytes for each of the word, and about
// 16 of candidates for each symbol that it begins with.
type merger struct {
	symbols []symbol    // by byte of the word
	heap    []candidate // smallest order first
}

// reset begins a word of so many bytes, all of which must then be set, and so many symbols.
func (m *merger) reset(bytes, symbols int) {
	m.symbols = slices.Grow(m.symbols[:0], bytes)[:bytes]
	m.heap = m.heap[:0]
	if symbols > maxKept { // all at once, and no more than there can be pairs
		m.heap = slices.Grow(m.heap, symbols)
	}
}

// set makes a symbol of the size bytes at `at`.
func (m *merger) set(at, size int, id int32) {
	for i := at + 1; i < at+size; i++ {
		m.symbols[i] = symbol{}
	}
	m.symbols[at+size-1].size = int32(-size)
	m.symbols[at] = symbol{int32(size), id}
}

// run merges symbols until no pair can be merged.
func (m *merger) run(word string, p pairing) {
	for at := 0; at < len(word); at += int(m.symbols[at].size) {
		if c, ok := m.propose(word, p, at); ok {
			m.heap = append(m.heap, c)
		}
	}
	m.order()
	for len(m.heap) > 0 {
		c := m.pop()
		if !m.fresh(c) {
			continue
		}
		at := int(uint32(c.order))
		left := &m.symbols[at]
		next := at + int(left.size)
		if left.size != int32(c.leftSize) {
			// The same text, but split elsewhere since. The candidate is still valid if the present pair makes
			// the same token.
			if _, id, ok := p.pair(word[at:at+int(c.size)], left.id, m.symbols[next].id); !ok || id != c.id {
				continue
			}
		}
		m.symbols[next].size = 0
		m.symbols[at+int(c.size)-1].size = -int32(c.size)
		*left = symbol{int32(c.size), c.id}
		m.push(word, p, at)
		if at > 0 {
			if tail := m.symbols[at-1].size; tail < 0 {
				m.push(word, p, at+int(tail))
			} else {
				m.push(word, p, at-1)
			}
		}
	}
}

// fresh reports whether the symbols of a candidate have the same text as when it was pushed.
func (m *merger) fresh(c candidate) bool {
	at := int(uint32(c.order))
	left := m.symbols[at].size
	next := at + int(left)
	return left > 0 && next < len(m.symbols) && left+m.symbols[next].size == int32(c.size)
}

// propose returns the candidate of the symbol at `at` and its right neighbor, if they may be merged.
func (m *merger) propose(word string, p pairing, at int) (candidate, bool) {
	left := m.symbols[at]
	next := at + int(left.size)
	if next == len(word) {
		return candidate{}, false
	}
	right := m.symbols[next]
	size := left.size + right.size
	if size > maxToken {
		return candidate{}, false
	}
	rank, id, ok := p.pair(word[at:at+int(size)], left.id, right.id)
	return candidate{uint64(rank)<<32 | uint64(at), uint16(left.size), uint16(size), id}, ok
}

func (m *merger) push(word string, p pairing, at int) {
	c, ok := m.propose(word, p, at)
	if !ok {
		return
	}
	if len(m.heap) == cap(m.heap) && len(m.heap) > maxKept {
		m.heap = slices.DeleteFunc(m.heap, func(c candidate) bool { return !m.fresh(c) })
		m.order()
	}
	m.heap = append(m.heap, c)
	for i := len(m.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if m.heap[parent].order <= m.heap[i].order {
			break
		}
		m.heap[parent], m.heap[i] = m.heap[i], m.heap[parent]
		i = parent
	}
}

func (m *merger) pop() candidate {
	top := m.heap[0]
	last := len(m.heap) - 1
	m.heap[0] = m.heap[last]
	m.heap = m.heap[:last]
	m.down(0)
	return top
}

// order makes a heap of candidates in any order.
func (m *merger) order() {
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
}

func (m *merger) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(m.heap) {
			return
		}
		if r := least + 1; r < len(m.heap) && m.heap[r].order < m.heap[least].order {
			least = r
		}
		if m.heap[i].order <= m.heap[least].order {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}
