package grammar

// Include appends the rules of h, and returns a reference to its rule 0.
func (g *Grammar) Include(h *Grammar) Ref {
	from := Ref(len(g.Rules))
	var moved func(e Expr) Expr
	list := func(in []Expr) []Expr {
		out := make([]Expr, len(in))
		for i, e := range in {
			out[i] = moved(e)
		}
		return out
	}
	moved = func(e Expr) Expr {
		switch e := e.(type) {
		case Ref:
			return e + from
		case Seq:
			return Seq(list(e))
		case Alt:
			return Alt(list(e))
		case And:
			return And(list(e))
		case Not:
			return Not{moved(e.Expr)}
		case Repeat:
			return Repeat{moved(e.Expr), e.Min, e.Max}
		}
		return e
	}
	for _, r := range h.Rules {
		g.Add(r.Name, moved(r.Expr))
	}
	return from
}

// Lacks is the texts of which no part is s.
func Lacks(s string) Expr {
	all := Repeat{Any, 0, -1}
	return Not{Seq{all, Lit(s), all}}
}
