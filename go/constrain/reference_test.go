package constrain

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/grammar"
)

// A reference decides by definition whether tokens may begin a text of a grammar: what
// each rule derives between two places is computed until nothing is added.
type reference struct {
	g       *grammar.Grammar
	bytes   []byte      // of the tokens, one after another; control tokens have none
	tokens  map[int]tok // those that begin at a place
	ends    [][]map[int]bool
	begun   [][]bool
	some    []bool // rules that have a text
	changed bool
}

// A place is an index of bytes and of the tokens that print nothing before it.
type tok struct {
	id int32
	to int
}

// tooLong ends what references compute after maxSteps, where that is not 0: those of some grammars take seconds, and
// to a fuzzer ten seconds are a hang.
type tooLong struct{}

var steps, maxSteps int

func step() {
	if steps++; maxSteps > 0 && steps > maxSteps {
		panic(tooLong{})
	}
}

// silent stands for a token that prints nothing; no grammar in the tests has this byte.
const silent = 0xFF

func newReference(g *grammar.Grammar, v *Vocabulary, ids []int32) *reference {
	r := &reference{g: g, tokens: map[int]tok{}, some: make([]bool, len(g.Rules))}
	for _, id := range ids {
		at := len(r.bytes)
		if b := v.piece(id); len(b) > 0 {
			r.bytes = append(r.bytes, b...)
		} else {
			r.bytes = append(r.bytes, silent)
		}
		r.tokens[at] = tok{id, len(r.bytes)}
	}
	for range g.Rules {
		ends := make([]map[int]bool, len(r.bytes)+1)
		for i := range ends {
			ends[i] = map[int]bool{}
		}
		r.ends = append(r.ends, ends)
		r.begun = append(r.begun, make([]bool, len(r.bytes)+1))
	}
	for r.changed = true; r.changed; {
		r.changed = false
		for k, rule := range g.Rules {
			if !r.some[k] && r.has(rule.Expr) {
				r.some[k], r.changed = true, true
			}
		}
	}
	for r.changed = true; r.changed; {
		r.changed = false
		for k, rule := range g.Rules {
			for i := range len(r.bytes) + 1 {
				for j := range r.match(rule.Expr, i) {
					if !r.ends[k][i][j] {
						r.ends[k][i][j], r.changed = true, true
					}
				}
				if !r.begun[k][i] && r.begins(rule.Expr, i) {
					r.begun[k][i], r.changed = true, true
				}
			}
		}
	}
	return r
}

// viable tells whether the tokens begin a text, whole whether they are one.
func (r *reference) viable() bool { return r.begun[0][0] }
func (r *reference) whole() bool  { return r.ends[0][0][len(r.bytes)] }

// has tells whether an expression has a text.
func (r *reference) has(e grammar.Expr) bool {
	switch e := e.(type) {
	case grammar.Lit:
		return true
	case grammar.Class:
		return len(e) > 0
	case grammar.Token:
		return e.Not || len(e.IDs) > 0
	case grammar.Seq:
		for _, part := range e {
			if !r.has(part) {
				return false
			}
		}
		return true
	case grammar.Alt:
		for _, part := range e {
			if r.has(part) {
				return true
			}
		}
		return false
	case grammar.Repeat:
		return e.Min == 0 || r.has(e.Expr)
	case grammar.Limit:
		return r.has(e.Expr)
	case grammar.Ref:
		return r.some[e]
	}
	return !nothing(e)
}

// match returns where texts of an expression that begin at i end.
func (r *reference) match(e grammar.Expr, i int) map[int]bool {
	step()
	ends := map[int]bool{}
	switch e := e.(type) {
	case grammar.Lit:
		if bytes.HasPrefix(r.bytes[i:], []byte(e)) {
			ends[i+len(e)] = true
		}
	case grammar.Class:
		if c, n := utf8.DecodeRune(r.bytes[i:]); n > 1 || n == 1 && c != utf8.RuneError {
			for _, x := range e {
				if x.Lo <= c && c <= x.Hi {
					ends[i+n] = true
				}
			}
		}
	case grammar.Token:
		if t, ok := r.tokens[i]; ok && allows(e, t.id) {
			ends[t.to] = true
		}
	case grammar.Seq:
		ends[i] = true
		for _, part := range e {
			ends = r.each(ends, part)
		}
	case grammar.Alt:
		for _, part := range e {
			for j := range r.match(part, i) {
				ends[j] = true
			}
		}
	case grammar.Repeat:
		return r.repeat(e, i, func(grammar.Expr, int) bool { return false })
	case grammar.Limit:
		for j := range r.match(e.Expr, i) {
			if r.between(i, j) <= e.Tokens {
				ends[j] = true
			}
		}
	case grammar.Ref:
		return r.ends[e][i]
	default:
		for j := i; ; j++ {
			if nullable(e) {
				ends[j] = true
			}
			if j == len(r.bytes) {
				break
			}
			e = derive(e, r.bytes[j])
		}
	}
	return ends
}

