// Package grammar describes sets of texts: context-free grammars over UTF-8, whose regular
// parts may also be intersected and complemented. It knows neither tokens nor models;
// package constrain compiles a Grammar for a vocabulary. The languages in which people
// write grammars (GBNF, JSON Schema, regular expressions, Lark) are parsed into it.
package grammar

// A Grammar is a set of rules. The texts of rule 0 are the language.
type Grammar struct {
	Rules []Rule
	Work  *Work // of reading and compiling it; nil: without a bound
}

// A Rule gives an expression a name, so that expressions can refer to each other.
type Rule struct {
	Name string // for messages only
	Expr Expr
}

// An Expr is a set of texts.
type Expr interface{ expr() }

type (
	// Lit is a single text, byte by byte; "" is the empty text.
	Lit string
	// Class is the texts of one code point within one of the ranges, which are sorted
	// and do not overlap. An empty Class has no texts: nothing matches.
	Class []Range
	// Seq is one text of each, one after another. An empty Seq is the empty text.
	Seq []Expr
	// Alt is the texts of all of them. An empty Alt has no texts.
	Alt []Expr
	// Repeat is Min to Max texts, one after another; Max -1 is without a bound.
	Repeat struct {
		Expr     Expr
		Min, Max int
	}
	// AnyOrder is one or more texts of its parts and of More, in any order, with one of Between between two. A part comes
	// once at most, not empty, and the first Must of them have to come, with Listed in their order; there are at most MaxParts.
	// More, which may be nil, comes any number of times. It may not be inside And, Not or anything that must be regular.
	AnyOrder struct {
		Parts         []Expr
		Must          int
		Listed        bool
		More, Between Expr
	}
	// Ref is the texts of the rule with this index.
	Ref int
	// And is the texts that all of them have. Each must be regular: no rule within refers
	// to itself.
	And []Expr
	// Not is all sequences of code points that a regular expression does not have.
	Not struct{ Expr Expr }
	// Token is a single token of the vocabulary, whatever it prints; with Not, any other
	// token than these. It may not be inside And, Not or anything that must be regular.
	Token struct {
		IDs []int32
		Not bool
	}
	// Distinct is [, a text of Elements and ], where the whole is an array of JSON in which no two elements are the same
	// value: numbers count by value, members in any order. With Names it is {, a text of Elements and }, an object of which no
	// two members have the same name. It may not be inside And, Not or anything that must be regular.
	Distinct struct {
		Elements Expr
		Names    bool
	}
	// Limit is the texts of Expr that take at most so many tokens, those that are only partly of the text included.
	// Where it has as many, what follows Expr comes next; the text has no continuation if Expr cannot end there. It may
	// not be inside And, Not or anything that must be regular, nor begin with itself.
	Limit struct {
		Expr   Expr
		Tokens int // at least 1
	}
)

// MaxParts is how many parts AnyOrder may have.
const MaxParts = 31

// A Range is the code points from Lo to Hi, both included.
type Range struct{ Lo, Hi rune }

func (Lit) expr()      {}
func (Class) expr()    {}
func (Seq) expr()      {}
func (Alt) expr()      {}
func (Repeat) expr()   {}
func (AnyOrder) expr() {}
func (Ref) expr()      {}
func (And) expr()      {}
func (Not) expr()      {}
func (Token) expr()    {}
func (Distinct) expr() {}
func (Limit) expr()    {}

// all returns what there is in an AnyOrder.
func (e AnyOrder) all() []Expr {
	all := append(e.Parts[:len(e.Parts):len(e.Parts)], e.Between)
	if e.More != nil {
		all = append(all, e.More)
	}
	return all
}

// With returns an AnyOrder with what f makes of each expression in it.
func (e AnyOrder) With(f func(Expr) Expr) AnyOrder {
	out := AnyOrder{Must: e.Must, Listed: e.Listed, Between: f(e.Between), Parts: make([]Expr, len(e.Parts))}
	for i, part := range e.Parts {
		out.Parts[i] = f(part)
	}
	if e.More != nil {
		out.More = f(e.More)
	}
	return out
}

// Add appends a rule and returns a reference to it.
func (g *Grammar) Add(name string, e Expr) Ref {
	g.Rules = append(g.Rules, Rule{name, e})
	return Ref(len(g.Rules) - 1)
}
