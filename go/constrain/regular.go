package constrain

import (
	"encoding/binary"
	"slices"

	"github.com/quern-llm/quern/go/grammar"
)

// A dfa is a deterministic automaton over bytes. State 0 is the first.
type dfa struct {
	next    [][256]int32 // -1: no text goes on
	accepts []bool
}

// Bounds of a dfa: its states, and while it is made the instructions that are kept for all
// of them.
const (
	maxRegular = 20_000
	maxSubsets = 2_000_000
)

// regular emits an intersection or a complement.
func (c *compiler) regular(e grammar.Expr, next int32) int32 {
	d := c.deterministic(e)
	d.trim()
	if !slices.Contains(d.accepts, true) {
		return c.none()
	}
	return c.embed(d.minimal(), next)
}

// deterministic returns the dfa of a regular expression.
func (c *compiler) deterministic(e grammar.Expr) *dfa {
	switch e := e.(type) {
	case grammar.And:
		if len(e) == 0 {
			return c.codePoints()
		}
		d := c.deterministic(e[0])
		for _, part := range e[1:] {
			d = product(d, c.deterministic(part), false)
			d.trim()
			d = d.minimal()
		}
		return d
	case grammar.Not:
		return product(c.codePoints(), c.deterministic(e.Expr), true)
	}
	sub := &compiler{g: c.g, vocab: c.vocab, cyclic: c.cyclic, empty: c.empty, runs: c.runs, flat: true, nesting: c.nesting, emits: c.emits}
	start := sub.emit(e, sub.add(inst{op: opMatch, out: -1, alt: -1}))
	return sub.determine(start)
}

// codePoints is all sequences of code points.
func (c *compiler) codePoints() *dfa {
	return c.deterministic(grammar.Repeat{Expr: grammar.Class{{Lo: 0, Hi: 0x10FFFF}}, Max: -1})
}

// determine is the subset construction of a network of bytes.
func (p *program) determine(start int32) *dfa {
	d := &dfa{}
	known := map[string]int32{}
	var sets [][]int32
	kept := 0
	seen := make([]int32, len(p.insts))
	round := int32(0)
	state := func(seeds []int32) int32 {
		round++
		var set []int32
		for todo := seeds; len(todo) > 0; {
			pc := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if pc < 0 || seen[pc] == round {
				continue
			}
			seen[pc] = round
			if i := &p.insts[pc]; i.op == opSplit || i.op == opHead {
				todo = append(todo, i.alt, i.out)
			} else {
				set = append(set, pc)
			}
		}
		if len(set) == 0 {
			return -1
		}
		slices.Sort(set)
		var key []byte
		for _, pc := range set {
			key = binary.LittleEndian.AppendUint32(key, uint32(pc))
		}
		n, ok := known[string(key)]
		if !ok {
			if len(sets) >= maxRegular {
				refuse("a regular part of the grammar has more than %d states", maxRegular)
			}
			if kept += len(set); kept > maxSubsets {
				refuse("a regular part of the grammar is too large: its states have more than %d instructions", maxSubsets)
			}
			n = int32(len(sets))
			known[string(key)] = n
			sets = append(sets, set)
			d.next = append(d.next, [256]int32{})
			d.accepts = append(d.accepts, slices.ContainsFunc(set, func(pc int32) bool { return p.insts[pc].op == opMatch }))
		}
		return n
	}
	state([]int32{start})
	for n := 0; n < len(sets); n++ {
		var edge [257]bool
		for _, pc := range sets[n] {
			if i := p.insts[pc]; i.op == opByte {
				edge[i.lo], edge[int(i.hi)+1] = true, true
			}
		}
		to := int32(-1)
		for b := range 256 {
			if edge[b] {
				var seeds []int32
				for _, pc := range sets[n] {
					if i := p.insts[pc]; i.op == opByte && int(i.lo) <= b && b <= int(i.hi) {
						seeds = append(seeds, i.out)
					}
				}
				to = state(seeds)
			}
			d.next[n][b] = to
		}
	}
	if len(sets) == 0 { // no text, not even a beginning
		d.next, d.accepts = append(d.next, noBytes), append(d.accepts, false)
	}
	return d
}

var noBytes = [256]int32(slices.Repeat([]int32{-1}, 256))

