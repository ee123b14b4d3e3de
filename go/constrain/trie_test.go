package constrain

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// pointsOf is codePoints by definition: how many code points a text has if it is the beginning of a text in UTF-8.
func pointsOf(text string) int {
	n := 0
	for text != "" {
		_, size := utf8.DecodeRuneInString(text)
		if !utf8.FullRuneInString(text) {
			return n + 1
		}
		if r, _ := utf8.DecodeRuneInString(text); r == utf8.RuneError && size == 1 {
			return 0
		}
		n, text = n+1, text[size:]
	}
	return n
}

// Texts are counted by code points, of which the last may be cut; others are none.
func TestCodePoints(t *testing.T) {
	for a := range 256 {
		for b := range 256 {
			for _, rest := range []string{"", "\x80", "\xbf", "\x80\x80", "\xbf\xbf", "a", "\x80a", "\xc2", "\x7f\x80", "\xc0"} {
				text := string([]byte{byte(a), byte(b)}) + rest
				if got := int(codePoints(text)); got != pointsOf(text) {
					t.Fatalf("%q has %d, want %d", text, got, pointsOf(text))
				}
			}
		}
	}
}

// The trie has every text of the vocabulary that is no end, in order, and says of each node what the texts below it have in
// common.
func TestTrie(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	parts := []string{"a", "b", "A", "~", "\x00", "\x7f", "é", "字", "🦙", "\xc3", "\xe5", "\xe5\xad", "\xf0\x9f", "\xa9", "\xed\xa0", "\x80", "\xf5"}
	for round := range 300 {
		var pieces []string
		for range 1 + random.IntN(30) {
			var b strings.Builder
			for range random.IntN(6) {
				b.WriteString(parts[random.IntN(len(parts))])
			}
			pieces = append(pieces, b.String())
		}
		if round == 0 {
			for range 1100 { // a node with a set
				pieces = append(pieces, "b"+parts[random.IntN(4)]+parts[random.IntN(4)])
			}
			pieces = append(pieces, strings.Repeat("a", 12), strings.Repeat("é", 9), strings.Repeat("a", 9), strings.Repeat("b", 8))
		}
		var ends []int32
		if random.IntN(2) == 0 {
			ends = []int32{int32(random.IntN(len(pieces)))}
		}
		v := NewVocabulary(len(pieces), func(id int32) []byte { return []byte(pieces[id]) }, ends)
		trie := v.trie()
		longest := 0
		for _, p := range pieces {
			longest = max(longest, len(p))
		}
		if v.longest != longest {
			t.Fatalf("the longest has %d bytes, want %d", v.longest, longest)
		}
		found := map[string][]int32{}
		path := ""
		for i := range trie.nodes[:len(trie.nodes)-1] {
			node := trie.nodes[i]
			if i > 0 {
				path = path[:node.depth-1] + string([]byte{node.byte})
				found[path] = append(found[path], trie.own(int32(i))...)
			}
			checkNode(t, trie, int32(i), path, pieces, ends)
		}
		for id, p := range pieces {
			if in := p != "" && !slices.Contains(ends, int32(id)); in != slices.Contains(found[p], int32(id)) || in != trie.texts.Has(int32(id)) {
				t.Fatalf("%q: found %v, in the set %v, want %v", p, found[p], trie.texts.Has(int32(id)), in)
			}
		}
		var long []int
		for i, id := range trie.ids {
			n := pointsOf(pieces[id])
			if int(trie.points[i]) != n {
				t.Fatalf("%q has %d code points, want %d", pieces[id], trie.points[i], n)
			}
			if n > 8 {
				long = append(long, n)
			}
		}
		slices.SortFunc(long, func(a, b int) int { return b - a })
		var got []int
		for _, at := range trie.long {
			got = append(got, int(trie.points[at]))
		}
		if !slices.Equal(got, long) {
			t.Fatalf("long texts have %v code points, want %v", got, long)
		}
	}
}

// checkNode compares a node's span with the texts below it.
func checkNode(t *testing.T, trie *trie, i int32, path string, pieces []string, ends []int32) {
	t.Helper()
	var below []string
	all := 0
	for id, p := range pieces {
		if p == "" || slices.Contains(ends, int32(id)) || !strings.HasPrefix(p, path) {
			continue
		}
		all++
		if len(p) > len(path) {
			below = append(below, p[len(path):])
		}
	}
	if got := len(trie.all(i)); got != all {
		t.Fatalf("%q begins %d tokens, want %d", path, got, all)
	}
	var ascii [2]uint64
	rest, valid := false, true
	most, lead, leads := 0, 0, path != "" && path[len(path)-1] >= 0x80
	for _, p := range below {
		for k := range len(p) {
			if p[k] < 0x80 {
				ascii[p[k]/64] |= 1 << (p[k] % 64)
			} else {
				rest = true
			}
		}
		n := pointsOf(p)
		valid = valid && n > 0
		most = max(most, n)
	}
	s := trie.span(i)
	if s.whole != valid || valid && int(s.longest) != most {
		t.Fatalf("below %q: whole %v, at most %d, want %v, %d", path, s.whole, s.longest, valid, most)
	}
	k := trie.nodes[i].below
	if (k > 0) != (all >= 2) {
		t.Fatalf("%q begins %d tokens, and has the span %d", path, all, k)
	}
	if k == 0 {
		return
	}
	span := trie.spans[k]
	if span.ascii != ascii || span.rest != rest {
		t.Fatalf("below %q: %x, %v, want %x, %v", path, span.ascii, span.rest, ascii, rest)
	}
	set, ok := trie.sets[k]
	if ok != (all >= 1024) {
		t.Fatalf("%q begins %d tokens, and has a set: %v", path, all, ok)
	}
	if ok {
		for id := range int32(len(pieces)) {
			if set.Has(id) != slices.Contains(trie.all(i), id) {
				t.Fatalf("below %q: %d is in the set: %v", path, id, set.Has(id))
			}
		}
	}
	// The node's byte may be the first of a code point: then what it begins is counted with it.
	if leads {
		for _, p := range append(below, "") {
			if len(p) == 0 && !slices.Contains(pieces, path) {
				continue
			}
			n := pointsOf(path[len(path)-1:] + p)
			if n == 0 {
				lead = 0
				break
			}
			lead = max(lead, n)
		}
		if int(span.lead) != lead {
			t.Fatalf("from the last byte of %q on: %d code points, want %d", path, span.lead, lead)
		}
	}
}

// Every first byte of UTF-8 is followed by bytes of its own range, and so many of them.
func TestLeads(t *testing.T) {
	for b := range 256 {
		lo, hi, n := leads(byte(b))
		for c := range 256 {
			size := 0
			for _, rest := range []string{"", "\x80", "\x80\x80"} {
				if text := string([]byte{byte(b), byte(c)}) + rest; utf8.ValidString(text) && utf8.RuneCountInString(text) == 1 {
					size = len(text)
				}
			}
			if in := n > 0 && byte(c) >= lo && byte(c) <= hi; in != (size > 0) || in && size != n+1 {
				t.Errorf("%#x %#x: %#x to %#x, %d more; want %d bytes", b, c, lo, hi, n, size)
			}
		}
	}
}
