package grammar

import "fmt"

// MaxNesting is how deep the expressions of a rule may nest.
const MaxNesting = 2000

// Include appends the rules of h, and returns a reference to its rule 0. On an error g is
// not to be used.
func (g *Grammar) Include(h *Grammar) (Ref, error) {
	from := Ref(len(g.Rules))
	depth, tooDeep := 0, false
	var moved func(e Expr) Expr
	list := func(in []Expr) []Expr {
		out := make([]Expr, len(in))
		for i, e := range in {
			out[i] = moved(e)
		}
		return out
	}
	moved = func(e Expr) Expr {
		if depth++; depth > MaxNesting {
			tooDeep = true
			return nil
		}
		defer func() { depth-- }()
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
		case AnyOrder:
			return e.With(moved)
		case Distinct:
			return Distinct{moved(e.Elements), e.Names}
		case Limit:
			return Limit{moved(e.Expr), e.Tokens}
		case Repeat:
			return Repeat{moved(e.Expr), e.Min, e.Max}
		}
		return e
	}
	for _, r := range h.Rules {
		g.Add(r.Name, moved(r.Expr))
		if tooDeep {
			return from, fmt.Errorf("rule %q of the grammar nests more than %d deep", r.Name, MaxNesting)
		}
	}
	return from, nil
}

// Lacks is the texts of which no part is s.
func Lacks(s string) Expr {
	all := Repeat{Any, 0, -1}
	return Not{Seq{all, Lit(s), all}}
}
