package constrain

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/quern-llm/quern/go/grammar"
)

// A program is a grammar as a nondeterministic automaton over bytes: a network of instructions for each
// called rule. Non-recursive rules are mostly inlined.
type program struct {
	insts  []inst
	rules  []rule
	loops  []loop
	tokens []tokenSet

	distinct bool // there are arrays or objects whose parts have to differ

	work *grammar.Work // of compiling it; nil afterwards

	// Scratch of first.
	marks  []int32
	round  int32
	looked int // instructions, of all calls
}

// An inst is an instruction of a network.
type inst struct {
	op       op
	lo, hi   byte
	strict   bool  // of opCall: not the empty text, even if the rule has it
	dead     bool  // no text of the rule ends after this
	unspelt  bool  // no tokens of the vocabulary, from here, spell a rest of the rule's text
	arg      int32 // rule, loop or set
	out, alt int32 // what follows; -1: nothing
}

type op byte

const (
	opByte   op = iota // a byte of lo to hi
	opSplit            // nothing, then out or alt
	opHead             // the beginning of a turn of a loop
	opTurn             // the end of a turn of a counted loop: out is the head of the next, alt what follows the last
	opWithin           // within a turn of a counted loop, if its count is one from which a text goes on
	opPick             // the beginning of part lo of an unordered loop, unless it has come, or others have to come before
	opCall             // a text of a rule
	opToken            // a token of a set
	opMatch            // the end of the rule
)

// size returns the approximate bytes of a program and what an automaton keeps beside each instruction.
func (p *program) size() int {
	n := int(unsafe.Sizeof(inst{})+8)*cap(p.insts) + int(unsafe.Sizeof(rule{}))*len(p.rules) + (int(unsafe.Sizeof(loop{}))+8)*len(p.loops)
	for _, t := range p.tokens {
		n += 4 * len(t.ids)
	}
	return n + 4*len(p.marks)
}

// A rule is the network of a called rule.
type rule struct {
	name  string
	start int32
	empty bool  // it has the empty text
	most  int32 // tokens that it may take; 0: any number

	distinct bool // it is an array or an object of JSON, whose parts have to differ
}

// A loop is a repetition. Its count is part of a thread, not of the network, so a bound costs nothing. The
// loops of a network do not nest; nested ones are calls.
type loop struct {
	min, max int32 // turns; max -1: any number, and they are not counted beyond min
	counted  bool
	from, to int32   // turns after which another may come
	marks    []int32 // sorted: numbers of turns at which something changes in the loop, or in others with the same count; nil: it is unordered
	run      run
	turn     int32  // the end of a turn, if the loop is plain
	parts    *parts // of an unordered loop; nil: it is none
	dead     run    // of a state of a dfa: with what nothing goes on there; its rest is all beyond ASCII but the run's
	threads  int    // how many the state has; 0: it is no such, or its text may end
}

// parts are the parts of a loop in which each comes once at most. Its count is the set of those that have come. A turn has the
// number of its part in lo; noPart is one that may come again.
type parts struct {
	must   int32   // those that have to come
	listed bool    // those in their order
	left   int32   // those that can come
	more   bool    // something else can come, again and again
	picks  []int32 // where those that have to come begin
}

const noPart = grammar.MaxParts

// A run is the set of code points that lead from the head of a loop back to it, one iteration later.
type run struct {
	ascii  [2]uint64
	rest   bool   // all others
	beyond beyond // or some of them
}

func (r *run) add(lo, hi rune) {
	for c := lo; c <= min(hi, 0x7F); c++ {
		r.ascii[c/64] |= 1 << (c % 64)
	}
}

type tokenSet struct {
	ids []int32 // sorted
	not bool
}

// Bounds of grammars. A grammar beyond one is refused when it is compiled.
const (
	maxInsts   = 1 << 21
	maxEmits   = 1 << 24 // expressions that are translated, those within regular ones too
	maxNesting = grammar.MaxNesting
	maxTurns   = 1 << 20
	inlineSize = 200 // instructions of a rule that is copied to where it is referred to
	unrollSize = 64  // instructions of a counted loop that is unrolled
	smallEnd   = 8   // instructions with which a part of an unordered loop ends that are not called
)

