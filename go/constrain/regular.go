package constrain

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/grammar"
)

// Bounds of a dfa: its states, and while it is made the instructions that are kept for all
// of them.
const (
	maxRegular = 20_000
	maxSubsets = 2_000_000
)

// regular emits an intersection or a complement.
func (c *compiler) regular(e grammar.Expr, next int32) int32 {
	if and, is := e.(grammar.And); is {
		if start, is := c.counted(and, next); is {
			return start
		}
	}
	d := c.dfaOf(e)
	if !slices.Contains(d.accepts, true) {
		return c.none()
	}
	return c.embed(d, next)
}

// maxUnlike is the number of states up to which finding those that are alike takes longer than what it saves.
const maxUnlike = 512

// smaller returns a dfa without states from which no text ends, and if it is large, without states that are alike.
func (d *dfa) smaller(work *grammar.Work) *dfa {
	if d.trim(); len(d.accepts) > maxUnlike {
		return d.minimal(work)
	}
	return d
}

// dfaOf returns a dfa of a regular expression.
func (c *compiler) dfaOf(e grammar.Expr) *dfa {
	return regulars.get(c.namespace, e, func() *dfa { return c.deterministic(e).smaller(c.work) })
}

// minimal returns the minimal dfa of a regular expression.
func (c *compiler) minimal(e grammar.Expr) *dfa {
	return minimals.get(c.namespace, e, func() *dfa {
		d := *c.dfaOf(e)
		return d.minimal(c.work)
	})
}

// These cache recent results: most are string formats, which many schemas use.
var regulars, minimals dfas

type dfas struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*dfa
	size  int // of their tables
}

// maxDFAs limits the bytes of cached tables.
const maxDFAs = 8 << 20

// get returns the dfa of an expression: one that was made in the namespace, or in none, as those of string formats are.
// Expressions that refer to rules are not cached.
func (k *dfas) get(namespace string, e grammar.Expr, build func() *dfa) *dfa {
	key, cached := dfaKey(namespace, e)
	if !cached {
		return build()
	}
	k.mu.Lock()
	known := k.known[key]
	if known == nil && namespace != "" {
		common, _ := dfaKey("", e)
		known = k.known[common]
	}
	k.mu.Unlock()
	if known != nil {
		return known
	}
	made := build()
	k.mu.Lock()
	defer k.mu.Unlock()
	if size := 4 * len(made.next); size <= maxDFAs {
		if k.size += size; k.known == nil || k.size > maxDFAs {
			k.known, k.size = map[[sha256.Size]byte]*dfa{}, size
		}
		k.known[key] = made
	}
	return made
}

// dfaKey returns the key of an expression; false if it refers to rules.
func dfaKey(namespace string, e grammar.Expr) (key [sha256.Size]byte, cached bool) {
	d := newDigester(namespace)
	d.expr(e, 0)
	return d.sum(), !d.refers
}

// deterministic returns the dfa of a regular expression.
func (c *compiler) deterministic(e grammar.Expr) *dfa {
	switch e := e.(type) {
	case grammar.And:
		if len(e) == 0 {
			d := *c.codePoints()
			return &d
		}
		d := c.deterministic(e[0])
		for _, part := range e[1:] {
			d = product(d, c.deterministic(part), false, c.work)
			d = d.smaller(c.work)
		}
		return d
	case grammar.Not:
		return product(c.codePoints(), c.deterministic(e.Expr), true, c.work)
	}
	sub := &compiler{program: program{work: c.work}, g: c.g, namespace: c.namespace, v: c.v, cyclic: c.cyclic, empty: c.empty, runs: c.runs, flat: true, nesting: c.nesting, emits: c.emits}
	start := sub.emit(e, sub.add(inst{op: opMatch, out: -1, alt: -1}))
	return sub.determine(start)
}

// codePoints returns the dfa of all sequences of code points, which others share.
func (c *compiler) codePoints() *dfa {
	all := grammar.Repeat{Expr: grammar.Class{{Lo: 0, Hi: 0x10FFFF}}, Max: -1}
	return regulars.get("", all, func() *dfa { return c.deterministic(all) })
}

// determine applies the subset construction to a network over bytes.
func (p *program) determine(start int32) *dfa {
	var edge [257]bool
	for i := range p.insts {
		if i := &p.insts[i]; i.op == opByte {
			edge[i.lo], edge[int(i.hi)+1] = true, true
		}
	}
	d := &dfa{alphabet: newAlphabet(&edge)}
	known := map[string]int32{}
	var sets [][]int32
	kept := 0
	seen := make([]int32, len(p.insts))
	round := int32(0)
	var todo, set []int32
	var key []byte
	state := func(seeds []int32) int32 {
		round++
		set, key = set[:0], key[:0]
		for todo = append(todo[:0], seeds...); len(todo) > 0; {
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
		p.work.Do(len(set))
		slices.Sort(set)
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
			n = d.add(slices.ContainsFunc(set, func(pc int32) bool { return p.insts[pc].op == opMatch }))
			known[string(key)] = n
			sets = append(sets, slices.Clone(set))
		}
		return n
	}
	state([]int32{start})
	var seeds []int32
	for n := 0; n < len(sets); n++ {
		p.work.Do(len(d.first))
		clear(edge[:])
		for _, pc := range sets[n] {
			if i := &p.insts[pc]; i.op == opByte {
				edge[i.lo], edge[int(i.hi)+1] = true, true
			}
		}
		to := int32(-1)
		for c, b := range d.first {
			if edge[b] {
				p.work.Do(len(sets[n]))
				seeds = seeds[:0]
				for _, pc := range sets[n] {
					if i := &p.insts[pc]; i.op == opByte && i.lo <= b && b <= i.hi {
						seeds = append(seeds, i.out)
					}
				}
				to = state(seeds)
			}
			d.row(int32(n))[c] = to
		}
	}
	if len(sets) == 0 { // no text, not even a beginning
		d.add(false)
	}
	return d
}

// embed emits a dfa.
func (c *compiler) embed(d *dfa, next int32) int32 {
	at := make([]int32, len(d.accepts))
	for n := range at {
		at[n] = c.none()
	}
	flows := flows{dfa: d, known: map[midway]led{}}
	for n := range at {
		if d.accepts[n] {
			c.follow(at[n], next)
		}
		threads := 0
		c.work.Do(64)
		d.each(int32(n), func(lo, hi byte, to int32) {
			c.follow(at[n], c.bytes(lo, hi, at[to]))
			threads++
		})
		if turns, dead := flows.loop(int32(n)); turns != (run{}) {
			if d.accepts[n] {
				threads = 0
			}
			c.loops = append(c.loops, loop{max: -1, run: turns, dead: dead, threads: threads})
			c.insts[at[n]].op, c.insts[at[n]].arg = opHead, int32(len(c.loops)-1)
		}
	}
	return at[0]
}

// follow adds what may follow an instruction.
func (c *compiler) follow(at, to int32) {
	if c.insts[at].out >= 0 {
		to = c.split(to, c.insts[at].out)
	}
	c.insts[at].out = to
}
