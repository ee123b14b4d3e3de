package tokenizer

// Both kinds of vocabulary encode a word in the same way: cut it into its
// smallest parts, then join the best pair of neighbours, the leftmost among
// equals, until no pair can be joined. They differ in what the best pair is.

// maxWord limits the bytes of a word that is merged, so that positions fit in 32 bits. Longer words are
// split. No context holds a word of this size.
const maxWord = 1 << 30

// symbol is a part of a word: word[start:start+size]. Symbols form a list in text order. A symbol that was
// merged into its left neighbor has size 0.
type symbol struct {
	start, size uint32
	prev, next  int32 // -1 at the ends
	id          int32
}

// pairing decides which neighbors may be merged.
type pairing interface {
	// pair returns the id of the merged symbol and the rank of the merge: lower ranks are merged first.
	pair(word string, left, right *symbol) (rank uint32, id int32, ok bool)
}

// candidate is a pair that could be merged when it was pushed. Later merges make it stale, which the sizes
// show.
type candidate struct {
	order    uint64 // rank, then position from the left
	leftSize uint32
	size     uint32 // of both
	id       int32
}

// merger holds the symbols of one word during merging.
type merger struct {
	symbols []symbol
	heap    []candidate // smallest order first
}

// reset begins a word.
func (m *merger) reset() { m.symbols = m.symbols[:0] }

// add appends a symbol of the word.
func (m *merger) add(start, size int, id int32) {
	n := int32(len(m.symbols))
	if n > 0 {
		m.symbols[n-1].next = n
	}
	m.symbols = append(m.symbols, symbol{uint32(start), uint32(size), n - 1, -1, id})
}

// run merges symbols until no pair can be merged.
func (m *merger) run(word string, p pairing) {
	m.heap = m.heap[:0]
	for i := 0; i+1 < len(m.symbols); i++ {
		if c, ok := m.propose(word, p, int32(i)); ok {
			m.heap = append(m.heap, c)
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	for len(m.heap) > 0 {
		c := m.pop()
		at := int32(uint32(c.order))
		left := &m.symbols[at]
		if left.size == 0 || left.next < 0 {
			continue
		}
		right := &m.symbols[left.next]
		if left.size+right.size != c.size {
			continue
		}
		if left.size != c.leftSize {
			// The same text, but split elsewhere since. The candidate is still valid if the present pair makes
			// the same token.
			if _, id, ok := p.pair(word, left, right); !ok || id != c.id {
				continue
			}
		}
		left.size, left.id = c.size, c.id
		right.size = 0
		left.next = right.next
		if right.next >= 0 {
			m.symbols[right.next].prev = at
			m.push(word, p, at)
		}
		if left.prev >= 0 {
			m.push(word, p, left.prev)
		}
	}
}

// propose pushes the candidate of the symbol at i and its right neighbor.
func (m *merger) propose(word string, p pairing, i int32) (candidate, bool) {
	left := &m.symbols[i]
	right := &m.symbols[left.next]
	rank, id, ok := p.pair(word, left, right)
	return candidate{uint64(rank)<<32 | uint64(i), left.size, left.size + right.size, id}, ok
}

func (m *merger) push(word string, p pairing, i int32) {
	c, ok := m.propose(word, p, i)
	if !ok {
		return
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
