package jinja

import "slices"

type parser struct {
	tokens  []token
	pos     int
	nesting int
	loops   int // around this place, as far as break and continue see them
}

func (p *parser) tok() token { return p.tokens[p.pos] }

func (p *parser) line() int {
	if p.pos < len(p.tokens) {
		return p.tok().line
	}
	return 1
}

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tEOF {
		p.pos++
	}
	return t
}

// enter counts a level of nesting; the function that it returns ends it.
func (p *parser) enter() func() {
	if p.nesting++; p.nesting > maxNesting {
		fail("nested more than %d deep: %w", maxNesting, ErrLimit)
	}
	return func() { p.nesting-- }
}

func (p *parser) is(k kind, text string) bool { return p.tok().kind == k && p.tok().text == text }

func (p *parser) skip(k kind, text string) bool {
	if p.is(k, text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) op(text string) bool   { return p.skip(tOp, text) }
func (p *parser) word(text string) bool { return p.skip(tName, text) }

func (p *parser) want(k kind, text string) token {
	t := p.tok()
	if t.kind != k || text != "" && t.text != text {
		if text == "" {
			text = map[kind]string{tName: "a name", tVarEnd: "}}", tBlockEnd: "%}"}[k]
		}
		fail("expected %s, found %s", text, t.what())
	}
	return p.next()
}

// body takes statements up to a tag with one of these names, and returns which.
// The rest of that tag is the caller's. Without names it takes the whole template.
func (p *parser) body(ends ...string) ([]stmt, string) {
	defer p.enter()()
	var body []stmt
	for {
		switch t := p.next(); t.kind {
		case tData:
			body = append(body, dataStmt{t.text})
		case tVarBegin:
			body = append(body, outputStmt{p.tuple(), t.line})
			p.want(tVarEnd, "")
		case tBlockBegin:
			tag := p.want(tName, "")
			if slices.Contains(ends, tag.text) {
				return body, tag.text
			}
			body = append(body, p.statement(tag))
			p.want(tBlockEnd, "")
		default:
			if ends != nil {
				fail("expected tag %s, found %s", ends[len(ends)-1], t.what())
			}
			return body, ""
		}
	}
}

// block takes the end of a tag and the statements up to one of the ends.
func (p *parser) block(ends ...string) ([]stmt, string) {
	p.want(tBlockEnd, "")
	return p.body(ends...)
}

// function is block for the body of what becomes a function: no loop reaches into it.
func (p *parser) function(end string) []stmt {
	loops := p.loops
	p.loops = 0
	body, _ := p.block(end)
	p.loops = loops
	return body
}

func (p *parser) statement(tag token) stmt {
	switch tag.text {
	case "if":
		return p.ifStatement(tag.line)
	case "for":
		return p.forStatement(tag.line)
	case "set":
		return p.setStatement(tag.line)
	case "macro":
		def := &macroDef{name: p.want(tName, "").text}
		p.signature(def)
		def.body = p.function("endmacro")
		return macroStmt{def}
	case "call":
		def := &macroDef{name: "caller"}
		if p.is(tOp, "(") {
			p.signature(def)
		}
		call := p.expression()
		if _, ok := call.(*callExpr); !ok {
			fail("call wants a call")
		}
		def.body = p.function("endcall")
		return callStmt{call, def, tag.line}
	case "filter":
		filter := p.filters(nil, true)
		body, _ := p.block("endfilter")
		return filterStmt{filter, body, tag.line}
	case "with":
		return p.withStatement(tag.line)
	case "generation":
		return groupStmt{p.function("endgeneration")}
	case "break", "continue":
		if p.loops == 0 {
			fail("%s outside of a loop", tag.text)
		}
		if tag.text == "break" {
			return breakStmt{}
		}
		return continueStmt{}
	}
	fail("unknown tag %s", tag.text)
	return nil
}

func (p *parser) ifStatement(line int) stmt {
	s := ifStmt{line: line}
	end := "elif"
	for end == "elif" {
		var body []stmt
		s.tests = append(s.tests, p.plainTuple())
		body, end = p.block("elif", "else", "endif")
		s.bodies = append(s.bodies, body)
	}
	if end == "else" {
		s.otherwise, _ = p.block("endif")
	}
	return s
}

func (p *parser) forStatement(line int) stmt {
	s := forStmt{line: line, target: p.target(false)}
	p.want(tName, "in")
	s.iter = p.plainTuple()
	if p.word("if") {
		s.filter = p.expression()
	}
	s.recursive = p.word("recursive")
	p.loops++
	var end string
	s.body, end = p.block("else", "endfor")
	p.loops--
	if end == "else" {
		s.otherwise, _ = p.block("endfor")
	}
	return s
}

func (p *parser) setStatement(line int) stmt {
	to := p.target(true)
	if p.op("=") {
		return setStmt{to, p.tuple(), line}
	}
	s := setBlockStmt{target: to, line: line}
	if p.is(tOp, "|") {
		s.filter = p.filters(nil, false)
	}
	s.body, _ = p.block("endset")
	return s
}

func (p *parser) withStatement(line int) stmt {
	s := withStmt{line: line}
	for p.tok().kind != tBlockEnd {
		if s.targets != nil {
			p.want(tOp, ",")
		}
		s.targets = append(s.targets, p.target(false))
		p.want(tOp, "=")
		s.values = append(s.values, p.expression())
	}
	s.body, _ = p.block("endwith")
	return s
}

func (p *parser) signature(def *macroDef) {
	p.want(tOp, "(")
	for !p.op(")") {
		if def.params != nil {
			p.want(tOp, ",")
		}
		def.params = append(def.params, p.want(tName, "").text)
		if p.op("=") {
			def.defaults = append(def.defaults, p.expression())
		} else if def.defaults != nil {
			fail("parameter without a default after one that has a default")
		}
	}
}

// target takes names to assign to, with commas between them.
func (p *parser) target(attr bool) target {
	one := p.oneTarget(attr)
	if !p.is(tOp, ",") {
		return one
	}
	several := []target{one}
	for p.op(",") && (p.tok().kind == tName && !p.is(tName, "in") || p.is(tOp, "(")) {
		several = append(several, p.oneTarget(attr))
	}
	return target{several: several}
}

func (p *parser) oneTarget(attr bool) target {
	defer p.enter()()
	if p.op("(") {
		t := p.target(attr)
		p.want(tOp, ")")
		return t
	}
	t := target{name: p.want(tName, "").text}
	if _, ok := constants[t.name]; ok {
		fail("cannot assign to %s", t.name)
	}
	if attr && p.op(".") {
		t.attr = p.want(tName, "").text
	}
	return t
}
