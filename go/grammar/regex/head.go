package regex

import (
	"errors"
	"slices"

	"github.com/quern-llm/quern/go/grammar"
)

// Before returns the texts that end where the first capturing group of a match begins, or the match
// where there is no group. The match is somewhere, or, with whole, from the first character on.
func Before(pattern string, whole bool) (grammar.Expr, error) {
	n, err := parse(pattern, 0)
	if err != nil {
		return nil, err
	}
	list, _, err := beforeGroup(n)
	if err != nil {
		return nil, err
	}
	if !whole {
		list = append([]*node{{op: opRepeat, subs: []*node{{class: grammar.Any}}, max: -1}}, list...)
	}
	c := compiler{}
	return c.lang(list, atStart, grammar.Lit(""))
}

var errGroup = errors.New("the first capturing group of the regular expression is repeated or within an alternative, want it once in each match")

// beforeGroup returns what comes before the first capturing group of a node.
func beforeGroup(n *node) (list []*node, found bool, err error) {
	switch {
	case n.captures:
		return nil, true, nil
	case !n.hasGroup():
		return nil, false, nil
	case n.op == opSeq, n.op == opAlt && len(n.subs) == 1:
	default:
		return nil, false, errGroup
	}
	for i, sub := range n.subs {
		if list, found, err = beforeGroup(sub); found || err != nil {
			return slices.Concat(n.subs[:i], list), found, err
		}
	}
	return nil, false, nil
}

func (n *node) hasGroup() bool { return n.captures || slices.ContainsFunc(n.subs, (*node).hasGroup) }
