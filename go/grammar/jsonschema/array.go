package jsonschema

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/quern-llm/quern/go/grammar"
)

// array returns the texts of the arrays.
func (c *compiler) array(a arrays) (grammar.Expr, error) {
	elements, differ, err := c.elements(a)
	if differ {
		return grammar.Distinct{Elements: grammar.Seq{c.space(), elements}}, err
	}
	return grammar.Seq{grammar.Lit("["), c.space(), elements, grammar.Lit("]")}, err
}

// elements returns what is between the brackets, and whether it is to be seen while it is written that elements differ.
func (c *compiler) elements(a arrays) (e grammar.Expr, differ bool, err error) {
	prefix := a.prefix()
	if !c.opts.Exact && prefix > 0 && a.tuple() {
		// A tuple has its elements, unless more or fewer are asked for.
		if a.max = least(a.max, max(prefix, a.min)); a.min == 0 {
			a.min = min(prefix, a.max)
		}
	}
	// Elements that can't be end the array.
	for i := range prefix + 1 {
		if a.max >= 0 && i >= a.max {
			break
		}
		void, err := c.empty(a.at(i))
		if err != nil {
			return nil, false, err
		}
		if void {
			a.max = i
			break
		}
	}
	if a.unique != nil && prefix == 0 && a.max != 0 {
		most, err := c.most(a.at(0))
		if err != nil {
			return nil, false, err
		}
		a.max = least(a.max, most)
	}
	if a.max >= 0 && a.min > a.max {
		return grammar.Alt{}, false, nil
	}
	var bound []contains
	for _, has := range a.contains {
		if has.min > 0 || has.max >= 0 {
			bound = append(bound, has)
		}
	}
	unique := a.unique != nil && (a.max < 0 || a.max > 1)
	if unique && len(bound) == 0 {
		if e, err := c.distinct(a); e != nil || err != nil {
			return e, false, err
		}
	}
	switch {
	case unique && c.opts.Notation != nil:
		return nil, false, c.fail(a.unique, "uniqueItems", "can't be decided in this notation, except for elements of an enum; leave it out, or set maxItems to 1")
	case len(bound) > 0:
		e, err = c.containing(a, bound)
	default:
		e, err = c.sequence(a)
	}
	return e, unique, err
}

// sequence returns elements of which nothing is counted but how many there are.
func (c *compiler) sequence(a arrays) (grammar.Expr, error) {
	if a.max == 0 {
		return grammar.Lit(""), nil
	}
	prefix := a.prefix()
	end := prefix
	if a.max >= 0 {
		end = min(end, a.max)
	}
	tail, err := c.repeated(a, end)
	if err != nil {
		return nil, err
	}
	for i := end - 1; i >= 0; i-- {
		v, err := c.value(a.at(i))
		if err != nil {
			return nil, err
		}
		seq := grammar.Seq{c.comma(i > 0), v, tail}
		if i == 0 {
			seq = append(seq, c.space())
		}
		tail = seq
		if i >= a.min {
			tail = optional(seq)
		}
	}
	return tail, nil
}

// tuple reports whether some schema has elements with positions, and none says what comes
// after them.
func (a *arrays) tuple() bool {
	is := false
	for _, app := range a.apps {
		if app.rest != nil {
			return false
		}
		is = is || !app.silent && len(app.prefix) > 0
	}
	return is
}

// repeated returns the elements from a position on, which have the same schemas.
func (c *compiler) repeated(a arrays, from int) (grammar.Expr, error) {
	if a.max >= 0 && a.max <= from {
		return grammar.Lit(""), nil
	}
	v, err := c.value(a.at(from))
	if err != nil {
		return nil, err
	}
	more := grammar.Seq{c.comma(true), v}
	lo, hi := max(a.min-from, 0), -1
	if a.max >= 0 {
		hi = a.max - from
	}
	if from > 0 {
		return grammar.Repeat{Expr: more, Min: lo, Max: hi}, nil
	}
	all := grammar.Seq{v, grammar.Repeat{Expr: more, Min: max(lo-1, 0), Max: max(hi-1, -1)}, c.space()}
	if hi == 0 {
		return grammar.Lit(""), nil
	}
	if lo == 0 {
		return optional(all), nil
	}
	return all, nil
}

// A counter makes rules for arrays of which elements are counted.
type counter struct {
	c      *compiler
	a      arrays
	states map[[2]int]grammar.Ref
	// next returns the elements that may come at a position in a state, with the states
	// after them; and whether the array may end here.
	next func(i, state int) ([]counted, bool, error)
	last int // positions from here on are alike
	all  int // alternatives of all rules
}

type counted struct {
	expr  grammar.Expr
	state int
}

func (k *counter) at(i, state int) (grammar.Expr, error) {
	i = min(i, k.last)
	key := [2]int{i, state}
	if r, ok := k.states[key]; ok {
		return r, nil
	}
	if len(k.states) > maxStates {
		return nil, k.c.fail(k.a.where(), "", "counting the elements takes more than %d states", maxStates)
	}
	r := k.c.g.Add("elements", nil)
	k.states[key] = r
	list, end, err := k.next(i, state)
	if err != nil {
		return nil, err
	}
	k.c.work.Do(len(list))
	if k.all += len(list); k.all > maxCounted {
		return nil, k.c.fail(k.a.where(), "contains", "counting the elements takes more than %d alternatives", maxCounted)
	}
	out := grammar.Alt{}
	if end && i == 0 {
		out = append(out, grammar.Lit(""))
	} else if end {
		out = append(out, k.c.space())
	}
	for _, e := range list {
		after, err := k.at(i+1, e.state)
		if err != nil {
			return nil, err
		}
		out = append(out, grammar.Seq{k.c.comma(i > 0), e.expr, after})
	}
	k.c.g.Rules[r].Expr = out
	return r, nil
}

