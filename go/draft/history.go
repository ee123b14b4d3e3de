package draft

import "iter"

const (
	// maxMatch is the maximum length of a match: longer ones would hardly be better.
	maxMatch = 24
	// leastMatch is the minimum length of a match.
	leastMatch = 2
	// longTail is the length of tails with chains of their own. A common pair occurs too often to look at all its
	// places, and the place with the longest match may be far back.
	longTail = 6
	// maxTries is the maximum number of places of a chain that are looked at.
	maxTries = 16
	// gap separates two texts. It is not the id of a token.
	gap = -1
)

// A history is the last tokens of one or several texts, with an index of the places where given tokens occur. For
// each pair of tokens a chain links its places, latest first (as in LZ77 compressors); for each longTail tokens
// too.
type history struct {
	limit int     // tokens, a power of two
	n     int     // tokens so far
	whole int     // tokens since the last gap
	ids   []int32 // ring buffer of the last tokens; its length is a power of two
	pairs chain
	tails chain // of longTail tokens
}

// A chain links each place to the previous one with the same tokens before it.
type chain struct {
	prev []int32 // by position, as ids: the previous place where the same tokens end
	head []int32 // by hash of these tokens: the latest place where they end
}

func newChain(size int) chain {
	c := chain{make([]int32, size), make([]int32, size)}
	for i := range c.head {
		c.head[i] = -1
	}
	return c
}

func (c *chain) slot(tokens []int32) *int32 {
	x := uint64(0)
	for _, id := range tokens {
		x = (x ^ uint64(uint32(id))) * 0x9e3779b97f4a7c15
		x ^= x >> 29
	}
	return &c.head[x>>32&uint64(len(c.head)-1)]
}

// add adds a place where these tokens end, or, without tokens, a place that is in no chain.
func (c *chain) add(pos int, tokens []int32) {
	at := pos & (len(c.prev) - 1)
	if c.prev[at] = -1; len(tokens) > 0 {
		s := c.slot(tokens)
		c.prev[at], *s = *s, int32(pos)
	}
}

const firstTokens = 256

// newHistory returns a history of up to limit tokens, a power of two.
func newHistory(limit int) *history { return &history{limit: limit} }

// historyBytes returns the maximum memory of a history of so many tokens.
func historyBytes(tokens int) int {
	n := firstTokens
	for n < tokens {
		n *= 2
	}
	return 5 * 4 * n
}

func (h *history) at(pos int) int32 { return h.ids[pos&(len(h.ids)-1)] }

// has reports whether the token at a position is still stored.
func (h *history) has(pos int) bool { return pos >= 0 && pos < h.n && pos >= h.n-len(h.ids) }

// push appends a token.
func (h *history) push(id int32) {
	if h.n == len(h.ids) && h.n < h.limit {
		h.grow()
	}
	h.ids[h.n&(len(h.ids)-1)] = id
	h.n++
	if h.whole++; id == gap {
		h.whole = 0
	}
	var last [longTail]int32
	for i := range min(longTail, h.whole) {
		last[longTail-1-i] = h.at(h.n - 1 - i)
	}
	h.pairs.add(h.n-1, ending(last[:], h.whole, leastMatch))
	h.tails.add(h.n-1, ending(last[:], h.whole, longTail))
	if h.n == 1<<30 { // positions are 32 bits: start over
		*h = *newHistory(h.limit)
	}
}

// ending returns the last n tokens, none if there are fewer.
func ending(last []int32, has, n int) []int32 {
	if has < n {
		return nil
	}
	return last[len(last)-n:]
}

// grow doubles the ring buffer, before its first token would be overwritten.
func (h *history) grow() {
	size, was := max(2*len(h.ids), firstTokens), h.ids
	h.ids, h.n, h.whole = make([]int32, size), 0, 0
	h.pairs, h.tails = newChain(size), newChain(size)
	for _, id := range was {
		h.push(id)
	}
}

// A place is a position where the last tokens of a text occur.
type place struct {
	pos    int // of the last of these tokens
	length int // how many of these tokens match; 0: there is no such place
}

// A match is the place where the most of the last tokens of a text occur.
type match struct {
	place
	others others
	rival  place // the longest match followed by a different token
}

// others says whether the other places with the same last tokens predict the same next token.
type others uint8

const (
	silent  others = iota // there are no other places
	agree                 // they predict the same token
	deny                  // some predict another token
	opinion               // number of values
)

// find returns the place where the most of the last tokens of a text occur, the latest of these. `on` is the
// place of the last match, advanced with the text, -1: none; it is preferred if it is longer, or has the maximum
// length.
func (h *history) find(tail []int32, on int) (best match) {
	if len(tail) < leastMatch || len(h.ids) == 0 {
		return best
	}
	if best = h.search(&h.tails, tail, longTail); best.length == 0 {
		best = h.search(&h.pairs, tail, leastMatch)
	}
	if n := h.length(tail, on); n >= leastMatch && (n > best.length || n == maxMatch) {
		best.beside(h, place{on, n})
	}
	return best
}

// length returns how many tokens of a text match before and at pos, 0 if what follows pos is not stored.
func (h *history) length(tail []int32, pos int) int {
	if !h.has(pos) || !h.has(pos+1) || h.at(pos+1) == gap {
		return 0
	}
	return h.common(tail, pos)
}

// search is find over one chain, of places with the same last n tokens.
func (h *history) search(c *chain, tail []int32, n int) (best match) {
	if len(tail) < n {
		return best
	}
	places, next := 0, int32(0)
	agreed := true
	pos := int(*c.slot(tail[len(tail)-n:]))
	for range maxTries {
		if !h.has(pos) {
			break
		}
		if found := h.length(tail, pos); found >= n {
			id := h.at(pos + 1)
			agreed = agreed && (places == 0 || id == next)
			next = id
			places++
			if found > best.length {
				best.beside(h, place{pos, found})
			} else if found > best.rival.length && id != h.at(best.pos+1) {
				best.rival = place{pos, found}
			}
		}
		before := int(c.prev[pos&(len(h.ids)-1)])
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

// beside replaces the place by a better one. The old one becomes the rival if a different token follows it.
func (m *match) beside(h *history, better place) {
	id := h.at(better.pos + 1)
	switch {
	case m.length > 0 && h.at(m.pos+1) != id:
		m.rival = m.place
	case m.rival.length > 0 && h.at(m.rival.pos+1) == id:
		m.rival = place{}
	}
	m.place = better
}

// common returns how many of the last tokens of a text match before and at pos.
func (h *history) common(tail []int32, pos int) (n int) {
	for n < len(tail) && h.has(pos-n) && h.at(pos-n) == tail[len(tail)-1-n] {
		n++
	}
	return n
}

// after returns the token that follows a match.
func (h *history) after(m match) int32 { return h.at(m.pos + 1) }

// following yields the tokens that follow a match. If the tail is the end of the history itself, a repetition
// continues beyond that end.
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