// product returns the texts of a that b has, or those that b has not.
func product(a, b *dfa, not bool) *dfa {
	d := &dfa{}
	type pair struct{ a, b int32 }
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
			n = int32(len(pairs))
			known[p] = n
			pairs = append(pairs, p)
			d.next = append(d.next, [256]int32{})
			d.accepts = append(d.accepts, a.accepts[p.a] && (p.b >= 0 && b.accepts[p.b]) != not)
		}
		return n
	}
	state(pair{0, 0})
	for n := 0; n < len(pairs); n++ {
		p := pairs[n]
		for x := range 256 {
			to := pair{a.next[p.a][x], -1}
			if p.b >= 0 {
				to.b = b.next[p.b][x]
			}
			d.next[n][x] = state(to)
		}
	}
	return d
}

// trim removes the states after which no text ends, but the first.
func (d *dfa) trim() {
	before := make([][]int32, len(d.next))
	alive := slices.Clone(d.accepts)
	var todo []int32
	for n := range d.next {
		last := int32(-1)
		for _, to := range d.next[n] {
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
		d.next, d.accepts = d.next[:1], d.accepts[:1]
		d.next[0] = noBytes
		return
	}
	d.renumber(func(n int32) int32 { return n }, func(n int32) bool { return alive[n] })
}

// renumber keeps the states that are wanted and reached, and makes those with the same class one.
func (d *dfa) renumber(class func(int32) int32, want func(int32) bool) {
	number := map[int32]int32{}
	var order []int32
	at := func(n int32) int32 {
		if n < 0 || !want(n) {
			return -1
		}
		k := class(n)
		i, ok := number[k]
		if !ok {
			i = int32(len(order))
			number[k] = i
			order = append(order, n)
		}
		return i
	}
	at(0)
	to := &dfa{}
	for n := 0; n < len(order); n++ {
		old := order[n]
		var next [256]int32
		for b := range 256 {
			next[b] = at(d.next[old][b])
		}
		to.next, to.accepts = append(to.next, next), append(to.accepts, d.accepts[old])
	}
	*d = *to
}

// minimal returns the least dfa with the same texts, by refining a partition until it is
// stable; a long chain, which takes a round for each state, is left as it is.
func (d *dfa) minimal() *dfa {
	const rounds = 64
	class := make([]int32, len(d.next))
	count := 1
	for n, accepts := range d.accepts {
		if accepts {
			class[n], count = 1, 2
		}
	}
	for range rounds {
		known := map[[257]int32]int32{}
		refined := make([]int32, len(class))
		for n := range d.next {
			var key [257]int32
			key[256] = class[n]
			for b, to := range d.next[n] {
				if key[b] = -1; to >= 0 {
					key[b] = class[to]
				}
			}
			k, ok := known[key]
			if !ok {
				k = int32(len(known))
				known[key] = k
			}
			refined[n] = k
		}
		class = refined
		if len(known) == count {
			d.renumber(func(n int32) int32 { return class[n] }, func(int32) bool { return true })
			return d
		}
		count = len(known)
	}
	return d
}

// embed emits a dfa.
func (c *compiler) embed(d *dfa, next int32) int32 {
	at := make([]int32, len(d.next))
	for n := range at {
		at[n] = c.none()
	}
	for n := range d.next {
		follow := func(to int32) {
			if c.insts[at[n]].out < 0 {
				c.insts[at[n]].out = to
			} else {
				also := c.split(to, c.insts[at[n]].out)
				c.insts[at[n]].out = also
			}
		}
		if d.accepts[n] {
			follow(next)
		}
		for b := 0; b < 256; {
			to, lo := d.next[n][b], b
			for b < 256 && d.next[n][b] == to {
				b++
			}
			if to >= 0 {
				follow(c.bytes(byte(lo), byte(b-1), at[to]))
			}
		}
		if r := d.run(int32(n)); r != (run{}) {
			c.loops = append(c.loops, loop{max: -1, run: r})
			c.insts[at[n]].op, c.insts[at[n]].arg = opHead, int32(len(c.loops)-1)
		}
	}
	return at[0]
}

// run returns the code points that lead from a state to itself.
func (d *dfa) run(n int32) (r run) {
	for b := range rune(0x80) {
		if d.next[n][b] == n {
			r.add(b, b)
		}
	}
	r.rest = true
	splitUTF8(0x80, 0x10FFFF, func(lo, hi []byte) {
		states := []int32{n}
		for k := range lo {
			var to []int32
			for _, s := range states {
				for b := int(lo[k]); b <= int(hi[k]); b++ {
					if x := d.next[s][b]; x < 0 {
						r.rest = false
					} else if !slices.Contains(to, x) {
						to = append(to, x)
					}
				}
			}
			states = to
		}
		r.rest = r.rest && len(states) == 1 && states[0] == n
	})
	return r
}
