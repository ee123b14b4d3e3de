package kvcache

// How are the options of Keep.
type How struct {
	Whole   bool // only whole blocks: the table will grow, and would have to copy a shared last one
	Awaited bool // evicted last, until it is found: the sequence will be resumed
	Behind  int  // tokens at the end that are left out: the state there is not that of the tokens alone
	End     bool // others are likely to continue from there: the end of a prompt or of an answer
}

// Keep inserts a table's units into the tree. ids are its tokens, one per position. If the tree already has a
// block of the same tokens, the table shares that block instead of its own. The recurrent state at the end of
// the table is kept too, if How says so.
func (t *Tree) Keep(ns string, table *Table, ids []int32, how How) {
	if len(ids) != table.n || table.n != table.done {
		panic("kvcache: a table and its tokens differ in length, or a pass has not ended")
	}
	ids = ids[:len(ids)-how.Behind]
	if how.Whole {
		ids = ids[:len(ids)-len(ids)%BlockTokens]
	}
	if len(ids) == 0 {
		return
	}
	at := t.roots[ns]
	if at == nil {
		at = &node{ns: ns}
		t.roots[ns] = at
	}
	t.path = t.path[:0]
	for i := range blocksFor(len(ids)) {
		ids := ids[i*BlockTokens : min((i+1)*BlockTokens, len(ids))]
		child, common := at.closest(ids)
		switch {
		case common == len(ids): // the tree has it, in blocks of the same bits
			t.share(child, table, i, len(ids))
		case child != nil && common == len(child.ids): // the tree has a prefix of the block
			at.extend(child, ids)
			t.replace(child, table, i)
		default:
			child = t.add(at, ids, i*BlockTokens)
			t.replace(child, table, i)
		}
		if how.Awaited && !child.awaited {
			child.awaited = true
			t.revalue(child)
		}
		t.path = append(t.path, child)
		at = child
	}
	if how.End {
		t.end(table, len(ids))
	}
	t.prune(at)
}

func (t *Tree) add(parent *node, ids []int32, pos int) *node {
	n := &node{parent: parent, ids: append([]int32(nil), ids...), pos: pos, held: make([]*holding, t.paged)}
	if parent.children == nil {
		parent.children = map[int32]siblings{}
	}
	parent.children[ids[0]] = parent.children[ids[0]].with(n)
	t.revalue(parent) // no longer a leaf
	return n
}

// share replaces block i of a table by the block of a node that begins with the same tokens, and gives the
// node those of the table's units that it lacks.
func (t *Tree) share(n *node, table *Table, i, tokens int) {
	for k := range t.parts[:t.paged] {
		p, h := &t.parts[k], n.held[k]
		units := table.blocks(p, i)
		switch {
		case units == nil:
		case h == nil:
			if tokens == len(n.ids) && !t.owns(p, units) {
				t.hold(n, k, units)
			}
		default:
			for j, g := range p.groups {
				if own := h.units[j]; own != units[j] {
					t.pool.hold(g, own)
					t.pool.drop(g, units[j])
					table.units[g][i] = own
				}
			}
		}
	}
}

// replace makes a node hold a table's block i instead of its own.
func (t *Tree) replace(n *node, table *Table, i int) {
	for k := range t.parts[:t.paged] {
		if n.held[k] != nil {
			t.release(n.held[k])
			n.held[k] = nil
		}
		if units := table.blocks(&t.parts[k], i); units != nil {
			t.hold(n, k, units)
		}
	}
	t.revalue(n)
}

// blocks returns the table's block i of each of a part's groups; nil where it is
// behind the window.
func (t *Table) blocks(p *part, i int) []int32 {
	units := make([]int32, len(p.groups))
	for j, g := range p.groups {
		if units[j] = t.units[g][i]; units[j] < 0 {
			return nil
		}
	}
	return units
}

// end records that texts are likely to continue from the end of the path, after n tokens,
// and keeps the table's state there, if it is the state at that position.
func (t *Tree) end(table *Table, n int) {
	for i, at := range t.path {
		for k, h := range at.held {
			if p := &t.parts[k]; h != nil && p.kind == windowed && p.window.sees(i, n) {
				h.used++
				t.value(h)
			}
		}
	}
	if !t.hasStates() || n < table.n {
		return
	}
	last, p := t.path[len(t.path)-1], &t.parts[t.paged]
	at := table.n - last.pos
	if h := last.snapshot(at); h != nil && h.at == at {
		return
	}
	units := make([]int32, len(p.groups))
	for k, g := range p.groups {
		units[k] = table.units[g][0]
	}
	if t.owns(p, units) {
		return
	}
	h := &holding{node: last, part: p, at: at, index: -1}
	// The two snapshots before it are less useful now: a text continues from its end or, if the reasoning is
	// removed, from the end of its prompt.
	before, passed := 0, 0
	for n, most := last, at-1; n.parent != nil && passed < 2; n = n.parent {
		for b := n.snapshot(most); b != nil && passed < 2; b = n.snapshot(b.at - 1) {
			before = max(before, n.pos+b.at)
			passed++
			b.passed = max(b.passed, passed)
			t.value(b)
		}
		most = BlockTokens
	}
	h.cost = cost(before, table.n)
	h.units = units
	last.states = append(last.states, h)
	t.own(h)
}

