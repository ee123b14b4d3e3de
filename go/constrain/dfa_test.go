package constrain

import (
	"math/rand/v2"
	"testing"
)

// randomDFA has some states, and classes of a few letters.
func randomDFA(random *rand.Rand) *dfa {
	var edge [257]bool
	for _, b := range []int{'b', 'c', 'd', 0x80, 256} {
		edge[b] = random.IntN(2) == 0
	}
	d := &dfa{alphabet: newAlphabet(&edge)}
	n := 1 + random.IntN(6)
	for range n {
		d.add(random.IntN(3) == 0)
	}
	for i := range d.next {
		d.next[i] = int32(random.IntN(n+1)) - 1
	}
	return d
}

// has tells whether a text leads to an end.
func (d *dfa) has(text string) bool {
	n := int32(0)
	for i := 0; i < len(text) && n >= 0; i++ {
		n = d.row(n)[d.classOf[text[i]]]
	}
	return n >= 0 && d.accepts[n]
}

// shortTexts calls visit with all short texts of some letters.
func shortTexts(visit func(text string)) {
	var extend func(text string)
	extend = func(text string) {
		visit(text)
		if len(text) < 5 {
			for _, b := range "abcd\x80" {
				extend(text + string([]byte{byte(b)}))
			}
		}
	}
	extend("")
}

// Products, and automata without dead states or with as few as can be, have the texts that they are to have.
func TestDFAs(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		a, b := randomDFA(random), randomDFA(random)
		and, less := product(a, b, false, nil), product(a, b, true, nil)
		trimmed := &dfa{alphabet: a.alphabet, next: append([]int32{}, a.next...), accepts: append([]bool{}, a.accepts...)}
		trimmed.trim()
		small := (&dfa{alphabet: a.alphabet, next: append([]int32{}, trimmed.next...), accepts: append([]bool{}, trimmed.accepts...)}).minimal(nil)
		shortTexts(func(text string) {
			x, y := a.has(text), b.has(text)
			if and.has(text) != (x && y) || less.has(text) != (x && !y) || trimmed.has(text) != x || small.has(text) != x {
				t.Fatalf("%q: in %v, %v; in both %v, in the first only %v; trimmed %v, minimal %v", text, x, y, and.has(text), less.has(text), trimmed.has(text), small.has(text))
			}
		})
		if got, want := len(small.accepts), distinct(trimmed); got != want {
			t.Fatalf("%d states, want %d", got, want)
		}
		alive := living(trimmed)
		for n, is := range alive {
			if !is && n > 0 {
				t.Fatalf("state %d of the trimmed has no text", n)
			}
		}
		if len(trimmed.accepts) > 1 && !alive[0] {
			t.Fatal("no texts, and more than a state")
		}
	}
}

// distinct is the number of states that some text tells apart, of those that are reached.
func distinct(d *dfa) int {
	n := len(d.accepts)
	class := make([]int, n)
	for i, is := range d.accepts {
		if is {
			class[i] = 1
		}
	}
	for count := 0; ; {
		ids := map[string]int{}
		next := make([]int, n)
		for i := range n {
			key := string(rune(class[i]))
			for _, to := range d.row(int32(i)) {
				if to < 0 {
					key += "-"
				} else {
					key += string(rune('0' + class[to]))
				}
			}
			if _, ok := ids[key]; !ok {
				ids[key] = len(ids)
			}
			next[i] = ids[key]
		}
		class = next
		if len(ids) == count {
			return count
		}
		count = len(ids)
	}
}

// living tells of each state whether it leads to an end.
func living(d *dfa) []bool {
	alive := append([]bool{}, d.accepts...)
	for range alive {
		for i := range alive {
			for _, to := range d.row(int32(i)) {
				alive[i] = alive[i] || to >= 0 && alive[to]
			}
		}
	}
	return alive
}

// The transitions into states are those out of them.
func TestBefore(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		d := randomDFA(random)
		states := len(d.accepts)
		at, list := d.before()
		for c := range d.first {
			for n := range states {
				want := map[int32]bool{}
				for from := range states {
					if d.row(int32(from))[c] == int32(n) {
						want[int32(from)] = true
					}
				}
				got := list[at[c*states+n]:at[c*states+n+1]]
				if len(got) != len(want) {
					t.Fatalf("%v lead to %d by class %d, want %v", got, n, c, want)
				}
				for _, from := range got {
					if !want[from] {
						t.Fatalf("%v lead to %d by class %d, want %v", got, n, c, want)
					}
				}
			}
		}
	}
}

// Classes of bytes are ranges between edges.
func TestAlphabets(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		var edge [257]bool
		for range random.IntN(6) {
			edge[[]int{0, 1, 'a', 'b', 0x7F, 0x80, 0xFE, 0xFF, 256, random.IntN(257)}[random.IntN(10)]] = true
		}
		a := newAlphabet(&edge)
		class := -1
		for b := range 256 {
			if b == 0 || edge[b] {
				class++
				if int(a.first[class]) != b {
					t.Fatalf("class %d begins at %#x, want %#x", class, a.first[class], b)
				}
			}
			if int(a.classOf[b]) != class || b < int(a.first[class]) || b > a.last(class) {
				t.Fatalf("%#x is in class %d of %#x to %#x, want %d", b, a.classOf[b], a.first[class], a.last(class), class)
			}
		}
		if len(a.first) != class+1 || a.last(class) != 0xFF {
			t.Fatalf("%d classes to %#x, want %d", len(a.first), a.last(class), class+1)
		}
	}
}