// between returns how many tokens have bytes from i to j.
func (r *reference) between(i, j int) (n int) {
	for at, t := range r.tokens {
		if at < j && t.to > i {
			n++
		}
	}
	return n
}

func allows(e grammar.Token, id int32) bool {
	for _, x := range e.IDs {
		if x == id {
			return !e.Not
		}
	}
	return e.Not && id > 1 // 0 ends texts, 1 prints nothing
}

func (r *reference) each(from map[int]bool, e grammar.Expr) map[int]bool {
	ends := map[int]bool{}
	for i := range from {
		for j := range r.match(e, i) {
			ends[j] = true
		}
	}
	return ends
}

// repeat returns where Min to Max turns end; visit is told where each begins.
func (r *reference) repeat(e grammar.Repeat, i int, visit func(grammar.Expr, int) bool) map[int]bool {
	at, ends := map[int]bool{i: true}, map[int]bool{}
	if e.Min == 0 {
		ends[i] = true
	}
	for n := 1; (e.Max < 0 || n <= e.Max) && n <= e.Min+len(r.bytes)+1; n++ {
		for j := range at {
			if visit(e.Expr, j) {
				return map[int]bool{-1: true}
			}
		}
		if at = r.each(at, e.Expr); n >= e.Min {
			for j := range at {
				ends[j] = true
			}
		}
	}
	return ends
}

// begins tells whether what is left from i begins a text of an expression.
func (r *reference) begins(e grammar.Expr, i int) bool {
	rest := r.bytes[i:]
	switch e := e.(type) {
	case grammar.Lit:
		return bytes.HasPrefix([]byte(e), rest)
	case grammar.Class:
		for _, x := range e {
			for c := x.Lo; c <= x.Hi; c++ {
				if bytes.HasPrefix([]byte(string(c)), rest) {
					return true
				}
			}
		}
		return false
	case grammar.Token:
		t, ok := r.tokens[i]
		return r.has(e) && len(rest) == 0 || ok && t.to == len(r.bytes) && allows(e, t.id)
	case grammar.Seq:
		at := map[int]bool{i: true}
		if !r.has(e) {
			return false
		}
		for _, part := range e {
			for j := range at {
				if r.begins(part, j) {
					return true
				}
			}
			at = r.each(at, part)
		}
		return at[len(r.bytes)]
	case grammar.Alt:
		for _, part := range e {
			if r.begins(part, i) {
				return true
			}
		}
		return false
	case grammar.Repeat:
		if !r.has(e) {
			return false
		}
		ends := r.repeat(e, i, r.begins)
		return ends[-1] || ends[len(r.bytes)]
	case grammar.Limit:
		return r.between(i, len(r.bytes)) <= e.Tokens && r.begins(e.Expr, i)
	case grammar.Ref:
		return r.begun[e][i]
	}
	for _, b := range rest {
		e = derive(e, b)
	}
	return !nothing(e)
}

// A complement is all bytes that an expression has not.
type complement struct{ grammar.Expr }

var points = grammar.Alt{grammar.Lit("a"), grammar.Lit("b"), grammar.Lit("z"), grammar.Lit("é")}

// derive returns the rests of the texts of a regular expression that begin with a byte,
// for texts of the four code points.
func derive(e grammar.Expr, b byte) grammar.Expr {
	step()
	return simple(rests(e, b))
}

// simple removes what makes expressions grow from one derivative to the next.
func simple(e grammar.Expr) grammar.Expr {
	none := grammar.Alt{}
	isNone := func(e grammar.Expr) bool { alt, ok := e.(grammar.Alt); return ok && len(alt) == 0 }
	distinct := func(parts []grammar.Expr) (kept []grammar.Expr) {
		seen := map[string]bool{}
		for _, part := range parts {
			if key := fmt.Sprintf("%#v", part); !seen[key] {
				seen[key] = true
				kept = append(kept, part)
			}
		}
		return kept
	}
	switch e := e.(type) {
	case grammar.Alt:
		var parts []grammar.Expr
		for _, part := range e {
			if part = simple(part); !isNone(part) {
				if alt, ok := part.(grammar.Alt); ok {
					parts = append(parts, alt...)
				} else {
					parts = append(parts, part)
				}
			}
		}
		if parts = distinct(parts); len(parts) == 1 {
			return parts[0]
		}
		return append(none, parts...)
	case grammar.Seq:
		parts := grammar.Seq{}
		for _, part := range e {
			part = simple(part)
			if isNone(part) {
				return none
			}
			if seq, ok := part.(grammar.Seq); ok {
				parts = append(parts, seq...)
			} else if lit, ok := part.(grammar.Lit); !ok || lit != "" {
				parts = append(parts, part)
			}
		}
		if len(parts) == 1 {
			return parts[0]
		}
		return parts
	case grammar.And:
		var parts []grammar.Expr
		for _, part := range e {
			if part = simple(part); isNone(part) {
				return none
			}
			if and, ok := part.(grammar.And); ok {
				parts = append(parts, and...)
			} else {
				parts = append(parts, part)
			}
		}
		return grammar.And(distinct(parts))
	case complement:
		return complement{simple(e.Expr)}
	}
	return e
}

