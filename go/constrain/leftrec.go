package constrain

import "slices"

// findEmpty finds the rules that match the empty text. It visits each instruction of a rule once: a call that
// may turn out to be empty waits for its rule.
func (p *program) findEmpty() {
	type at struct {
		pc   int32
		rule int
	}
	seen := map[at]bool{}
	waiting := make([][]at, len(p.rules)) // what follows the calls of each rule
	var todo []at
	for r := range p.rules {
		todo = append(todo, at{p.rules[r].start, r})
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if n.pc < 0 || seen[n] || p.rules[n.rule].empty {
			continue
		}
		seen[n] = true
		switch i := &p.insts[n.pc]; {
		case i.op == opSplit:
			todo = append(todo, at{i.alt, n.rule}, at{i.out, n.rule})
		case i.op == opHead || i.op == opPick:
			todo = append(todo, at{i.out, n.rule})
		case i.op == opMatch:
			p.rules[n.rule].empty = true
			todo = append(todo, waiting[n.rule]...)
		case i.op == opCall && !i.strict && p.rules[i.arg].empty:
			todo = append(todo, at{i.out, n.rule})
		case i.op == opCall && !i.strict:
			waiting[i.arg] = append(waiting[i.arg], at{i.out, n.rule})
		}
	}
}

// first returns the instructions that may be executed first from pc: bytes, tokens, calls, the end.
func (p *program) first(pc int32) (first []int32) {
	if len(p.marks) < len(p.insts) {
		p.marks, p.round = make([]int32, len(p.insts)), 0
	}
	p.round++
	todo := []int32{pc}
	for len(todo) > 0 {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if pc < 0 || p.marks[pc] == p.round || p.insts[pc].dead {
			continue
		}
		p.marks[pc] = p.round
		p.work.Do(1)
		if p.looked++; p.looked > maxCompile {
			refuse("the grammar is too large: too many of its parts may be left out, or begin one another")
		}
		switch i := p.insts[pc]; i.op {
		case opSplit:
			todo = append(todo, i.alt, i.out)
		case opHead, opPick, opWithin:
			todo = append(todo, i.out)
		default:
			if first = append(first, pc); i.op == opCall && !i.strict && p.rules[i.arg].empty {
				todo = append(todo, i.out)
			}
		}
	}
	return first
}

// begins returns the instructions with which each rule may begin, and the rules that it calls there.
func (p *program) begins() (first [][]int32, calls [][]int) {
	first, calls = make([][]int32, len(p.rules)), make([][]int, len(p.rules))
	for r := range p.rules {
		first[r] = p.first(p.rules[r].start)
		for _, pc := range first[r] {
			if p.insts[pc].op == opCall {
				calls[r] = append(calls[r], int(p.insts[pc].arg))
			}
		}
		slices.Sort(calls[r])
		calls[r] = slices.Compact(calls[r])
	}
	return first, calls
}

// rank numbers the rules so that those with which a rule may begin have higher ranks. There is no left recursion.
func (p *program) rank() []int32 {
	_, calls := p.begins()
	ranks := make([]int32, len(p.rules))
	for i, group := range components(len(p.rules), func(r int) []int { return calls[r] }) {
		for _, r := range group {
			ranks[r] = -int32(i)
		}
	}
	return ranks
}

// before returns, of each instruction, those that may have an end because it has one: its predecessors, and the calls of the
// rule that begins at it. Those of pc are list[from[pc]:from[pc+1]].
func (p *program) before() (from, list []int32) {
	from = make([]int32, len(p.insts)+1)
	each := func(pc int, visit func(to int32)) {
		i := &p.insts[pc]
		if i.out >= 0 {
			visit(i.out)
		}
		if i.alt >= 0 {
			visit(i.alt)
		}
		switch {
		case i.op == opCall:
			visit(p.rules[i.arg].start)
		case i.op == opHead && p.loops[i.arg].parts != nil:
			for _, pick := range p.loops[i.arg].parts.picks {
				visit(pick)
			}
		}
	}
	for pc := range p.insts {
		each(pc, func(to int32) { from[to]++ })
	}
	for pc := range p.insts {
		from[pc+1] += from[pc]
	}
	list = make([]int32, from[len(p.insts)])
	for pc := range p.insts {
		each(pc, func(to int32) {
			from[to]--
			list[from[to]] = int32(pc)
		})
	}
	return from, list
}