// hold makes a node hold a table's blocks.
func (t *Tree) hold(n *node, k int, units []int32) {
	h := &holding{node: n, part: &t.parts[k], units: units, index: -1}
	end := n.pos + len(n.ids)
	h.cost = cost(n.pos, end)
	if w := h.part.window; w != nil && w.AgeFrom == 0 {
		h.cost = cost(max(end-w.Window-w.AgeTo-w.AgeStep, 0), end)
	}
	n.held[k] = h
	t.own(h)
}

// owns reports whether a node already has the units: if two nodes share a prefix, another one may have been
// the closest before.
func (t *Tree) owns(p *part, units []int32) bool {
	return t.pool.groups[p.groups[0]].owner[units[0]] != nil
}

// own adds the tree's reference to a holding's units, which are a table's.
func (t *Tree) own(h *holding) {
	for k, g := range h.part.groups {
		t.pool.hold(g, h.units[k])
		t.pool.groups[g].owner[h.units[k]] = h // set after hold, which would have counted the tree as another holder
	}
	h.busy = len(h.units)
	if h.part.kind == whole {
		h.node.parent.warm++ // its block is the table's as well, and is not evictable anyway
	}
	t.made++
	h.born = t.made
	t.bytes += h.part.bytes
	t.value(h)
	t.review(h.node)
}

// release drops the tree's references to a holding's units: it undoes own.
func (t *Tree) release(h *holding) {
	t.heap.remove(h)
	if h.part.kind == whole {
		h.node.parent.warm--
	}
	t.bytes -= h.part.bytes
	if h.busy == 0 {
		t.idle -= h.part.bytes
	}
	for k, g := range h.part.groups {
		t.pool.groups[g].owner[h.units[k]] = nil
		t.pool.drop(g, h.units[k])
	}
}

// engage records that another holder took a reference to a unit, or dropped the last one.
func (t *Tree) engage(h *holding, more int) {
	was := h.busy
	h.busy += more
	switch {
	case was == 0:
		t.idle -= h.part.bytes
	case h.busy == 0:
		t.idle += h.part.bytes
	default:
		return
	}
	t.review(h.node)
}

// Forget removes all nodes after ids, and those nodes of ids that lead to no other text. Sequences that share
// their units keep them.
func (t *Tree) Forget(ns string, ids []int32) {
	t.walk(ns, ids)
	for i := len(t.path) - 1; i >= 0; i-- {
		n := t.path[i]
		if i < len(t.path)-1 && len(n.children) > 0 {
			return
		}
		t.remove(n)
	}
}

// Clear empties the tree.
func (t *Tree) Clear() {
	for _, root := range t.roots {
		for _, list := range root.children {
			for len(list) > 0 {
				n := list[0]
				list = list[1:]
				t.releaseAll(n)
			}
		}
	}
	clear(t.roots)
}

func (t *Tree) releaseAll(n *node) {
	for _, h := range n.held {
		if h != nil {
			t.release(h)
		}
	}
	for _, h := range n.states {
		t.release(h)
	}
	n.held, n.states = nil, nil
	for _, list := range n.children {
		for _, c := range list {
			t.releaseAll(c)
		}
	}
}

// remove removes a node and its subtree.
func (t *Tree) remove(n *node) {
	t.releaseAll(n)
	p := n.parent
	list := p.children[n.ids[0]].without(n)
	if p.children[n.ids[0]] = list; len(list) == 0 {
		delete(p.children, n.ids[0])
	}
	switch {
	case p.parent == nil && len(p.children) == 0:
		delete(t.roots, p.ns)
	case p.parent != nil:
		t.revalue(p) // it may be a leaf now
	}
}

// prune removes a node that has no holdings and no children, and its ancestors for which
// that is then true.
func (t *Tree) prune(n *node) {
	for n.parent != nil && n.empty() {
		parent := n.parent
		t.remove(n)
		n = parent
	}
}

// empty reports whether a node has no holdings and no children.
func (n *node) empty() bool {
	for _, h := range n.held {
		if h != nil {
			return false
		}
	}
	return len(n.children) == 0 && len(n.states) == 0
}