// compiler translates the expressions of a grammar. Instructions are emitted from last to first, so each
// knows its successor.
type compiler struct {
	program
	g         *grammar.Grammar
	namespace string // of cached parts
	v         *Vocabulary
	size      []int       // of each rule of g, an estimate with what is copied into it; 0: unknown
	cyclic    []bool      // rules of g that refer to themselves
	empty     []bool      // rules of g that may have the empty text
	runs      map[int]run // of rules of g
	used      []int       // how often each rule of g is referred to
	called    []int32     // of each rule of g: its index in rules; -1: it is not called
	todo      []body
	nesting   int
	emits     *int // how many expressions have been translated, also by the compilers of regular parts
	flat      bool // no calls, no counts, no tokens: for an expression that must be regular
	counting  bool // inside of a counted loop
}

// A body is the expression of a rule that is not yet translated.
type body struct {
	rule int32
	expr grammar.Expr
}

// newProgram translates a grammar, within a namespace, for a vocabulary. Rule 0 of the program is the text.
func newProgram(namespace string, g *grammar.Grammar, v *Vocabulary) (p *program, err error) {
	if len(g.Rules) == 0 {
		return nil, errors.New("the grammar has no rules")
	}
	c := &compiler{program: program{work: g.Work}, g: g, namespace: namespace, v: v, runs: map[int]run{}, emits: new(int)}
	defer func() {
		if r := refused(recover()); r != nil {
			p, err = nil, r
		}
	}()
	c.survey()
	c.insts = make([]inst, 0, min(c.size[0]+64, maxInsts))
	c.called = slices.Repeat([]int32{-1}, len(g.Rules))
	c.rules = append(c.rules, rule{name: g.Rules[0].Name})
	c.todo = append(c.todo, body{0, grammar.Ref(0)})
	for len(c.todo) > 0 {
		b := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		start := c.emit(b.expr, c.add(inst{op: opMatch, out: -1, alt: -1}))
		c.rules[b.rule].start = start
	}
	c.findEmpty()
	c.trim()
	if c.insts[c.rules[0].start].dead {
		return nil, errors.New("no text matches the grammar")
	}
	if c.unwindLeft() {
		c.trim()
	}
	done := c.program // without the grammar
	return &done, nil
}

// A refusal is a panic of the compiler with an error of the grammar.
type refusal struct{ error }

// refused returns the error of a recovered refusal; it panics with anything else.
func refused(recovered any) error {
	switch r := recovered.(type) {
	case nil:
		return nil
	case refusal:
		return r.error
	default:
		panic(r)
	}
}

func refuse(format string, args ...any) { panic(refusal{fmt.Errorf(format, args...)}) }

func (c *compiler) add(i inst) int32 {
	c.work.Do(1)
	if len(c.insts) >= maxInsts {
		refuse("the grammar is too large: its automaton has more than %d instructions", maxInsts)
	}
	c.insts = append(c.insts, i)
	return int32(len(c.insts) - 1)
}

func (c *compiler) split(a, b int32) int32 { return c.add(inst{op: opSplit, out: a, alt: b}) }

func (c *compiler) bytes(lo, hi byte, next int32) int32 {
	return c.add(inst{op: opByte, lo: lo, hi: hi, out: next, alt: -1})
}

// none emits an instruction without successors.
func (c *compiler) none() int32 { return c.add(inst{op: opSplit, out: -1, alt: -1}) }