func rests(e grammar.Expr, b byte) grammar.Expr {
	switch e := e.(type) {
	case grammar.Lit:
		if len(e) > 0 && e[0] == b {
			return e[1:]
		}
	case grammar.Class:
		var rests grammar.Alt
		for _, x := range e {
			for c := x.Lo; c <= x.Hi; c++ {
				rests = append(rests, grammar.Lit(string(c)))
			}
		}
		return derive(rests, b)
	case grammar.Seq:
		if len(e) == 0 {
			break
		}
		var rests grammar.Alt
		if first := derive(e[0], b); !nothing(first) {
			rests = append(rests, append(grammar.Seq{first}, e[1:]...))
		}
		if nullable(e[0]) {
			rests = append(rests, derive(e[1:], b))
		}
		return rests
	case grammar.Alt:
		var rests grammar.Alt
		for _, part := range e {
			if rest := derive(part, b); !nothing(rest) {
				rests = append(rests, rest)
			}
		}
		return rests
	case grammar.Repeat:
		if e.Max == 0 {
			break
		}
		less := grammar.Repeat{Expr: e.Expr, Min: max(e.Min-1, 0), Max: e.Max}
		if e.Max > 0 {
			less.Max--
		}
		return grammar.Seq{derive(e.Expr, b), less}
	case grammar.And:
		var rests grammar.And
		for _, part := range e {
			rests = append(rests, derive(part, b))
		}
		return rests
	case grammar.Not:
		return derive(grammar.And{grammar.Repeat{Expr: points, Max: -1}, complement{e.Expr}}, b)
	case complement:
		return complement{derive(e.Expr, b)}
	}
	return grammar.Alt{}
}

func nullable(e grammar.Expr) bool {
	switch e := e.(type) {
	case grammar.Lit:
		return e == ""
	case grammar.Seq:
		for _, part := range e {
			if !nullable(part) {
				return false
			}
		}
		return true
	case grammar.Alt:
		for _, part := range e {
			if nullable(part) {
				return true
			}
		}
		return false
	case grammar.Repeat:
		return e.Min == 0 || nullable(e.Expr)
	case grammar.And:
		for _, part := range e {
			if !nullable(part) {
				return false
			}
		}
		return true
	case grammar.Not:
		return !nullable(e.Expr)
	case complement:
		return !nullable(e.Expr)
	}
	return false
}

// nothing tells whether a regular expression has no text.
func nothing(e grammar.Expr) bool {
	if !complex(e) {
		switch e := e.(type) {
		case grammar.Lit:
			return false
		case grammar.Class:
			return len(e) == 0
		case grammar.Seq:
			for _, part := range e {
				if nothing(part) {
					return true
				}
			}
			return false
		case grammar.Alt:
			for _, part := range e {
				if !nothing(part) {
					return false
				}
			}
			return true
		case grammar.Repeat:
			return e.Min > 0 && nothing(e.Expr)
		}
	}
	key := fmt.Sprintf("%#v", e)
	empty, ok := nothings[key]
	if !ok {
		empty = !within(e)
		nothings[key] = empty
	}
	return empty
}

var nothings = map[string]bool{}

// within tells whether one of the derivatives, some hundreds at most, has the empty text.
func within(e grammar.Expr) bool {
	todo, seen := []grammar.Expr{e}, map[string]bool{}
	for len(todo) > 0 && len(seen) < 300 {
		e, todo = todo[0], todo[1:]
		if nullable(e) {
			return true
		}
		for _, b := range []byte("abz\xc3\xa9") {
			next := derive(e, b)
			if key := fmt.Sprintf("%#v", next); !seen[key] {
				seen[key] = true
				todo = append(todo, next)
			}
		}
	}
	return false
}

// complex tells whether there is an And or a complement within.
func complex(e grammar.Expr) bool {
	any := func(parts []grammar.Expr) bool {
		for _, part := range parts {
			if complex(part) {
				return true
			}
		}
		return false
	}
	switch e := e.(type) {
	case grammar.Seq:
		return any(e)
	case grammar.Alt:
		return any(e)
	case grammar.Repeat:
		return complex(e.Expr)
	case grammar.And, grammar.Not, complement:
		return true
	}
	return false
}
