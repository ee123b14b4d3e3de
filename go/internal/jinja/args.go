package jinja

import (
	"slices"
	"strings"
)

// params are the values of a call in the order of the parameters' names.
// A value that was not given is notGiven.
type params struct {
	it     *interp
	values []any
}

type notGiven struct{}

// bind assigns arguments to parameters. names lists these, separated by spaces; a
// question mark follows the optional ones.
func (a args) bind(it *interp, what, names string) params {
	list := strings.Fields(names)
	p := params{it, make([]any, len(list))}
	if len(a.pos) > len(list) {
		fail("%s takes %d arguments and got %d", what, len(list), len(a.pos))
	}
	for i := range p.values {
		p.values[i] = any(notGiven{})
	}
	copy(p.values, a.pos)
	for i, name := range a.names {
		at := slices.IndexFunc(list, func(s string) bool { return strings.TrimSuffix(s, "?") == name })
		if at < 0 {
			fail("%s has no argument %s", what, name)
		}
		p.values[at] = a.named[i]
	}
	for i, s := range list {
		if !strings.HasSuffix(s, "?") && !p.has(i) {
			fail("%s wants the argument %s", what, s)
		}
	}
	return p
}

func (p params) has(i int) bool { return p.values[i] != any(notGiven{}) }

func (p params) or(i int, other any) any {
	if p.has(i) {
		return p.values[i]
	}
	return other
}

func (p params) text(i int, other string) string { return p.it.text(p.or(i, other)) }
func (p params) isTrue(i int) bool               { return isTrue(p.or(i, false)) }

func (p params) int(i int, other int) int {
	if !p.has(i) {
		return other
	}
	return integer(p.values[i], "an argument")
}