// emit adds the network of an expression before next and returns its first instruction.
func (c *compiler) emit(e grammar.Expr, next int32) int32 {
	if c.nesting++; c.nesting > maxNesting {
		refuse("the grammar nests more than %d deep", maxNesting)
	}
	defer func() { c.nesting-- }()
	c.work.Do(1)
	if *c.emits++; *c.emits > maxEmits {
		refuse("the grammar is too large: it has more than %d expressions where its repetitions and references are written out", maxEmits)
	}
	switch e := e.(type) {
	case grammar.Lit:
		return c.text(string(e), next)
	case grammar.Class:
		return c.class(e, next)
	case grammar.Seq:
		for _, part := range slices.Backward(e) {
			next = c.emit(part, next)
		}
		return next
	case grammar.Alt:
		return c.alternatives(e, next)
	case grammar.Repeat:
		return c.repeat(e, next)
	case grammar.AnyOrder:
		return c.anyOrder(e, next)
	case grammar.Ref:
		return c.ref(int(e), next)
	case grammar.Token:
		if c.flat {
			refuse("the grammar has a token within an intersection or a complement")
		}
		for _, id := range e.IDs {
			if id < 0 || int(id) >= c.v.n {
				refuse("token %d of the grammar is not in the vocabulary of %d", id, c.v.n)
			}
		}
		c.work.Do(len(e.IDs))
		c.tokens = append(c.tokens, tokenSet{slices.Compact(slices.Sorted(slices.Values(e.IDs))), e.Not})
		return c.add(inst{op: opToken, arg: int32(len(c.tokens) - 1), out: next, alt: -1})
	case grammar.Limit:
		if c.flat {
			refuse("the grammar has a limit of tokens within an intersection or a complement")
		}
		if e.Tokens < 1 {
			refuse("the grammar has a limit of %d tokens, want at least 1", e.Tokens)
		}
		r := c.anonymous(e.Expr)
		c.rules[r].most = int32(min(e.Tokens, math.MaxInt32))
		return c.call(r, next, false)
	case grammar.Distinct:
		if c.flat {
			refuse("the grammar has an array or an object whose parts differ within an intersection or a complement")
		}
		around := e.Brackets()
		r := c.anonymous(grammar.Seq{around[0], e.Elements, around[1]})
		c.rules[r].distinct, c.distinct = true, true
		return c.call(r, next, false)
	case grammar.And, grammar.Not:
		return c.regular(e, next)
	default:
		refuse("the grammar has an expression of type %T", e)
		return 0
	}
}

func (c *compiler) text(s string, next int32) int32 {
	for i := len(s) - 1; i >= 0; i-- {
		next = c.bytes(s[i], s[i], next)
	}
	return next
}

// alternatives emits alternatives. Literals share their prefixes.
func (c *compiler) alternatives(alt grammar.Alt, next int32) int32 {
	var texts []string
	start := int32(-1)
	for _, e := range slices.Backward(alt) {
		if text, ok := literal(e); ok {
			texts = append(texts, text)
			continue
		}
		if first := c.emit(e, next); start < 0 {
			start = first
		} else {
			start = c.split(first, start)
		}
	}
	if len(texts) > 0 {
		slices.Sort(texts)
		if first := c.trie(slices.Compact(texts), 0, next); start < 0 {
			start = first
		} else {
			start = c.split(first, start)
		}
	}
	if start < 0 {
		return c.none()
	}
	return start
}

// literal returns the text of an expression that matches a single text.
func literal(e grammar.Expr) (string, bool) {
	switch e := e.(type) {
	case grammar.Lit:
		return string(e), true
	case grammar.Class:
		if len(e) == 1 && e[0].Lo == e[0].Hi {
			return string(e[0].Lo), utf8.ValidRune(e[0].Lo)
		}
	case grammar.Seq:
		var b strings.Builder
		for _, part := range e {
			text, ok := literal(part)
			if !ok {
				return "", false
			}
			b.WriteString(text)
		}
		return b.String(), true
	}
	return "", false
}

// trie emits sorted texts from byte `at` on.
func (c *compiler) trie(texts []string, at int, next int32) int32 {
	shared := at // the bytes that all have are one path
	for first, last := texts[0], texts[len(texts)-1]; shared < len(first) && shared < len(last) && first[shared] == last[shared]; {
		shared++
	}
	start := int32(-1)
	rest := texts
	if len(rest[0]) == shared {
		start, rest = next, rest[1:]
	}
	for len(rest) > 0 {
		b, n := rest[0][shared], 1
		for n < len(rest) && rest[n][shared] == b {
			n++
		}
		first := c.bytes(b, b, c.trie(rest[:n], shared+1, next))
		if start < 0 {
			start = first
		} else {
			start = c.split(first, start)
		}
		rest = rest[n:]
	}
	return c.text(texts[0][at:shared], start)
}

