package lark

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/grammar"
)

// attributes are what brackets after the name of a rule say of its texts. Captures are names of parts of an answer:
// they change no text.
type attributes struct {
	lazy   bool  // the text ends as soon as it can
	suffix *node // comes after the text, which ends as soon as it can; it is part of the rule
	stop   *node // the same, and not part of the rule
	toEnd  bool  // the text ends where the answer does
	most   int   // tokens that the text may take; 0: any number
}

const wantAttributes = "want capture, lazy, suffix, stop, stop_capture or max_tokens"

// attributes reads the attributes of a rule, after the bracket.
func (p *parser) attributes(rule string) (a attributes, err error) {
	for {
		l := p.next()
		if l.kind != name {
			return a, fmt.Errorf("%s where an attribute of %s is a name, %s", l.describe(), rule, wantAttributes)
		}
		valued := p.take("=")
		switch {
		case l.text == "lazy" && !valued:
			a.lazy = true
		case l.text == "capture" && !valued:
		case (l.text == "capture" || l.text == "stop_capture") && valued:
			if v := p.next(); v.kind != str {
				err = fmt.Errorf("%s where the %s of %s is a string", v.describe(), l.text, rule)
			}
		case l.text == "suffix" && valued:
			a.suffix, err = p.ending(l.text, rule)
		case l.text == "stop" && valued && p.peek().kind == str && p.peek().text == "":
			p.at++
			a.toEnd = true
		case l.text == "stop" && valued:
			a.stop, err = p.ending(l.text, rule)
		case l.text == "max_tokens" && valued:
			v := p.next()
			n, bad := strconv.ParseInt(v.text, 10, 32)
			if v.kind != number || bad != nil || n < 1 {
				err = fmt.Errorf("%s where the max_tokens of %s is an integer from 1 on", v.describe(), rule)
			}
			a.most = int(n)
		case l.text == "temperature":
			err = fmt.Errorf("temperature of the rule %s is not supported: set the request's, which is that of the whole answer", rule)
		default:
			err = fmt.Errorf("the attribute %s of %s is not supported, %s", l.text, rule, wantAttributes)
		}
		if err != nil {
			return a, err
		}
		if !p.take(",") {
			return a, p.want("]")
		}
	}
}

// ending reads a suffix or a stop: a string, a regular expression or a terminal.
func (p *parser) ending(attribute, rule string) (*node, error) {
	if l := p.peek(); l.kind != str && l.kind != pat && (l.kind != name || !terminal(l.text)) {
		return nil, fmt.Errorf("%s where the %s of %s is a string, a regular expression or a terminal", l.describe(), attribute, rule)
	}
	return p.atom()
}

// attributed returns the texts of a rule with attributes.
func (b *builder) attributed(r *rule) (e grammar.Expr, err error) {
	switch {
	case r.stop != nil:
		return nil, b.unstoppable(r)
	case !r.lazy && r.suffix == nil:
		e, err = b.expr(r.body, false)
	default:
		e, err = b.lazy(r, r.suffix)
	}
	if r.most > 0 {
		e = grammar.Limit{Expr: e, Tokens: r.most}
	}
	return e, err
}

// lazy returns the texts of a rule, which are regular, up to the first place where what comes after them ends. It is
// all one part: nothing is ignored within it.
func (b *builder) lazy(r *rule, after *node) (grammar.Expr, error) {
	e, err := b.expr(r.body, true)
	if err != nil {
		return nil, err
	}
	if after != nil {
		end, err := b.expr(after, true)
		if err != nil {
			return nil, err
		}
		e = grammar.Seq{e, end}
	}
	longer := grammar.Seq{e, grammar.Repeat{Expr: grammar.Any, Min: 1, Max: -1}}
	return b.spaced(grammar.And{e, grammar.Not{Expr: longer}}, false), nil
}

// stopped returns the texts of a rule with a stop and of the part that follows it, if that is the stop: text cannot be
// taken back, so there the stop has to come.
func (b *builder) stopped(n, next *node) (e grammar.Expr, is bool, err error) {
	r := b.rules[n.text]
	if n.op != opName || r == nil || r.stop == nil {
		return nil, false, nil
	}
	if text, ok := r.stop.expr.(grammar.Lit); !ok || next == nil || next.op != opText || next.expr != grammar.Expr(text) {
		return nil, false, b.unstoppable(r)
	}
	if r.most > 0 {
		e, err = b.limitedBefore(r, string(r.stop.expr.(grammar.Lit)))
	} else {
		e, err = b.lazy(r, r.stop)
	}
	return e, true, err
}

// limitedBefore returns the texts of a rule with a limit of tokens, and the stop: it comes also where the tokens are
// spent. No other stop is within or across the end of the text.
func (b *builder) limitedBefore(r *rule, stop string) (grammar.Expr, error) {
	e, err := b.expr(r.body, true)
	if err != nil {
		return nil, err
	}
	before := grammar.And{e, grammar.Lacks(stop)}
	for n := 1; n < len(stop); n++ { // with the first n bytes of the stop at its end, the stop would begin there
		if stop[n:] == stop[:len(stop)-n] && utf8.ValidString(stop[:n]) {
			before = append(before, grammar.Not{Expr: grammar.Seq{grammar.Repeat{Expr: grammar.Any, Max: -1}, grammar.Lit(stop[:n])}})
		}
	}
	return b.spaced(grammar.Seq{grammar.Limit{Expr: before, Tokens: r.most}, grammar.Lit(stop)}, false), nil
}

func (b *builder) unstoppable(r *rule) error {
	stop := "its stop"
	if text, ok := r.stop.expr.(grammar.Lit); ok {
		stop = strconv.Quote(string(text))
	}
	return fmt.Errorf("stop of the rule %s is not supported where %s does not follow it, since text cannot be taken back: add that, use suffix, or the request's stop, at line %d of the grammar", r.name, stop, r.line)
}

// ends checks that what ends with the answer is at its end.
func (b *builder) ends(n *node, last bool, seen map[string]bool) error {
	switch n.op {
	case opName:
		r, key := b.rules[n.text], n.text
		if last {
			key += " last"
		}
		if r == nil || seen[key] {
			return nil
		}
		seen[key] = true
		if r.toEnd && !last {
			return fmt.Errorf(`stop="" of the rule %s is not supported where something follows it, since the answer ends there: use suffix, at line %d of the grammar`, r.name, r.line)
		}
		return b.ends(r.body, last, seen)
	case opAnd, opNot:
		last = false
	case opRepeat:
		last = last && n.max == 1
	}
	for i, sub := range n.subs {
		if err := b.ends(sub, last && (n.op != opSeq || i == len(n.subs)-1), seen); err != nil {
			return err
		}
	}
	return nil
}
