package constrain

import (
	"slices"

	"github.com/quern-llm/quern/go/grammar"
)

// A dfa is a deterministic finite automaton over bytes. State 0 is the start.
type dfa struct {
	alphabet
	next    []int32 // of each state, by class; -1: no text goes on
	accepts []bool
}

// An alphabet partitions the bytes into classes, each a range.
type alphabet struct {
	classOf [256]byte
	first   []byte // of each class
}

// newAlphabet returns the classes with these first bytes.
func newAlphabet(edge *[257]bool) (a alphabet) {
	for b := range 256 {
		if b == 0 || edge[b] {
			a.first = append(a.first, byte(b))
		}
		a.classOf[b] = byte(len(a.first) - 1)
	}
	return a
}

// last returns the last byte of a class.
func (a *alphabet) last(class int) int {
	if class+1 < len(a.first) {
		return int(a.first[class+1]) - 1
	}
	return 0xFF
}

// row returns the transitions of a state.
func (d *dfa) row(n int32) []int32 { return d.next[int(n)*len(d.first):][:len(d.first)] }

// add adds a state without transitions.
func (d *dfa) add(accepts bool) int32 {
	d.next = slices.Grow(d.next, len(d.first))
	for range d.first {
		d.next = append(d.next, -1)
	}
	d.accepts = append(d.accepts, accepts)
	return int32(len(d.accepts) - 1)
}

// A pair is a state of a product.
type pair struct{ a, b int32 }

// product returns the intersection of a and b, or with `not` the difference.
func product(a, b *dfa, not bool, work *grammar.Work) *dfa {
	d, _ := pairs(a, b, not, work)
	return d
}

// pairs returns a product, and what each of its states is.
func pairs(a, b *dfa, not bool, work *grammar.Work) (*dfa, []pair) {
	var edge [257]bool
	for _, x := range append(slices.Clone(a.first), b.first...) {
		edge[x] = true
	}
	d := &dfa{alphabet: newAlphabet(&edge)}
	known := map[pair]int32{}
	var pairs []pair
	state := func(p pair) int32 {
		if p.a < 0 || p.b < 0 && !not {
			return -1
		}
		n, ok := known[p]
		if !ok {
			if len(pairs) >= maxRegular {
				refuse("a regular part of the grammar has more than %d states", maxRegular)
			}
			n = d.add(a.accepts[p.a] && (p.b >= 0 && b.accepts[p.b]) != not)
			known[p] = n
			pairs = append(pairs, p)
		}
		return n
	}
	state(pair{0, 0})
	for n := 0; n < len(pairs); n++ {
		work.Do(len(d.first))
		p := pairs[n]
		for c, x := range d.first {
			to := pair{a.row(p.a)[a.classOf[x]], -1}
			if p.b >= 0 {
				to.b = b.row(p.b)[b.classOf[x]]
			}
			next := state(to)
			d.row(int32(n))[c] = next
		}
	}
	return d, pairs
}

// each calls visit with the bytes that lead from a state to others, a range at a time.
func (d *dfa) each(n int32, visit func(lo, hi byte, to int32)) {
	row := d.row(n)
	for k := 0; k < len(row); {
		to, lo := row[k], d.first[k]
		for k < len(row) && row[k] == to {
			k++
		}
		if to >= 0 {
			visit(lo, byte(d.last(k-1)), to)
		}
	}
}

// before returns the inverse transitions: the states that lead to state n by class c are
// list[at[c*states+n]:at[c*states+n+1]].
func (d *dfa) before() (at, list []int32) {
	states, width := len(d.accepts), len(d.first)
	at = make([]int32, states*width+1)
	for i, to := range d.next {
		if to >= 0 {
			at[i%width*states+int(to)+1]++
		}
	}
	for i := range len(at) - 1 {
		at[i+1] += at[i]
	}
	list = make([]int32, at[len(at)-1])
	used := slices.Clone(at)
	for i, to := range d.next {
		if to >= 0 {
			k := &used[i%width*states+int(to)]
			list[*k] = int32(i / width)
			*k++
		}
	}
	return at, list
}