func (c *compiler) repeat(e grammar.Repeat, next int32) int32 {
	lo, hi := e.Min, e.Max
	switch {
	case lo < 0 || hi < -1 || hi >= 0 && hi < lo:
		refuse("the grammar repeats from %d to %d times", lo, hi)
	case lo > maxTurns || hi > maxTurns:
		refuse("the grammar repeats up to %d times, at most %d are possible", max(lo, hi), maxTurns)
	case hi == 0:
		return next
	case lo == 1 && hi == 1:
		return c.emit(e.Expr, next)
	}
	turns := max(lo, hi)
	if lo <= 1 && hi < 0 || lo == 0 && hi == 1 || c.flat {
		return c.unroll(e, next)
	}
	run := c.run(e.Expr)
	if c.estimate(e.Expr)*turns <= unrollSize && (c.counting || !run.rest) { // states of runs are known at once
		return c.unroll(e, next)
	}
	if c.counting {
		return c.call(c.anonymous(e), next, false)
	}
	// An iteration must not be empty: a body that may be empty is called, and calls never match the empty
	// text.
	if c.hasEmpty(e.Expr) {
		lo = 0
	}
	c.counting = true
	defer func() { c.counting = false }()
	l := loop{min: int32(lo), max: int32(hi), counted: true, to: int32(hi - 1), marks: []int32{int32(lo)}, run: run}
	if hi < 0 {
		l.to = unbounded
	} else if hi > lo {
		l.marks = append(l.marks, int32(hi))
	}
	c.loops = append(c.loops, l)
	n := int32(len(c.loops) - 1)
	head := c.add(inst{op: opHead, arg: n, alt: -1})
	turn := c.add(inst{op: opTurn, arg: n, out: head, alt: next})
	var body int32
	if c.hasEmpty(e.Expr) {
		body = c.call(c.anonymous(e.Expr), turn, true)
	} else {
		body = c.emit(e.Expr, turn)
	}
	c.insts[head].out = body
	if lo == 0 {
		return c.split(head, next)
	}
	return head
}

// anyOrder emits a loop over parts, whose count is the set of those that have come.
func (c *compiler) anyOrder(e grammar.AnyOrder, next int32) int32 {
	switch {
	case c.flat:
		refuse("the grammar has parts in any order within an intersection or a complement")
	case len(e.Parts) > grammar.MaxParts || e.Must < 0 || e.Must > len(e.Parts):
		refuse("the grammar has %d parts in any order, of which %d have to be; at most %d are possible", len(e.Parts), e.Must, grammar.MaxParts)
	case c.counting:
		return c.call(c.anonymous(e), next, false)
	}
	c.counting = true
	defer func() { c.counting = false }()
	p := &parts{must: 1<<e.Must - 1, listed: e.Listed}
	c.loops = append(c.loops, loop{counted: true, parts: p})
	n := int32(len(c.loops) - 1)
	head := c.add(inst{op: opHead, arg: n, out: -1, alt: -1})
	again := c.emit(e.Between, head)
	turn := func(part grammar.Expr, i byte) int32 {
		end := c.add(inst{op: opTurn, arg: n, lo: i, out: again, alt: next})
		if c.hasEmpty(part) { // a turn is never empty
			return c.call(c.anonymous(part), end, true)
		}
		seq, ok := part.(grammar.Seq)
		if last := len(seq) - 1; ok && last > 0 && c.estimate(seq[last]) > smallEnd {
			return c.emit(seq[:last], c.apart(seq[last], end))
		}
		return c.emit(part, end)
	}
	pick := func(part grammar.Expr, i byte) int32 {
		at := c.add(inst{op: opPick, arg: n, lo: i, out: turn(part, i), alt: -1})
		if first := c.insts[head].out; first >= 0 {
			c.insts[head].out = c.split(at, first)
		} else {
			c.insts[head].out = at
		}
		return at
	}
	if e.More != nil {
		pick(e.More, noPart)
	}
	for i, part := range slices.Backward(e.Parts) {
		if at := pick(part, byte(i)); i < e.Must {
			p.picks = append(p.picks, at)
		}
	}
	return head
}

