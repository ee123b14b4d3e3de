package constrain

import (
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// A Vocabulary is tokens indexed by their bytes. It is safe for concurrent use.
type Vocabulary struct {
	// Encode returns the tokens of a text that follows another; nil: no forecasts.
	Encode func(text string) []int32

	piece   func(id int32) []byte
	n       int
	ids     map[string][]int32
	longest int      // bytes that a token prints at most
	alone   [257]int // of each byte: how many below are tokens of their own
	ends    []int32  // tokens that end a text
	trie    func() *trie
	commas  func() []int32
	cache   cache
	stacks  *atomic.Int64 // bytes of the stacks of texts

	slicing sync.Mutex
	slices  []*slice // the last used first
}

// NewVocabulary returns a Vocabulary of n tokens. Tokens for which piece returns no bytes are not part of any
// text.
func NewVocabulary(n int, piece func(id int32) []byte, ends []int32) *Vocabulary {
	v := &Vocabulary{piece: piece, n: n, ids: make(map[string][]int32, n), ends: ends, stacks: new(atomic.Int64)}
	for id := range int32(n) {
		if b := piece(id); len(b) > 0 {
			v.ids[string(b)] = append(v.ids[string(b)], id)
			v.longest = max(v.longest, len(b))
		}
	}
	for b := range 256 {
		v.alone[b+1] = v.alone[b]
		if v.ids[string([]byte{byte(b)})] != nil {
			v.alone[b+1]++
		}
	}
	v.trie = sync.OnceValue(func() *trie { return newTrie(v) })
	v.commas = sync.OnceValue(v.findCommas)
	return v
}

// single returns how many of the bytes from lo to hi are tokens of their own.
func (v *Vocabulary) single(lo, hi int) int { return v.alone[hi+1] - v.alone[lo] }

// A trie is the token texts, by bytes. Its nodes are sorted by text: a node is followed by its descendants.
// One more node ends the list.
type trie struct {
	nodes  []trieNode
	ids    []int32
	points []uint16 // of each of them: how many code points, of which the last may be cut; 0: it is no such text
	texts  Set      // all ids
	whole  bool     // no token ends inside a code point
	long   []int32  // indexes in ids of those of more than longPoints, the longest first
	spans  []span
	sets   map[int32]Set // by span of many tokens: those of its node and below it
}

type trieNode struct {
	next  int32 // the first node that is not below
	from  int32 // index in ids of its tokens; those below it follow
	below int32 // index in spans; 0: few tokens
	depth uint16
	byte  byte
}

// A span is what all bytes below a node have in common.
type span struct {
	run
	whole   bool  // they are code points, of which the last may be cut
	longest int32 // as many at most
	lead    int32 // as many with the node's byte, the first of several; 0: those are none
}

// spanTokens is the least number of tokens of a node with a span, setTokens of one with a set.
const (
	spanTokens = 2
	setTokens  = 1024
)

// longPoints is the maximum number of code points of tokens that are not in trie.long.
const longPoints = 8

// newTrie builds a trie without end tokens and without tokens longer than 64 KiB.
func newTrie(v *Vocabulary) *trie {
	texts := make([]string, 0, len(v.ids))
	for text, ids := range v.ids {
		if len(text) < 1<<16 && slices.ContainsFunc(ids, func(id int32) bool { return !slices.Contains(v.ends, id) }) {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	t := &trie{nodes: make([]trieNode, 1, 4*len(texts)+2), spans: make([]span, 1), sets: map[int32]Set{}}
	t.whole = !slices.ContainsFunc(texts, func(text string) bool { return !utf8.ValidString(text) })
	var path []int32 // nodes of the text before
	last := ""
	leave := func(depth int) {
		for _, i := range path[depth:] {
			t.nodes[i].next = int32(len(t.nodes))
		}
		path = path[:depth]
	}
	for _, text := range texts {
		shared := 0
		for shared < min(len(last), len(text)) && last[shared] == text[shared] {
			shared++
		}
		leave(shared)
		for k := shared; k < len(text); k++ {
			path = append(path, int32(len(t.nodes)))
			t.nodes = append(t.nodes, trieNode{from: int32(len(t.ids)), depth: uint16(k + 1), byte: text[k]})
		}
		points := codePoints(text)
		for _, id := range v.ids[text] {
			if !slices.Contains(v.ends, id) {
				t.ids = append(t.ids, id)
				t.points = append(t.points, points)
			}
		}
		last = text
	}
	leave(0)
	t.nodes[0].next = int32(len(t.nodes))
	t.nodes = append(t.nodes, trieNode{from: int32(len(t.ids))})
	t.measure(0, v.n)
	t.texts = NewSet(v.n)
	t.texts.addAll(t.ids)
	for at, n := range t.points {
		if n > longPoints {
			t.long = append(t.long, int32(at))
		}
	}
	slices.SortStableFunc(t.long, func(a, b int32) int { return int(t.points[b]) - int(t.points[a]) })
	return t
}

// own returns the tokens of a node itself.
func (t *trie) own(i int32) []int32 { return t.ids[t.nodes[i].from:t.nodes[i+1].from] }
func (t *trie) all(i int32) []int32 { return t.ids[t.nodes[i].from:t.nodes[t.nodes[i].next].from] }

// measure computes the spans of a node and its descendants. The result describes the bytes below it; `whole`
// is as if a code point began there.
func (t *trie) measure(i int32, n int) span {
	s := span{whole: true}
	for c := i + 1; c < t.nodes[i].next; c = t.nodes[c].next {
		below := t.measure(c, n)
		s.ascii[0] |= below.ascii[0]
		s.ascii[1] |= below.ascii[1]
		s.rest = s.rest || below.rest
		if b := t.nodes[c].byte; b < 0x80 {
			s.ascii[b/64] |= 1 << (b % 64)
			s.whole = s.whole && below.whole
			s.longest = max(s.longest, below.longest+1)
			continue
		}
		s.rest = true
		points, ok := t.codePoint(c)
		if k := t.nodes[c].below; k > 0 && ok {
			t.spans[k].lead = points
		}
		s.whole = s.whole && ok
		s.longest = max(s.longest, points)
	}
	if all := t.all(i); len(all) >= spanTokens {
		if len(all) >= setTokens {
			set := NewSet(n)
			set.addAll(all)
			t.sets[int32(len(t.spans))] = set
		}
		t.nodes[i].below = int32(len(t.spans))
		t.spans = append(t.spans, s)
	}
	return s
}

// leads returns the range of the second byte after a first byte, and how many bytes follow.
func leads(b byte) (lo, hi byte, n int) {
	switch {
	case b >= 0xC2 && b <= 0xDF:
		return 0x80, 0xBF, 1
	case b == 0xE0:
		return 0xA0, 0xBF, 2
	case b == 0xED:
		return 0x80, 0x9F, 2
	case b >= 0xE1 && b <= 0xEF:
		return 0x80, 0xBF, 2
	case b == 0xF0:
		return 0x90, 0xBF, 3
	case b >= 0xF1 && b <= 0xF3:
		return 0x80, 0xBF, 3
	case b == 0xF4:
		return 0x80, 0x8F, 3
	}
	return 1, 0, 0
}

// codePoints counts the code points of a text, the last of which may be incomplete; 0: invalid.
func codePoints(text string) (n uint16) {
	more := 0
	lo, hi := byte(0x80), byte(0xBF)
	for i := range len(text) {
		switch b := text[i]; {
		case more > 0:
			if b < lo || b > hi {
				return 0
			}
			lo, hi = 0x80, 0xBF
			more--
			continue
		case b >= 0x80:
			if lo, hi, more = leads(b); more == 0 {
				return 0
			}
		}
		n++
	}
	return n
}

// codePoint reports whether the texts below a node, whose byte begins a code point, are code points, and
// their maximum number, including this one.
func (t *trie) codePoint(i int32) (longest int32, whole bool) {
	lo, hi, n := leads(t.nodes[i].byte)
	if n == 0 {
		return 0, false
	}
	return t.continued(i, lo, hi, n)
}

// continued is codePoint with n remaining bytes, the first of which is from lo to hi.
func (t *trie) continued(i int32, lo, hi byte, n int) (longest int32, whole bool) {
	if n == 0 {
		s := t.span(i)
		return s.longest + 1, s.whole
	}
	if len(t.own(i)) > 0 {
		longest = 1 // cut
	}
	for c := i + 1; c < t.nodes[i].next; c = t.nodes[c].next {
		if t.nodes[c].byte < lo || t.nodes[c].byte > hi {
			return 0, false
		}
		m, ok := t.continued(c, 0x80, 0xBF, n-1)
		if !ok {
			return 0, false
		}
		longest = max(longest, m)
	}
	return longest, true
}

// span returns the span of a node that is already measured.
func (t *trie) span(i int32) span {
	if k := t.nodes[i].below; k > 0 {
		return t.spans[k]
	}
	s := span{whole: true}
	for c := i + 1; c < t.nodes[i].next; c = t.nodes[c].next {
		n, ok := int32(1), true
		if t.nodes[c].byte < 0x80 {
			below := t.span(c)
			n, ok = below.longest+1, below.whole
		} else {
			n, ok = t.codePoint(c)
		}
		s.whole = s.whole && ok
		s.longest = max(s.longest, n)
	}
	return s
}

// covers reports whether all bytes of a span are in a run.
func (r *reach) covers(s *span) bool {
	run := &r.loop.run
	return s.ascii[0]&^run.ascii[0] == 0 && s.ascii[1]&^run.ascii[1] == 0 && (!s.rest || run.rest && s.whole) && s.longest <= r.left
}