// trim removes the states from which no text ends, except the start.
func (d *dfa) trim() {
	before := make([][]int32, len(d.accepts))
	alive := slices.Clone(d.accepts)
	var todo []int32
	for n := range alive {
		last := int32(-1)
		for _, to := range d.row(int32(n)) {
			if to >= 0 && to != last {
				before[to] = append(before[to], int32(n))
				last = to
			}
		}
		if alive[n] {
			todo = append(todo, int32(n))
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, b := range before[n] {
			if !alive[b] {
				alive[b] = true
				todo = append(todo, b)
			}
		}
	}
	if !alive[0] {
		none := &dfa{alphabet: d.alphabet}
		none.add(false)
		*d = *none
		return
	}
	d.renumber(func(n int32) int32 { return n }, func(n int32) bool { return alive[n] })
}

// renumber keeps the states that are wanted and reachable, and merges those of the same class.
func (d *dfa) renumber(class func(int32) int32, want func(int32) bool) {
	number := slices.Repeat([]int32{-1}, len(d.accepts))
	to := &dfa{alphabet: d.alphabet}
	var order []int32
	at := func(n int32) int32 {
		if n < 0 || !want(n) {
			return -1
		}
		k := class(n)
		if number[k] < 0 {
			number[k] = to.add(d.accepts[n])
			order = append(order, n)
		}
		return number[k]
	}
	at(0)
	for n := 0; n < len(order); n++ {
		for c, old := range d.row(order[n]) {
			next := at(old)
			to.row(int32(n))[c] = next
		}
	}
	*d = *to
}

// minimal returns the minimal equivalent dfa (Hopcroft's algorithm: it refines a partition by the smaller
// half of each split part). All states except the start must lead to an end.
func (d *dfa) minimal(work *grammar.Work) *dfa {
	n, width := len(d.accepts), len(d.first)
	work.Do(n * width)
	at, before := d.before()
	type part struct{ from, to, marked int32 }
	order, place, of := make([]int32, n), make([]int32, n), make([]int32, n) // states by part; where each is, and in which part
	parts := []part{{}}
	for s := range n { // those that do not accept come first
		if !d.accepts[s] {
			order[parts[0].to] = int32(s)
			parts[0].to++
		}
	}
	end := parts[0].to
	for s := range n {
		if d.accepts[s] {
			order[end] = int32(s)
			end++
		}
	}
	if first := parts[0].to; first == 0 {
		parts[0].to = end
	} else if first < end {
		parts = append(parts, part{from: first, to: end})
	}
	for i, s := range order {
		place[s] = int32(i)
		if i >= int(parts[0].to) {
			of[s] = 1
		}
	}
	type splitter struct{ part, class int32 }
	var todo []splitter
	waits := make([]bool, n*width) // by part and class
	push := func(p, c int32) {
		todo = append(todo, splitter{p, c})
		waits[int(p)*width+int(c)] = true
	}
	for p := range parts { // what leads nowhere is a part as well, which is not listed
		for c := range width {
			push(int32(p), int32(c))
		}
	}
	var into, touched []int32
	for len(todo) > 0 {
		x := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		waits[int(x.part)*width+int(x.class)] = false
		into, touched = into[:0], touched[:0]
		for _, s := range order[parts[x.part].from:parts[x.part].to] {
			i := int(x.class)*n + int(s)
			into = append(into, before[at[i]:at[i+1]]...)
		}
		work.Do(1 + len(into))
		for _, s := range into { // to the front of its part
			p := &parts[of[s]]
			if p.marked == 0 {
				touched = append(touched, of[s])
			}
			to, is := p.from+p.marked, place[s]
			other := order[to]
			order[to], order[is] = s, other
			place[s], place[other] = to, is
			p.marked++
		}
		for _, k := range touched {
			p := &parts[k]
			marked := p.marked
			p.marked = 0
			if marked == p.to-p.from {
				continue
			}
			added := part{from: p.from, to: p.from + marked}
			p.from += marked
			fresh := int32(len(parts))
			for _, s := range order[added.from:added.to] {
				of[s] = fresh
			}
			smaller := fresh
			if p.to-p.from < marked {
				smaller = k
			}
			parts = append(parts, added)
			for c := range width {
				if waits[int(k)*width+c] {
					push(fresh, int32(c))
				} else {
					push(smaller, int32(c))
				}
			}
		}
	}
	d.renumber(func(s int32) int32 { return of[s] }, func(int32) bool { return true })
	return d
}
