package jinja

import (
	"context"
	"errors"
	"math/big"
)

// listItem is the bytes counted for an item of a list.
const listItem = 32

// everySteps is how many steps lie between two looks whether the rendering is still wanted: less than a millisecond.
const everySteps = 4096

// interp is the state of one rendering.
type interp struct {
	ctx    context.Context
	limits *Limits
	blind  int // steps since the last look at ctx
	depth  int
	line   int
	out    *builder
}

// step counts work before it is done.
func (it *interp) step(n int) {
	if it.limits.Steps -= n; it.limits.Steps < 0 {
		fail("takes too many steps: %w", ErrLimit)
	}
	if it.blind += n; it.blind > everySteps {
		it.blind = 0
		switch err := it.ctx.Err(); {
		case errors.Is(err, context.DeadlineExceeded):
			fail("takes too long: %w", ErrLimit)
		case err != nil:
			fail("%w", err)
		}
	}
}

// read counts the steps of scanning n bytes of text.
func (it *interp) read(n int) { it.step(n / 32) }

// scan counts the steps of taking n bytes of text apart, character by character.
func (it *interp) scan(n int) { it.step(n / 8) }

// hash counts the steps of hashing a key.
func (it *interp) hash(key any) {
	switch k := key.(type) {
	case string:
		it.read(len(k))
	case *Text:
		it.read(len(k.s))
	case *big.Int:
		it.step(1 + k.BitLen()/32)
	}
}

// get is d.Get, counted.
func (it *interp) get(d *Dict, key any) (any, bool) {
	it.hash(key)
	return d.Get(key)
}

// put is d.Set, counted.
func (it *interp) put(d *Dict, key, value any) {
	it.hash(key)
	it.alloc(3 * listItem)
	d.Set(key, value)
}

// alloc counts n bytes before they are allocated.
func (it *interp) alloc(n int) {
	if n < 0 || n > it.limits.Bytes {
		fail("makes too much text: %w", ErrLimit)
	}
	it.limits.Bytes -= n
	it.read(n)
}

// list makes a list of items, and counts them.
func (it *interp) list(items []any) *List {
	it.alloc(listItem * (len(items) + 1))
	return &List{Items: items}
}

// enter counts a level of recursion; the function that it returns ends it.
func (it *interp) enter() func() {
	if it.depth++; it.depth > maxDepth {
		fail("calls itself too often: %w", ErrLimit)
	}
	return it.leave
}

func (it *interp) leave() { it.depth-- }

func (it *interp) write(t Text) {
	it.alloc(len(t.s))
	it.out.add(it, t)
}

// capture runs f and returns what it wrote.
func (it *interp) capture(f func()) any {
	outer := it.out
	it.out = new(builder)
	f()
	inner := it.out
	it.out = outer
	return inner.value()
}

// scope holds the variables of a block; lookups continue in the parent.
type scope struct {
	vars   map[string]any
	parent *scope
}

func (s *scope) set(name string, v any) {
	if s.vars == nil {
		s.vars = map[string]any{}
	}
	s.vars[name] = v
}

