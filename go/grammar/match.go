package grammar

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Match reports whether a text is in an expression of g. It is for texts of some bytes
// that a reader of grammars meets, such as names; output is matched by package
// constrain. A rule may not begin with itself, Token matches nothing, and Limit what its
// expression does.
//
// Match counts what it does as work, which may be nil.
func Match(g *Grammar, e Expr, text string, work *Work) bool {
	m := matcher{g: g, text: text, memo: map[[2]int]places{}, work: work}
	return m.ends(e, m.only(0)).has(len(text))
}

// places is a set of positions in a text.
type places []uint64

func (p places) has(i int) bool { return p[i/64]>>(i%64)&1 != 0 }
func (p places) set(i int)      { p[i/64] |= 1 << (i % 64) }

// add adds the positions of q.
func (p places) add(q places) {
	for i := range p {
		p[i] |= q[i]
	}
}

func (p places) empty() bool {
	for _, w := range p {
		if w != 0 {
			return false
		}
	}
	return true
}

type matcher struct {
	g    *Grammar
	text string
	memo map[[2]int]places // by rule and start

	work *Work
}

func (m *matcher) none() places { return make(places, len(m.text)/64+1) }

func (m *matcher) only(i int) places {
	p := m.none()
	p.set(i)
	return p
}

// ends returns where texts of e that begin at one of the positions may end.
func (m *matcher) ends(e Expr, from places) places {
	out := m.none()
	if m.work.Do(1 + len(from)); from.empty() {
		return out
	}
	switch e := e.(type) {
	case Lit:
		for i := range len(m.text) + 1 {
			if from.has(i) && strings.HasPrefix(m.text[i:], string(e)) {
				out.set(i + len(e))
			}
		}
	case Class:
		for i := range len(m.text) {
			if r, n := utf8.DecodeRuneInString(m.text[i:]); from.has(i) && (r != utf8.RuneError || n > 1) && e.Has(r) {
				out.set(i + n)
			}
		}
	case Seq:
		out = from
		for _, sub := range e {
			out = m.ends(sub, out)
		}
	case Alt:
		for _, sub := range e {
			out.add(m.ends(sub, from))
		}
	case Limit:
		return m.ends(e.Expr, from)
	case Distinct:
		for i := range len(m.text) {
			if !from.has(i) {
				continue
			}
			around := e.Brackets()
			ends := m.ends(Seq{around[0], e.Elements, around[1]}, m.only(i))
			for k := i; k <= len(m.text); k++ {
				if ends.has(k) && distinct(m.text[i:k], e.Names) {
					out.set(k)
				}
			}
		}
	case AnyOrder:
		return m.anyOrder(e, from, 0, map[uint32]places{})
	case Repeat:
		return m.repeat(e, from)
	case Ref:
		for i := range len(m.text) + 1 {
			if from.has(i) {
				out.add(m.rule(int(e), i))
			}
		}
	case And, Not:
		for i := range len(m.text) + 1 {
			if from.has(i) {
				out.add(m.logic(e, i))
			}
		}
	}
	return out
}

func (m *matcher) repeat(e Repeat, from places) places {
	out := m.none()
	for n, at := 0, from; ; n++ {
		if n >= e.Min {
			out.add(at)
		}
		if n == e.Max {
			return out
		}
		// What a turn leaves as it is, all others leave so. That takes no more turns than
		// the text has bytes: either a turn may be empty, and no position gets lost, or the
		// first position is another after each.
		next := m.ends(e.Expr, at)
		if slices.Equal(next, at) {
			out.add(at)
			return out
		}
		at = next
	}
}

// anyOrder returns where e may end after texts from positions, where the parts in a set have come; reached is what was
// followed before, by set.
func (m *matcher) anyOrder(e AnyOrder, from places, had uint32, reached map[uint32]places) places {
	out := m.none()
	if reached[had] == nil {
		reached[had] = m.none()
	}
	before := slices.Clone(reached[had])
	if reached[had].add(from); slices.Equal(before, reached[had]) {
		return out
	}
	after := func(at places, had uint32) {
		if at.empty() {
			return
		}
		if had&(1<<e.Must-1) == 1<<e.Must-1 {
			out.add(at)
		}
		out.add(m.anyOrder(e, m.ends(e.Between, at), had, reached))
	}
	for i, part := range e.Parts {
		if had>>i&1 == 0 && (!e.Listed || i >= e.Must || had&(1<<i-1) == 1<<i-1) {
			after(m.ends(part, from), had|1<<i)
		}
	}
	if e.More != nil {
		after(m.ends(e.More, from), had)
	}
	return out
}

func (m *matcher) rule(i, at int) places {
	key := [2]int{i, at}
	if p, ok := m.memo[key]; ok {
		return p
	}
	m.memo[key] = m.none()
	p := m.ends(m.g.Rules[i].Expr, m.only(at))
	m.memo[key] = p
	return p
}

func (m *matcher) logic(e Expr, at int) places {
	out := m.none()
	if not, ok := e.(Not); ok {
		inner := m.ends(not.Expr, m.only(at))
		for i := at; i <= len(m.text); i++ {
			if !inner.has(i) && utf8.ValidString(m.text[at:i]) {
				out.set(i)
			}
		}
		return out
	}
	for k, sub := range e.(And) {
		inner := m.ends(sub, m.only(at))
		if k == 0 {
			out = inner
			continue
		}
		for i := range out {
			out[i] &= inner[i]
		}
	}
	return out
}