// where is a schema to name in an error.
func (a *arrays) where() *schema {
	if a.unique != nil {
		return a.unique
	}
	return a.contains[0].lit.s
}

// containing returns the elements of an array that has some of each kind. A state is how many of each there are, the
// first kind in the lowest place.
func (c *compiler) containing(a arrays, kinds []contains) (grammar.Expr, error) {
	k := &counter{c: c, a: a, states: map[[2]int]grammar.Ref{}}
	if k.last = max(a.prefix(), a.min, 1); a.max >= 0 {
		k.last = max(a.max, 1)
	}
	states := 1
	for _, has := range kinds {
		if states *= has.counted() + 1; states > maxStates {
			return nil, c.fail(has.lit.s, "", "counting the elements takes more than %d states", maxStates)
		}
	}
	type choice struct {
		set   set
		state int
	}
	k.next = func(i, state int) (out []counted, end bool, err error) {
		end = i >= a.min
		all := []choice{{a.at(i), state}}
		place := 1
		for _, has := range kinds {
			found := state / place % (has.counted() + 1)
			end = end && found >= has.min
			var next []choice
			for _, e := range all {
				if found < has.counted() {
					next = append(next, choice{e.set.with(has.lit), e.state + place})
				}
				if has.max >= 0 {
					e.set = e.set.with(literal{has.lit.s, !has.lit.not})
				}
				next = append(next, e)
			}
			all, place = next, place*(has.counted()+1)
		}
		if a.max >= 0 && i >= a.max {
			return nil, end, nil
		}
		for _, e := range all {
			void, err := c.empty(e.set)
			if err != nil {
				return nil, false, err
			}
			if void {
				continue
			}
			v, err := c.value(e.set)
			if err != nil {
				return nil, false, err
			}
			out = append(out, counted{v, e.state})
		}
		return out, end, nil
	}
	return k.at(0, 0)
}

// counted returns up to how many elements are counted.
func (has *contains) counted() int {
	if has.max >= 0 {
		return has.max
	}
	return has.min
}

// maxSubsets is how many values may come in any order where each may come once, and they are counted.
const maxSubsets = 8

// distinct returns the elements of an array in which none comes twice, where there are few values; nil where they are too
// many for a grammar to know which have come.
func (c *compiler) distinct(a arrays) (grammar.Expr, error) {
	values, finite, err := c.finite(a.at(0))
	if err != nil {
		return nil, err
	}
	if n := len(values); finite && a.prefix() == 0 && n > maxSubsets && n <= grammar.MaxParts && a.min <= 1 && (a.max < 0 || a.max >= n) {
		all := grammar.Seq{grammar.AnyOrder{Parts: values, Between: c.comma(true)}, c.space()}
		if a.min == 0 {
			return optional(all), nil
		}
		return all, nil
	}
	if !finite || a.prefix() > 0 || len(values) > maxSubsets {
		return nil, nil
	}
	k := &counter{c: c, a: a, states: map[[2]int]grammar.Ref{}, last: max(a.min, a.max, 1)}
	k.next = func(_, used int) (out []counted, end bool, err error) {
		n := bits.OnesCount(uint(used))
		if a.max < 0 || n < a.max {
			for x, v := range values {
				if used>>x&1 == 0 {
					out = append(out, counted{v, used | 1<<x})
				}
			}
		}
		return out, n >= a.min, nil
	}
	return k.at(0, 0)
}

// most returns how many different values a set has at most, as far as that is seen at once; -1: there is no bound.
func (c *compiler) most(s set) (int, error) {
	shapes, err := c.expand(s)
	if err != nil {
		return -1, err
	}
	n := new(big.Int)
	for _, x := range shapes {
		if x.kinds&(kArray|kObject) != 0 || x.kinds&kString != 0 && !x.str.only && x.str.max != 0 {
			return -1, nil
		}
		n.Add(n, big.NewInt(int64(bits.OnesCount8(uint8(x.kinds&(kNull|kTrue|kFalse))))))
		if x.kinds&kString != 0 {
			n.Add(n, big.NewInt(int64(max(len(x.str.in), 1))))
		}
		if x.kinds&kNumber == 0 {
			continue
		}
		many := x.num.count()
		if many == nil {
			return -1, nil
		}
		n.Add(n, many)
	}
	if !n.IsInt64() || n.Int64() > math.MaxInt32 {
		return -1, nil
	}
	return int(n.Int64()), nil
}

// finite returns the values of a set, where they are listed.
func (c *compiler) finite(s set) ([]grammar.Expr, bool, error) {
	shapes, err := c.expand(s)
	if err != nil || len(s) == 0 {
		return nil, false, err
	}
	var out []grammar.Expr
	seen := map[grammar.Lit]bool{}
	for _, x := range shapes {
		if x.kinds&(kArray|kObject) != 0 || x.kinds&kNumber != 0 && !x.num.only || x.kinds&kString != 0 && !x.str.only {
			return nil, false, nil
		}
		for _, e := range c.scalars(x) {
			lit, ok := e.(grammar.Lit)
			if !ok { // a notation's
				return nil, false, nil
			}
			if !seen[lit] {
				seen[lit] = true
				out = append(out, lit)
			}
		}
	}
	return out, true, nil
}
