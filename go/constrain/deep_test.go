package constrain

import (
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// Where nesting ends, a mask allows what is taken and nothing else.
func TestMaskAtTheDepthOfStacks(t *testing.T) {
	v, pieces := vocabulary(true, "[[", "[[[[[", "[[]]", "[]", "]]")
	g := &grammar.Grammar{}
	g.Add("root", grammar.Seq{grammar.Lit("["), grammar.Repeat{Expr: grammar.Ref(0), Min: 0, Max: 1}, grammar.Lit("]")})
	a, err := v.Compile(g)
	if err != nil {
		t.Fatal(err)
	}
	c := a.New(true)
	open := int32('[' + 2)
	deep := false
	for depth := range maxDepth + 10 {
		if depth > maxDepth-12 || depth%1000 == 0 {
			next := NewSet(len(pieces))
			c.Mask(next)
			for id := range int32(len(pieces)) {
				took := c.Accept(id)
				if took != next.Has(id) {
					t.Fatalf("at depth %d %q is taken: %v, allowed: %v", depth, pieces[id], took, next.Has(id))
				}
				if took {
					c.Rollback(1)
				}
			}
		}
		if !c.Accept(open) {
			deep = true
			break
		}
	}
	if !deep {
		t.Errorf("nesting goes deeper than %d", maxDepth)
	}
}
