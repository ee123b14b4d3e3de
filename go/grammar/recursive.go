package grammar

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

// references appends the rules to which an expression refers.
func references(refs []Ref, e Expr) []Ref {
	var parts []Expr
	switch e := e.(type) {
	case Ref:
		return append(refs, e)
	case Seq:
		parts = e
	case Alt:
		parts = e
	case And:
		parts = e
	case AnyOrder:
		parts = e.all()
	case Not:
		return references(refs, e.Expr)
	case Repeat:
		return references(refs, e.Expr)
	case Limit:
		return references(refs, e.Expr)
	}
	for _, part := range parts {
		refs = references(refs, part)
	}
	return refs
}
