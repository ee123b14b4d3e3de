package constrain

import (
	"slices"

	"github.com/quern-llm/quern/go/grammar"
)

// survey finds the recursive rules, and the reference counts and sizes of all rules.
func (c *compiler) survey() {
	n := len(c.g.Rules)
	refs := make([][]int, n)
	c.used = make([]int, n)
	for i, r := range c.g.Rules {
		c.references(r.Expr, 0, func(to int) {
			if to < 0 || to >= n {
				refuse("the grammar refers to rule %d of %d", to, n)
			}
			refs[i] = append(refs[i], to)
			c.used[to]++
		})
	}
	c.used[0]++ // by the text
	c.cyclic = make([]bool, n)
	order := make([]int, 0, n)
	for _, group := range components(n, func(i int) []int { return refs[i] }) {
		order = append(order, group...)
		for _, i := range group {
			c.cyclic[i] = len(group) > 1
			for _, to := range refs[i] {
				c.cyclic[i] = c.cyclic[i] || to == i
			}
		}
	}
	c.empty = make([]bool, n)
	for changed := true; changed; {
		changed = false
		for _, i := range order {
			if !c.empty[i] && c.hasEmpty(c.g.Rules[i].Expr) {
				c.empty[i], changed = true, true
			}
		}
	}
	c.size = make([]int, n)
	for _, i := range order { // those that are referred to come first
		c.size[i] = c.estimate(c.g.Rules[i].Expr)
	}
}

func (c *compiler) references(e grammar.Expr, depth int, visit func(int)) {
	c.work.Do(1)
	if depth > maxNesting {
		refuse("the grammar nests more than %d deep", maxNesting)
	}
	all := func(parts []grammar.Expr) {
		for _, part := range parts {
			c.references(part, depth+1, visit)
		}
	}
	switch e := e.(type) {
	case grammar.Seq:
		all(e)
	case grammar.Alt:
		all(e)
	case grammar.And:
		all(e)
	case grammar.AnyOrder:
		all(e.Parts)
		all([]grammar.Expr{e.Between})
		if e.More != nil {
			all([]grammar.Expr{e.More})
		}
	case grammar.Repeat:
		c.references(e.Expr, depth+1, visit)
	case grammar.Limit:
		c.references(e.Expr, depth+1, visit)
	case grammar.Distinct:
		c.references(e.Elements, depth+1, visit)
	case grammar.Not:
		c.references(e.Expr, depth+1, visit)
	case grammar.Ref:
		visit(int(e))
	}
}

// estimate returns the approximate number of instructions of an expression.
func (c *compiler) estimate(e grammar.Expr) int {
	c.work.Do(1)
	const most = 1 << 30
	sum := func(parts []grammar.Expr) int {
		n := 1
		for _, part := range parts {
			n = min(n+c.estimate(part), most)
		}
		return n
	}
	switch e := e.(type) {
	case grammar.Lit:
		return len(e)
	case grammar.Class:
		n := 1
		for _, r := range e {
			if n += 2; r.Hi >= 0x80 {
				n += 12
			}
		}
		return n
	case grammar.Seq:
		return sum(e)
	case grammar.Alt:
		return sum(e)
	case grammar.And:
		return 4 * sum(e)
	case grammar.AnyOrder:
		n := sum(e.Parts) + 2*len(e.Parts) + c.estimate(e.Between)
		if e.More != nil {
			n += c.estimate(e.More)
		}
		return min(n, most)
	case grammar.Not:
		return 4 * c.estimate(e.Expr)
	case grammar.Repeat:
		n := c.estimate(e.Expr)
		if turns := max(e.Min, e.Max, 1); n*turns <= unrollSize {
			n *= turns
		}
		return n + 2
	case grammar.Ref:
		switch i := int(e); {
		case c.cyclic[i] || c.used[i] > 1 && c.size[i] > inlineSize:
			return 1
		default:
			return c.size[i]
		}
	}
	return 1
}

// hasEmpty reports whether an expression matches the empty text. And and Not refer only to rules for which
// this is known: those are not recursive, and come earlier in the order.
func (c *compiler) hasEmpty(e grammar.Expr) bool {
	c.work.Do(1)
	switch e := e.(type) {
	case grammar.Lit:
		return e == ""
	case grammar.Class, grammar.Token, grammar.Distinct, grammar.AnyOrder: // whose parts are called, if they may be empty
		return false
	case grammar.Seq:
		return !slices.ContainsFunc(e, func(part grammar.Expr) bool { return !c.hasEmpty(part) })
	case grammar.And:
		return !slices.ContainsFunc(e, func(part grammar.Expr) bool { return !c.hasEmpty(part) })
	case grammar.Not:
		return !c.hasEmpty(e.Expr)
	case grammar.Alt:
		return slices.ContainsFunc(e, c.hasEmpty)
	case grammar.Repeat:
		return e.Min == 0 || c.hasEmpty(e.Expr)
	case grammar.Limit:
		return c.hasEmpty(e.Expr)
	case grammar.Ref:
		return c.empty[e]
	}
	return true
}

// components returns the strongly connected components of a graph of n vertices; those
// that can be reached from another come before it.
func components(n int, edges func(int) []int) (groups [][]int) {
	index := make([]int, n) // by when it was visited, from 1
	low := make([]int, n)
	on := make([]bool, n)
	var stack []int
	type frame struct{ v, edge int }
	visited := 0
	for root := range n {
		if index[root] != 0 {
			continue
		}
		work := []frame{{root, 0}}
		for len(work) > 0 {
			f := &work[len(work)-1]
			v := f.v
			if f.edge == 0 {
				visited++
				index[v], low[v], on[v] = visited, visited, true
				stack = append(stack, v)
			}
			to := edges(v)
			next := -1
			for ; f.edge < len(to); f.edge++ {
				w := to[f.edge]
				if index[w] == 0 {
					next = w
					break
				}
				if on[w] {
					low[v] = min(low[v], low[w])
				}
			}
			if next >= 0 {
				f.edge++ // its low is merged when it returns
				work = append(work, frame{next, 0})
				continue
			}
			work = work[:len(work)-1]
			if len(work) > 0 {
				u := work[len(work)-1].v
				low[u] = min(low[u], low[v])
			}
			if low[v] == index[v] {
				i := len(stack) - 1
				for stack[i] != v {
					i--
				}
				group := append([]int(nil), stack[i:]...)
				for _, w := range group {
					on[w] = false
				}
				stack = stack[:i]
				groups = append(groups, group)
			}
		}
	}
	return groups
}
