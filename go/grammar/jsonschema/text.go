package jsonschema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/grammar"
)

// texts is what strings may be. Its expressions are of what a string says, not of how it
// is written.
type texts struct {
	exprs    []grammar.Expr // all of which hold
	min, max int            // characters; max -1: any
	in       []string
	only     bool          // in counts, though it may be empty
	work     *grammar.Work // of matching
}

func (t *texts) has(s string) bool {
	if n := utf8.RuneCountInString(s); n < t.min || t.max >= 0 && n > t.max {
		return false
	}
	return !slices.ContainsFunc(t.exprs, func(e grammar.Expr) bool { return !grammar.Match(nil, e, s, t.work) })
}

func (t *texts) merge(u texts) {
	t.exprs = slices.Concat(t.exprs, u.exprs)
	if t.work == nil {
		t.work = u.work
	}
	t.min, t.max = max(t.min, u.min), least(t.max, u.max)
	switch {
	case u.only && t.only:
		has := map[string]bool{}
		for _, s := range u.in {
			has[s] = true
		}
		t.in = slices.DeleteFunc(slices.Clone(t.in), func(s string) bool { return !has[s] })
	case u.only:
		t.in, t.only = u.in, true
	}
}

// least is the smaller of two bounds, of which -1 is none.
func least(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// settle drops the strings that cannot be, and reports whether any can, as far as that is
// seen at once.
func (t *texts) settle() bool {
	if t.only {
		if len(t.exprs) > 0 || t.min > 0 || t.max >= 0 {
			t.in = slices.DeleteFunc(slices.Clone(t.in), func(s string) bool { return !t.has(s) })
			t.exprs, t.min, t.max = nil, 0, -1
		}
		return len(t.in) > 0
	}
	return t.max < 0 || t.min <= t.max
}

// free reports whether nothing is said about strings.
func (t *texts) free() bool { return !t.only && len(t.exprs) == 0 && t.min == 0 && t.max < 0 }

// language returns the expression of what the strings say.
func (t *texts) language() grammar.Expr {
	if t.only {
		out := make(grammar.Alt, len(t.in))
		for i, s := range t.in {
			out[i] = grammar.Lit(s)
		}
		return out
	}
	all := slices.Clone(t.exprs)
	if t.min > 0 || t.max >= 0 || len(all) == 0 {
		all = append(all, grammar.Repeat{Expr: grammar.Any, Min: t.min, Max: t.max})
	}
	return and(all)
}

func and(all []grammar.Expr) grammar.Expr {
	if len(all) == 1 {
		return all[0]
	}
	return grammar.And(all)
}

// str returns the texts of the strings, in quotes.
func (c *compiler) str(t texts) grammar.Expr {
	char := func() grammar.Expr { return c.shared("char", charExpr) }
	switch {
	case t.only:
		out := make(grammar.Alt, len(t.in))
		for i, s := range t.in {
			out[i] = c.quote(s)
		}
		return out
	case c.opts.Notation != nil && t.free():
		return c.shared("string", c.opts.Notation.Text(nil))
	case c.opts.Notation != nil:
		return c.opts.Notation.Text(t.language())
	case t.free():
		return c.shared("string", quoted(grammar.Repeat{Expr: char(), Min: 0, Max: -1}))
	case len(t.exprs) == 0:
		return quoted(grammar.Repeat{Expr: char(), Min: t.min, Max: t.max})
	}
	return quoted(encode(t.language()))
}

// quote returns the text of a string.
func (c *compiler) quote(s string) grammar.Expr {
	if n := c.opts.Notation; n != nil {
		return n.Text(grammar.Lit(s))
	}
	return grammar.Lit(quote(s))
}

// name returns the texts of the names of members by what they say; nil: anything.
func (c *compiler) name(says grammar.Expr) grammar.Expr {
	switch lit, is := says.(grammar.Lit); {
	case c.opts.Notation != nil:
		return c.opts.Notation.Name(says)
	case is:
		return grammar.Lit(quote(string(lit)))
	case says == nil:
		return c.str(texts{max: -1})
	}
	return Quoted(says)
}

// Quoted returns strings by what they say, in quotes; nil is anything.
func Quoted(says grammar.Expr) grammar.Expr {
	if says == nil {
		return quoted(grammar.Repeat{Expr: charExpr, Min: 0, Max: -1})
	}
	return quoted(encode(says))
}

// Encoded returns a grammar of the ways to write the texts of another within quotes. Tokens of
// the vocabulary are as they are. Elements and names that differ can't be written so: whether they do is seen in JSON.
func Encoded(g *grammar.Grammar) (*grammar.Grammar, error) {
	out := &grammar.Grammar{}
	for _, r := range g.Rules {
		if grammar.Differs(r.Expr) {
			return nil, fmt.Errorf("rule %q has values that must differ (uniqueItems, or minProperties of any names), which can't be decided within a string", r.Name)
		}
		out.Add(r.Name, encode(r.Expr))
	}
	return out, nil
}

func quoted(e grammar.Expr) grammar.Expr { return grammar.Seq{grammar.Lit(`"`), e, grammar.Lit(`"`)} }

// charExpr is a character within a string in any of the ways to write it, but for halves
// of surrogate pairs, which are none.
var charExpr = grammar.Alt{
	plain,
	grammar.Seq{grammar.Lit(`\`), grammar.Alt{
		grammar.Runes(`"\/bfnrt`),
		grammar.Seq{grammar.Lit("u"), grammar.Alt{
			grammar.Seq{grammar.Runes("0123456789abcefABCEF"), hex(3)},
			grammar.Seq{grammar.Runes("dD"), grammar.Alt{
				grammar.Seq{grammar.Runes("01234567"), hex(2)},
				grammar.Seq{grammar.Runes("89abAB"), hex(2), grammar.Lit(`\u`), grammar.Runes("dD"), grammar.Runes("cdefCDEF"), hex(2)},
			}},
		}},
	}},
}

func hex(n int) grammar.Expr {
	return grammar.Repeat{Expr: grammar.Runes("0123456789abcdefABCDEF"), Min: n, Max: n}
}

var (
	special  = grammar.Union(grammar.Runes(`"\`), grammar.Class{{Lo: 0, Hi: 0x1f}})
	plain    = special.Negate()
	anything = grammar.Repeat{Expr: encodeClass(grammar.Any), Min: 0, Max: -1}
)

// quote writes a string as JSON.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		b.WriteString(char(r))
	}
	b.WriteByte('"')
	return b.String()
}

// char is how a character is written.
func char(r rune) string {
	switch r {
	case '"', '\\':
		return `\` + string(r)
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	if r < 0x20 {
		return fmt.Sprintf(`\u%04x`, r)
	}
	return string(r)
}

// encode returns the ways to write the texts of a regular expression within quotes. Each
// character is written in one way, so that the complement is of what is said.
func encode(e grammar.Expr) grammar.Expr {
	list := func(in []grammar.Expr) []grammar.Expr {
		out := make([]grammar.Expr, len(in))
		for i, sub := range in {
			out[i] = encode(sub)
		}
		return out
	}
	switch e := e.(type) {
	case grammar.Lit:
		q := quote(string(e))
		return grammar.Lit(q[1 : len(q)-1])
	case grammar.Class:
		return encodeClass(e)
	case grammar.Seq:
		return grammar.Seq(list(e))
	case grammar.Alt:
		return grammar.Alt(list(e))
	case grammar.And:
		return grammar.And(list(e))
	case grammar.AnyOrder:
		return e.With(encode)
	case grammar.Limit:
		return grammar.Limit{Expr: encode(e.Expr), Tokens: e.Tokens}
	case grammar.Repeat:
		return grammar.Repeat{Expr: encode(e.Expr), Min: e.Min, Max: e.Max}
	case grammar.Not:
		return grammar.And{anything, grammar.Not{Expr: encode(e.Expr)}}
	}
	return e
}

func encodeClass(class grammar.Class) grammar.Expr {
	var out grammar.Alt
	if rest := class.Without(special); len(rest) > 0 {
		out = append(out, rest)
	}
	var short, low, high []grammar.Range // \n, \u000x, \u001x
	for _, r := range class {
		for x := r.Lo; x <= min(r.Hi, '\\'); x++ {
			if !special.Has(x) {
				continue
			}
			written := char(x)
			last := rune(written[len(written)-1])
			to := &short
			if strings.HasPrefix(written, `\u000`) {
				to = &low
			} else if strings.HasPrefix(written, `\u001`) {
				to = &high
			}
			*to = append(*to, grammar.Range{Lo: last, Hi: last})
		}
	}
	for i, ranges := range [][]grammar.Range{short, low, high} {
		if len(ranges) > 0 {
			out = append(out, grammar.Seq{grammar.Lit([]string{`\`, `\u000`, `\u001`}[i]), grammar.NewClass(ranges...)})
		}
	}
	if len(out) == 1 {
		return out[0]
	}
	return out
}
