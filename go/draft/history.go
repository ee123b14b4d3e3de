package draft

import "iter"

const (
	// maxMatch is how many tokens of a text are looked for: more would hardly tell better.
	maxMatch = 24
	// leastMatch is how many have to be found.
	leastMatch = 2
	// maxTries is how many places with the last tokens are looked at.
	maxTries = 16
	// gap lies between two texts. It is no token's id.
	gap = -1
)

// A history is tokens that were, the last of a limited number, in which places with given
// tokens are found: pairs of tokens have chains of their places, the last first (as in
// LZ77 compressors).
type history struct {
	limit int     // tokens, a power of two
	n     int     // tokens so far
	ids   []int32 // the last of them, at their position modulo the length, a power of two
	prev  []int32 // where the pair that ends there was before
	head  []int32 // by hash of a pair: where it was last
}

const firstTokens = 256

// newHistory returns a history of up to limit tokens, a power of two.
func newHistory(limit int) *history { return &history{limit: limit} }

// historyBytes is the most memory of a history of so many tokens.
func historyBytes(tokens int) int {
	n := firstTokens
	for n < tokens {
		n *= 2
	}
	return 3 * 4 * n
}

func (h *history) at(pos int) int32 { return h.ids[pos&(len(h.ids)-1)] }

// has reports whether a position is among those that are kept.
func (h *history) has(pos int) bool { return pos >= 0 && pos < h.n && pos >= h.n-len(h.ids) }

func (h *history) slot(a, b int32) *int32 {
	x := (uint64(uint32(a))<<32 | uint64(uint32(b))) * 0x9e3779b97f4a7c15
	return &h.head[x>>32&uint64(len(h.head)-1)]
}

// push appends a token.
func (h *history) push(id int32) {
	if h.n == len(h.ids) && h.n < h.limit {
		h.grow()
	}
	at := h.n & (len(h.ids) - 1)
	h.ids[at], h.prev[at] = id, -1
	h.n++
	if h.n > 1 && id != gap && h.at(h.n-2) != gap {
		s := h.slot(h.at(h.n-2), id)
		h.prev[at], *s = *s, int32(h.n-1)
	}
	if h.n == 1<<30 { // positions are 32 bits: begin again
		*h = *newHistory(h.limit)
	}
}

// grow doubles the memory, while all tokens so far are kept.
func (h *history) grow() {
	size, was := max(2*len(h.ids), firstTokens), h.ids
	h.ids, h.prev, h.head, h.n = make([]int32, size), make([]int32, size), make([]int32, size), 0
	for i := range h.head {
		h.head[i] = -1
	}
	for _, id := range was {
		h.push(id)
	}
}

// A match is a place with the last tokens of a text, and how many of them.
type match struct {
	pos    int // of the last
	length int // 0: there is none
	others others
}

// others is what other places with these tokens say of the next one.
type others uint8

const (
	silent  others = iota // there are none
	agree                 // the same
	deny                  // something else
	opinion               // the number of these
)

// find returns the place where most of the last tokens of a text are, the latest such.
func (h *history) find(tail []int32) (best match) {
	if len(tail) < leastMatch || len(h.ids) == 0 {
		return best
	}
	places, next := 0, int32(0)
	agreed := true
	pos := int(*h.slot(tail[len(tail)-2], tail[len(tail)-1]))
	for range maxTries {
		if !h.has(pos) {
			break
		}
		if h.has(pos+1) && h.at(pos+1) != gap {
			if n := h.common(tail, pos); n >= leastMatch {
				id := h.at(pos + 1)
				agreed = agreed && (places == 0 || id == next)
				next = id
				places++
				if n > best.length {
					best.pos, best.length = pos, n
				}
			}
		}
		before := int(h.prev[pos&(len(h.ids)-1)])
		if before >= pos {
			break
		}
		pos = before
	}
	switch {
	case places > 1 && agreed:
		best.others = agree
	case places > 1:
		best.others = deny
	}
	return best
}

// common returns how many of the last tokens of a text are before and at pos.
func (h *history) common(tail []int32, pos int) (n int) {
	for n < len(tail) && h.has(pos-n) && h.at(pos-n) == tail[len(tail)-1-n] {
		n++
	}
	return n
}

// after returns the token that follows a match.
func (h *history) after(m match) int32 { return h.at(m.pos + 1) }

// following yields the tokens that follow a match. Where it is a match of the end of the
// history itself, what repeats goes on repeating.
func (h *history) following(m match, ends bool) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		period := h.n - 1 - m.pos
		for k := range MaxGuesses {
			pos := m.pos + 1 + k
			if ends {
				pos = m.pos + 1 + k%period
			}
			if !h.has(pos) || h.at(pos) == gap || !yield(h.at(pos)) {
				return
			}
		}
	}
}