// trim marks the instructions from which no text of their rule ends.
func (p *program) trim() {
	from, before := p.before()
	for pc := range p.insts {
		p.insts[pc].dead = true
	}
	var todo []int32
	for pc := range p.insts {
		if p.insts[pc].op == opMatch {
			p.insts[pc].dead = false
			todo = append(todo, int32(pc))
		}
	}
	known := func(pc int32) bool { return pc >= 0 && !p.insts[pc].dead }
	for len(todo) > 0 {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, b := range before[from[pc]:from[pc+1]] {
			if i := &p.insts[b]; i.dead && p.finishes(i, known) {
				i.dead = false
				todo = append(todo, b)
			}
		}
	}
}

// finishes reports whether a text of the rule ends after an instruction, by what is known of those after it.
func (p *program) finishes(i *inst, known func(pc int32) bool) bool {
	switch i.op {
	case opCall:
		return known(i.out) && (i.ends(p) || known(p.rules[i.arg].start))
	case opToken:
		set := &p.tokens[i.arg]
		return known(i.out) && (set.not || len(set.ids) > 0)
	case opTurn:
		return known(i.alt) || known(i.out)
	case opHead:
		if parts := p.loops[i.arg].parts; parts != nil && slices.ContainsFunc(parts.picks, func(pc int32) bool { return !known(pc) }) {
			return false
		}
	}
	return known(i.out) || known(i.alt)
}

// ends reports whether the continuation of a call may come without the call's text.
func (i *inst) ends(p *program) bool { return !i.strict && p.rules[i.arg].empty }

// unwindLeft turns left recursion into loops, so that a stack at the start of a rule is finite. A
// left-recursive rule, direct or indirect, is replaced by a network that starts with the innermost rule: it
// begins with anything that a rule of the group begins with outside the group; where a rule of the group has
// ended, any rule that begins with it continues; where the goal has ended, the text may end too. It reports
// whether it changed anything.
func (c *compiler) unwindLeft() (changed bool) {
	first, calls := c.begins()
	starts := map[int]int32{}
	for _, group := range components(len(c.rules), func(r int) []int { return calls[r] }) {
		if len(group) == 1 && !slices.Contains(calls[group[0]], group[0]) {
			continue
		}
		for _, r := range group {
			if c.rules[r].most > 0 {
				refuse("the grammar has a limit of tokens for what may begin with itself")
			}
		}
		for _, goal := range group {
			starts[goal] = c.unwound(goal, group, first)
		}
	}
	for r, start := range starts {
		c.rules[r].start = start
	}
	return len(starts) > 0
}

// unwound returns the network of a rule of a left-recursive group.
func (c *compiler) unwound(goal int, group []int, first [][]int32) int32 {
	ended := map[int]int32{} // of each rule: where it has ended
	for _, r := range group {
		ended[r] = c.none()
	}
	copies := map[int]map[int32]int32{}
	for _, r := range group {
		copies[r] = c.copy(c.rules[r].start, ended[r])
	}
	after := func(r int, pc int32) int32 { return copies[r][pc] }
	follow := func(at, to int32) {
		also := c.split(to, c.insts[at].alt)
		c.insts[at].alt = also
	}
	start := c.none()
	for _, r := range group {
		for _, pc := range first[r] {
			i := c.insts[pc]
			switch {
			case i.op == opMatch:
			case i.op == opCall && copies[int(i.arg)] != nil: // of the group
				follow(ended[int(i.arg)], after(r, i.out))
			case i.op == opCall:
				follow(start, c.call(i.arg, after(r, i.out), true))
			default:
				follow(start, after(r, pc))
			}
		}
	}
	follow(ended[goal], c.add(inst{op: opMatch, out: -1, alt: -1}))
	return start
}

// copy duplicates the instructions from start on, with a new end, and returns the new position of each.
func (c *compiler) copy(start, end int32) map[int32]int32 {
	at := map[int32]int32{-1: -1}
	todo := []int32{start}
	for len(todo) > 0 {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, ok := at[pc]; ok {
			continue
		}
		if c.insts[pc].op == opMatch {
			at[pc] = end
			continue
		}
		at[pc] = c.add(c.insts[pc])
		todo = append(todo, c.insts[pc].out, c.insts[pc].alt)
	}
	for old, pc := range at {
		if old >= 0 && c.insts[old].op != opMatch {
			c.insts[pc].out, c.insts[pc].alt = at[c.insts[pc].out], at[c.insts[pc].alt]
		}
	}
	return at
}
