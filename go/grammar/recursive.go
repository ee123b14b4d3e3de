package grammar

import "slices"

// Recursive tells whether the texts of g need a rule that refers to itself. Expressions of g
// nest MaxNesting deep at most.
func (g *Grammar) Recursive() bool {
	const (
		begun = 1 + iota
		done
	)
	state := make([]byte, len(g.Rules))
	path := []Ref{0}
	for len(path) > 0 {
		r := path[len(path)-1]
		if state[r] != 0 {
			state[r] = done
			path = path[:len(path)-1]
			continue
		}
		state[r] = begun
		for _, to := range references(nil, g.Rules[r].Expr) {
			switch state[to] {
			case 0:
				path = append(path, to)
			case begun:
				return true
			}
		}
	}
	return false
}

// Differs reports whether an expression, without the rules that it refers to, has arrays whose elements differ or
// objects whose names do.
func Differs(e Expr) bool {
	_, is := e.(Distinct)
	return is || slices.ContainsFunc(parts(e), Differs)
}

// references appends the rules to which an expression refers.
func references(refs []Ref, e Expr) []Ref {
	if r, ok := e.(Ref); ok {
		return append(refs, r)
	}
	for _, part := range parts(e) {
		refs = references(refs, part)
	}
	return refs
}

// parts returns the expressions of which one consists.
func parts(e Expr) []Expr {
	switch e := e.(type) {
	case Seq:
		return e
	case Alt:
		return e
	case And:
		return e
	case AnyOrder:
		return e.all()
	case Not:
		return []Expr{e.Expr}
	case Repeat:
		return []Expr{e.Expr}
	case Distinct:
		return []Expr{e.Elements}
	case Limit:
		return []Expr{e.Expr}
	}
	return nil
}
