package form

import (
	"maps"
	"regexp"
	"strings"

	"github.com/quern-llm/quern/go/grammar"
)

// names are tokens by their names, and what finds those in a text.
type names struct {
	ids  map[string]int32
	find *regexp.Regexp
}

// newNames takes the tokens; one without a name has no place in a text.
func newNames(ids map[string]int32) names {
	ids = maps.Clone(ids)
	delete(ids, "")
	quoted := []string{}
	for name := range ids {
		quoted = append(quoted, regexp.QuoteMeta(name))
	}
	find := regexp.MustCompile(strings.Join(quoted, "|"))
	find.Longest()
	return names{ids, find}
}

// with lets the tokens be in the place of their names in the texts of e.
func (n names) with(e grammar.Expr) grammar.Expr {
	if len(n.ids) == 0 {
		return e
	}
	list := func(in []grammar.Expr) []grammar.Expr {
		out := make([]grammar.Expr, len(in))
		for i, e := range in {
			out[i] = n.with(e)
		}
		return out
	}
	switch e := e.(type) {
	case grammar.Lit:
		return n.text(string(e))
	case grammar.Seq:
		return grammar.Seq(list(e))
	case grammar.Alt:
		return grammar.Alt(list(e))
	case grammar.AnyOrder:
		return e.With(n.with)
	case grammar.Distinct: // which is JSON: its bytes are read
		return e
	case grammar.Limit:
		return grammar.Limit{Expr: n.with(e.Expr), Tokens: e.Tokens}
	case grammar.Repeat:
		return grammar.Repeat{Expr: n.with(e.Expr), Min: e.Min, Max: e.Max}
	}
	return e
}

func (n names) text(text string) grammar.Expr {
	var seq grammar.Seq
	at := 0
	for _, found := range n.find.FindAllStringIndex(text, -1) {
		name := text[found[0]:found[1]]
		seq = append(seq, grammar.Lit(text[at:found[0]]), grammar.Alt{grammar.Lit(name), grammar.Token{IDs: []int32{n.ids[name]}}})
		at = found[1]
	}
	return append(seq, grammar.Lit(text[at:]))
}