// apart emits a call of an expression, so that its states are the same whatever the count of the loop around it is.
func (c *compiler) apart(e grammar.Expr, next int32) int32 {
	if i, ok := e.(grammar.Ref); ok && int(i) >= 0 && int(i) < len(c.called) {
		return c.calls(int(i), next)
	}
	return c.call(c.anonymous(e), next, false)
}

// unroll emits iterations in sequence.
func (c *compiler) unroll(e grammar.Repeat, next int32) int32 {
	optional := e.Max - e.Min
	if e.Max < 0 {
		c.loops = append(c.loops, loop{max: -1, run: c.run(e.Expr)})
		head := c.add(inst{op: opHead, arg: int32(len(c.loops) - 1), alt: -1})
		again := c.split(head, next)
		body := c.emit(e.Expr, again)
		c.insts[head].out = body
		if next = again; e.Min > 0 {
			e.Min--
			next = head
		}
		optional = 0
	}
	end := next
	// An iteration without an instruction matches only the empty text, and so do all others.
	for range optional {
		turn := c.emit(e.Expr, next)
		if turn == next {
			break
		}
		next = c.split(turn, end)
	}
	for range e.Min {
		turn := c.emit(e.Expr, next)
		if turn == next {
			break
		}
		next = turn
	}
	return next
}

// run returns the single code points that an expression matches.
func (c *compiler) run(e grammar.Expr) (r run) {
	c.work.Do(1)
	switch e := e.(type) {
	case grammar.Class:
		for _, x := range e {
			r.add(x.Lo, x.Hi)
		}
		if len(e) > 0 && e[len(e)-1].Hi >= utf8.RuneSelf {
			r.addBeyond(e)
		}
	case grammar.Alt:
		var some []grammar.Class
		for _, part := range e {
			s := c.run(part)
			r.ascii[0] |= s.ascii[0]
			r.ascii[1] |= s.ascii[1]
			r.rest = r.rest || s.rest
			if s.beyond != (beyond{}) {
				some = append(some, s.beyond.class())
			}
		}
		if len(some) > 0 && !r.rest {
			r.addBeyond(grammar.Union(some...))
		}
	case grammar.Ref:
		if !c.cyclic[e] {
			known, ok := c.runs[int(e)]
			if !ok {
				known = c.run(c.g.Rules[e].Expr)
				c.runs[int(e)] = known
			}
			return known
		}
	case grammar.Lit:
		if len(e) == 1 && e[0] < 0x80 {
			r.add(rune(e[0]), rune(e[0]))
		}
	}
	return r
}

func (c *compiler) ref(i int, next int32) int32 {
	if i < 0 || i >= len(c.g.Rules) {
		refuse("the grammar refers to rule %d of %d", i, len(c.g.Rules))
	}
	if c.flat && c.cyclic[i] {
		refuse("rule %q of the grammar refers to itself within an intersection or a complement", c.g.Rules[i].Name)
	}
	if !c.cyclic[i] && (c.flat || c.nesting < maxNesting/2 && (c.used[i] == 1 || c.size[i] <= inlineSize)) {
		return c.emit(c.g.Rules[i].Expr, next)
	}
	return c.calls(i, next)
}

// calls emits a call of a rule of g.
func (c *compiler) calls(i int, next int32) int32 {
	if c.called[i] < 0 {
		c.called[i] = int32(len(c.rules))
		c.rules = append(c.rules, rule{name: c.g.Rules[i].Name})
		c.todo = append(c.todo, body{c.called[i], c.g.Rules[i].Expr})
	}
	return c.call(c.called[i], next, false)
}

func (c *compiler) call(rule, next int32, strict bool) int32 {
	return c.add(inst{op: opCall, arg: rule, strict: strict, out: next, alt: -1})
}

// anonymous adds a rule for an expression.
func (c *compiler) anonymous(e grammar.Expr) int32 {
	c.rules = append(c.rules, rule{})
	c.todo = append(c.todo, body{int32(len(c.rules) - 1), e})
	return int32(len(c.rules) - 1)
}