func (it *interp) lookup(s *scope, name string) any {
	for n := 0; s != nil; s = s.parent {
		if n += 32 + len(name); n >= 512 { // some scopes are a step
			it.read(n)
			n = 0
		}
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	return missing("'%s' is undefined", name)
}

// signal is how statements ended.
type signal byte

const (
	done signal = iota
	broken
	continued
)

func (it *interp) exec(body []stmt, sc *scope) signal {
	defer it.enter()()
	for _, s := range body {
		it.step(1)
		if sig := it.run(s, sc); sig != done {
			return sig
		}
	}
	return done
}

func (it *interp) run(s stmt, sc *scope) signal {
	switch s := s.(type) {
	case dataStmt:
		it.write(Text{s: s.text})
	case outputStmt:
		it.line = s.line
		it.write(it.printed(it.eval(s.x, sc)))
	case ifStmt:
		it.line = s.line
		for i, test := range s.tests {
			if isTrue(it.eval(test, sc)) {
				return it.exec(s.bodies[i], sc)
			}
		}
		return it.exec(s.otherwise, sc)
	case forStmt:
		it.line = s.line
		it.loop(&s, it.eval(s.iter, sc), sc, 0)
	case setStmt:
		it.line = s.line
		it.assign(s.target, it.eval(s.x, sc), sc)
	case setBlockStmt:
		v := it.block(s.body, sc)
		if s.filter != nil {
			it.line = s.line
			v = it.filterBlock(s.filter, v, sc)
		}
		it.assign(s.target, v, sc)
	case filterStmt:
		v := it.block(s.body, sc)
		it.line = s.line
		it.write(it.printed(it.filterBlock(s.filter, v, sc)))
	case withStmt:
		it.line = s.line
		inner := &scope{parent: sc}
		for i, t := range s.targets {
			it.assign(t, it.eval(s.values[i], inner), inner)
		}
		return it.exec(s.body, inner)
	case macroStmt:
		sc.set(s.name, &macro{s.macroDef, sc})
	case callStmt:
		it.line = s.line
		call := s.call.(*callExpr)
		a := it.args(call.args, sc)
		a.names, a.named = append(a.names, "caller"), append(a.named, any(&macro{s.caller, sc}))
		it.write(it.printed(it.call(it.eval(call.fn, sc), a)))
	case groupStmt:
		return it.exec(s.body, &scope{parent: sc})
	case breakStmt:
		return broken
	case continueStmt:
		return continued
	}
	return done
}

// block renders statements that have a scope of their own to a text.
func (it *interp) block(body []stmt, sc *scope) any {
	return it.capture(func() { it.exec(body, &scope{parent: sc}) })
}

func (it *interp) assign(t target, v any, sc *scope) {
	switch {
	case t.several != nil:
		items := it.iterate(v)
		if len(items) != len(t.several) {
			fail("%d values for %d names", len(items), len(t.several))
		}
		for i, one := range t.several {
			it.assign(one, items[i], sc)
		}
	case t.attr != "":
		ns, ok := it.lookup(sc, t.name).(*namespace)
		if !ok {
			fail("cannot set attribute %s: %s is no namespace", t.attr, t.name)
		}
		it.put(ns.attrs, t.attr, v)
	default:
		it.alloc(3 * listItem)
		sc.set(t.name, v)
	}
}

// loop is the variable "loop" inside a loop.
type loop struct {
	items   []any
	index   int
	depth   int
	last    any // the argument of changed
	recurse func(v any) any
}

func (it *interp) loop(s *forStmt, over any, sc *scope, depth int) {
	defer it.enter()()
	items := it.iterate(over)
	if s.filter != nil {
		var kept []any
		for _, v := range items {
			inner := &scope{parent: sc}
			it.assign(s.target, v, inner)
			if isTrue(it.eval(s.filter, inner)) {
				kept = append(kept, v)
			}
		}
		items = it.list(kept).Items
	}
	if len(items) == 0 {
		it.exec(s.otherwise, &scope{parent: sc})
		return
	}
	l := &loop{items: items, depth: depth}
	if s.recursive {
		l.recurse = func(v any) any {
			return it.capture(func() { it.loop(s, v, sc, depth+1) })
		}
	}
	for i, v := range items {
		it.alloc(2 * listItem)
		l.index = i
		inner := &scope{parent: sc}
		inner.set("loop", l)
		it.assign(s.target, v, inner)
		if it.exec(s.body, inner) == broken {
			return
		}
	}
}

func (l *loop) attr(name string) any {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.index + 1)
	case "index0":
		return int64(l.index)
	case "revindex":
		return int64(n - l.index)
	case "revindex0":
		return int64(n - l.index - 1)
	case "first":
		return l.index == 0
	case "last":
		return l.index == n-1
	case "length":
		return int64(n)
	case "depth":
		return int64(l.depth + 1)
	case "depth0":
		return int64(l.depth)
	case "previtem":
		if l.index > 0 {
			return l.items[l.index-1]
		}
		return missing("there is no previous item")
	case "nextitem":
		if l.index < n-1 {
			return l.items[l.index+1]
		}
		return missing("there is no next item")
	case "cycle":
		return native(func(it *interp, a args) any {
			if len(a.pos) == 0 {
				fail("no items for cycle")
			}
			return a.pos[l.index%len(a.pos)]
		})
	case "changed":
		return native(func(it *interp, a args) any {
			now := tuple(a.pos...)
			if l.last != nil && it.equal(l.last, now) {
				return false
			}
			l.last = now
			return true
		})
	}
	return missing("'loop' has no attribute '%s'", name)
}

// macro is a macro with the scope of its definition.
type macro struct {
	*macroDef
	scope *scope
}

func (it *interp) callMacro(m *macro, a args) any {
	defer it.enter()()
	sc := &scope{parent: m.scope}
	n := len(a.pos) + len(a.names) + len(m.params)
	it.alloc(3 * listItem * n)
	it.scan(len(a.names) * len(m.params)) // see has
	var rest []any
	for i, v := range a.pos {
		if i < len(m.params) {
			sc.set(m.params[i], v)
		} else {
			rest = append(rest, v)
		}
	}
	others := &Dict{}
	for i, name := range a.names {
		switch {
		case !m.has(name) && name == "caller":
			sc.set(name, a.named[i])
		case !m.has(name):
			it.put(others, name, a.named[i])
		case sc.vars[name] != nil:
			fail("macro %s got its argument %s twice", m.name, name)
		default:
			sc.set(name, a.named[i])
		}
	}
	for i, name := range m.params {
		if _, ok := sc.vars[name]; ok {
			continue
		}
		if d := i - len(m.params) + len(m.defaults); d >= 0 {
			sc.set(name, it.eval(m.defaults[d], sc))
		} else {
			sc.set(name, missing("parameter '%s' was not provided", name))
		}
	}
	sc.set("varargs", &List{rest, true})
	sc.set("kwargs", others)
	return it.capture(func() { it.exec(m.body, sc) })
}

func (m *macro) has(param string) bool {
	for _, p := range m.params {
		if p == param {
			return true
		}
	}
	return false
}
