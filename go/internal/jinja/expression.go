package jinja

import (
	"slices"
	"strings"
)

var constants = map[string]any{
	"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil,
}

// tuple takes an expression, or several with commas, which make a tuple.
func (p *parser) tuple() expr { return p.list(p.expression) }

// plainTuple is tuple where an "if" does not belong to the expression.
func (p *parser) plainTuple() expr { return p.list(p.or) }

func (p *parser) list(one func() expr) expr {
	x := one()
	if !p.is(tOp, ",") {
		return x
	}
	items := []expr{x}
	for p.op(",") && !p.ends() {
		items = append(items, one())
	}
	return &listExpr{items, true}
}

// ends reports whether the next token ends a tuple.
func (p *parser) ends() bool {
	switch t := p.tok(); t.kind {
	case tVarEnd, tBlockEnd:
		return true
	case tOp:
		return t.text == ")" || t.text == "]" || t.text == "="
	}
	return false
}

func (p *parser) expression() expr {
	defer p.enter()()
	x := p.or()
	for p.word("if") {
		c := &condExpr{then: x, test: p.or()}
		if p.word("else") {
			c.otherwise = p.expression()
		}
		x = c
	}
	return x
}

func (p *parser) or() expr {
	x := p.and()
	for p.word("or") {
		x = &logicExpr{true, x, p.and()}
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for p.word("and") {
		x = &logicExpr{false, x, p.not()}
	}
	return x
}

func (p *parser) not() expr {
	if p.word("not") {
		defer p.enter()()
		return &notExpr{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	c := &compareExpr{x: p.sum()}
	for {
		t := p.tok()
		op := ""
		switch {
		case t.kind == tOp && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text):
			op = t.text
		case p.is(tName, "in"):
			op = "in"
		case p.is(tName, "not") && p.tokens[p.pos+1].kind == tName && p.tokens[p.pos+1].text == "in":
			p.pos++
			op = "not in"
		}
		if op == "" {
			break
		}
		p.pos++
		c.ops = append(c.ops, op)
		c.with = append(c.with, p.sum())
	}
	if c.ops == nil {
		return c.x
	}
	return c
}

// binary parses operands of these left-associative operators.
func (p *parser) binary(operand func() expr, ops ...string) expr {
	x := operand()
	for p.tok().kind == tOp && slices.Contains(ops, p.tok().text) {
		op := p.next().text
		x = &binaryExpr{op, x, operand()}
	}
	return x
}

func (p *parser) sum() expr { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() expr {
	x := p.product()
	if !p.is(tOp, "~") {
		return x
	}
	c := &concatExpr{[]expr{x}}
	for p.op("~") {
		c.items = append(c.items, p.product())
	}
	return c
}

func (p *parser) product() expr { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() expr {
	return p.binary(func() expr { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) expr {
	defer p.enter()()
	var x expr
	switch {
	case p.op("-"):
		x = &signExpr{p.unary(false)}
	case p.op("+"):
		x = &plusExpr{p.unary(false)}
	default:
		x = p.primary()
	}
	x = p.postfix(x)
	if filters {
		x = p.filters(x, false)
	}
	return x
}

func (p *parser) primary() expr {
	switch t := p.next(); t.kind {
	case tName:
		if v, ok := constants[t.text]; ok {
			return &constant{v}
		}
		return &name{t.text}
	case tString:
		if p.tok().kind != tString {
			return &constant{t.text}
		}
		var b strings.Builder // adjacent strings are concatenated
		for b.WriteString(t.text); p.tok().kind == tString; {
			b.WriteString(p.next().text)
		}
		return &constant{b.String()}
	case tNumber:
		return &constant{t.num}
	case tOp:
		switch t.text {
		case "(":
			if p.op(")") {
				return &listExpr{tuple: true}
			}
			x := p.tuple()
			p.want(tOp, ")")
			return x
		case "[":
			l := &listExpr{}
			for !p.op("]") {
				if l.items != nil {
					p.want(tOp, ",")
					if p.op("]") {
						break
					}
				}
				l.items = append(l.items, p.expression())
			}
			return l
		case "{":
			return p.dict()
		}
		fallthrough
	default:
		fail("expected an expression, found %s", t.what())
		return nil
	}
}

func (p *parser) dict() expr {
	d := &dictExpr{}
	for !p.op("}") {
		if d.keys != nil {
			p.want(tOp, ",")
			if p.op("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression())
		p.want(tOp, ":")
		d.values = append(d.values, p.expression())
	}
	return d
}

func (p *parser) postfix(x expr) expr {
	for {
		switch {
		case p.op("."):
			if t := p.next(); t.kind == tName {
				x = &attrExpr{x, t.text}
			} else if _, ok := t.num.(int64); ok {
				x = &itemExpr{x, &constant{t.num}}
			} else {
				fail("expected a name after the dot, found %s", t.what())
			}
		case p.op("["):
			x = p.subscript(x)
		case p.is(tOp, "("):
			line := p.line()
			x = &callExpr{x, p.args(), line}
		default:
			return x
		}
	}
}

func (p *parser) subscript(x expr) expr {
	part := func() expr {
		if p.is(tOp, ":") || p.is(tOp, "]") {
			return nil
		}
		return p.expression()
	}
	first := part()
	if first != nil && p.is(tOp, ",") {
		items := []expr{first}
		for p.op(",") {
			items = append(items, p.expression())
		}
		first = &listExpr{items, true}
	}
	if !p.op(":") {
		if first == nil {
			fail("expected an index, found ']'")
		}
		p.want(tOp, "]")
		return &itemExpr{x, first}
	}
	s := &sliceExpr{x: x, start: first, stop: part()}
	if p.op(":") {
		s.step = part()
	}
	p.want(tOp, "]")
	return s
}

// filters takes the filters, tests and calls after an expression. The first
// filter of a filter block has no bar before it.
func (p *parser) filters(x expr, inline bool) expr {
	for {
		switch {
		case inline || p.op("|"):
			inline = false
			f := &filterExpr{x: x, name: p.dotted()}
			if f.fn = builtinOf(filters, f.name); f.fn == nil {
				f.fn = unknown("filter", f.name)
			}
			if p.is(tOp, "(") {
				f.args = p.args()
			}
			x = f
		case x != nil && p.word("is"):
			x = p.test(x)
		case x != nil && p.is(tOp, "("):
			line := p.line()
			x = &callExpr{x, p.args(), line}
		default:
			return x
		}
	}
}

func (p *parser) dotted() string {
	parts := []string{p.want(tName, "").text}
	for p.op(".") {
		parts = append(parts, p.want(tName, "").text)
	}
	return strings.Join(parts, ".")
}

// unknown returns a filter or a test that fails when called: one that is not
// defined is an error only where it is reached, as templates use filters of other
// programs under conditions.
func unknown(what, name string) builtin {
	return func(*interp, any, args) any {
		fail("unknown %s %s", what, name)
		return nil
	}
}

func (p *parser) test(x expr) expr {
	t := &testExpr{x: x, not: p.word("not")}
	which := p.dotted()
	if t.fn = builtinOf(tests, which); t.fn == nil {
		t.fn = unknown("test", which)
	}
	switch next := p.tok(); {
	case p.is(tOp, "("):
		t.args = p.args()
	case next.kind == tName && slices.Contains([]string{"else", "or", "and", "if", "in", "not"}, next.text):
	case next.kind == tName && next.text == "is":
		fail("several tests of one value want an and between them")
	case next.kind == tName, next.kind == tString, next.kind == tNumber, p.is(tOp, "["), p.is(tOp, "{"):
		t.args.pos = []expr{p.postfix(p.primary())}
	}
	return t
}

func (p *parser) args() arguments {
	var a arguments
	p.want(tOp, "(")
	for first := true; !p.op(")"); first = false {
		if !first {
			p.want(tOp, ",")
			if p.op(")") {
				break
			}
		}
		switch next := p.tokens[min(p.pos+1, len(p.tokens)-1)]; {
		case p.op("*"):
			a.star = p.expression()
		case p.op("**"):
			a.starry = p.expression()
		case p.tok().kind == tName && next.kind == tOp && next.text == "=":
			a.names = append(a.names, p.next().text)
			p.pos++
			a.named = append(a.named, p.expression())
		default:
			if a.names != nil || a.star != nil {
				fail("positional argument after a named one")
			}
			a.pos = append(a.pos, p.expression())
		}
	}
	return a
}
