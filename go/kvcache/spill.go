package kvcache

import (
	"container/heap"
	"errors"
	"slices"
)

// A Page is the unit of a second-level store, such as a disk cache: one part of the layout for one block, or
// the state at a position.
//
// Cold returns the pages that the tree will soon evict, so that a store can copy them in the background.
// Reach tells how far a text can continue with the pages in the store. Fetch returns a table for them, which
// is filled in the background and kept like any other.
type Page struct {
	Namespace string
	Tokens    []int32  // of the text, up to the last one that the page has
	From      int      // position of the first of them in its block
	Part      int      // number in the layout
	Units     [][]byte // memory of each of the part's groups, in pieces
	Numbers   []Unit   // of these units
	held      *holding
}

// Cold returns the page to store next, and holds its units until Release: the first unstored page among those
// that would be evicted if `room` bytes were needed; nil if there is none.
func (t *Tree) Cold(room uint64) *Page {
	free := t.pool.limit - t.pool.used
	if room <= free {
		return nil
	}
	need := int64(room - free)
	next := forecast{leaves: t.heap}
	next.consider(0)
	gone := map[*node]int{} // children and snapshots that would be evicted before it
	leaves := func(n *node) {
		if gone[n]++; n.parent != nil && t.hasWhole() && gone[n] == n.warm+n.snapshots() && n.held[0] != nil && n.held[0].busy == 0 {
			heap.Push(&next, candidate{n.held[0], -1})
		}
	}
	counted := map[*holding]bool{} // of windows, which are evicted alone or with their nodes
	for need > 0 && len(next.list) > 0 {
		h := next.pop()
		n := h.node
		if h.part.kind == whole {
			for _, h := range n.held {
				if h == nil || h.busy > 0 || counted[h] {
					continue
				}
				if !h.stored {
					return t.lend(h)
				}
				need -= int64(h.part.bytes)
				if h.part.kind == windowed {
					counted[h] = true
				}
			}
			leaves(n.parent)
			continue
		}
		if counted[h] {
			continue
		}
		if !h.stored {
			return t.lend(h)
		}
		need -= int64(h.part.bytes)
		if h.part.kind == windowed {
			counted[h] = true
		} else {
			leaves(n)
		}
	}
	return nil
}

// A forecast visits the evictable holdings in order of eviction, without changing their heap: its candidates are those
// whose parents in that heap were visited, and what becomes evictable on the way.
type forecast struct {
	leaves leaves
	list   []candidate
}

type candidate struct {
	h  *holding
	at int // in the heap of leaves; -1: not in it
}

// consider adds a place of the heap of leaves, if there is one.
func (q *forecast) consider(at int) {
	if at < len(q.leaves) {
		heap.Push(q, candidate{q.leaves[at], at})
	}
}

// pop returns the next holding to be evicted.
func (q *forecast) pop() *holding {
	c := heap.Pop(q).(candidate)
	if c.at >= 0 {
		q.consider(2*c.at + 1)
		q.consider(2*c.at + 2)
	}
	return c.h
}

func (q *forecast) Len() int           { return len(q.list) }
func (q *forecast) Less(i, j int) bool { return q.list[i].h.before(q.list[j].h) }
func (q *forecast) Swap(i, j int)      { q.list[i], q.list[j] = q.list[j], q.list[i] }
func (q *forecast) Push(x any)         { q.list = append(q.list, x.(candidate)) }
func (q *forecast) Pop() any {
	last := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	return last
}

// lend returns a holding's page and takes references to its units.
func (t *Tree) lend(h *holding) *Page {
	p := t.page(h)
	for k, g := range h.part.groups {
		t.pool.hold(g, h.units[k])
	}
	return p
}

// Release undoes the hold of Cold or Warm.
func (t *Tree) Release(p *Page) {
	for k, g := range p.held.part.groups {
		t.pool.drop(g, p.held.units[k])
	}
}

// Stored records that a page is stored; Cold and Warm skip it from now on.
func (t *Tree) Stored(p *Page) { p.held.stored = true }

func (t *Tree) page(h *holding) *Page {
	n := h.node
	tokens := len(n.ids)
	if h.part.kind == state {
		tokens = h.at
	}
	p := &Page{From: n.pos, Tokens: make([]int32, n.pos+tokens), held: h}
	copy(p.Tokens[n.pos:], n.ids[:tokens])
	root := n.parent
	for ; root.parent != nil; root = root.parent {
		copy(p.Tokens[root.pos:], root.ids)
	}
	p.Namespace = root.ns
	for k := range t.parts {
		if &t.parts[k] == h.part {
			p.Part = k
		}
	}
	for k, g := range h.part.groups {
		p.Units = append(p.Units, t.pool.unit(g, h.units[k])...)
		p.Numbers = append(p.Numbers, Unit{g, h.units[k]})
	}
	return p
}

// Warm returns up to `most` unstored pages, and holds their units until Release: text by text, the most valuable first,
// each from its beginning.
func (t *Tree) Warm(most int) (pages []*Page) {
	ends := slices.Clone(t.heap)
	slices.SortFunc(ends, func(a, b *holding) int {
		if a.before(b) {
			return 1
		}
		return -1
	})
	seen := map[*node]bool{}
	for _, end := range ends {
		var path []*node
		for n := end.node; n.parent != nil && !seen[n]; n = n.parent {
			seen[n] = true
			path = append(path, n)
		}
		for _, n := range slices.Backward(path) {
			for _, h := range slices.Concat(n.held, n.states) {
				if h == nil || h.stored {
					continue
				}
				if len(pages) == most {
					return pages
				}
				pages = append(pages, t.lend(h))
			}
		}
	}
	return pages
}

// lacking calls f for each page that is not in memory and that a sequence continuing after n tokens needs,
// until f returns false; it then returns false too. The path is that of the text, of which the tree knows so
// many tokens.
func (t *Tree) lacking(n, known int, f func(part, from, to int) bool) bool {
	for i := range blocksFor(n) {
		if !t.blockLacks(i, n, known, f) {
			return false
		}
	}
	return t.stateLacks(n, known, f)
}

func (t *Tree) blockLacks(i, n, known int, f func(part, from, to int) bool) bool {
	from, to := i*BlockTokens, min((i+1)*BlockTokens, n)
	for k := range t.parts[:t.paged] {
		p := &t.parts[k]
		if p.kind == windowed && !p.window.sees(i, n) || to <= known && t.path[i].held[k] != nil {
			continue
		}
		if to <= known && len(t.path[i].ids) > to-from { // a node has all of its tokens' blocks or none
			return false
		}
		if !f(k, from, to) {
			return false
		}
	}
	return true
}

func (t *Tree) stateLacks(n, known int, f func(part, from, to int) bool) bool {
	if !t.hasStates() || n == 0 {
		return true
	}
	from := (n - 1) / BlockTokens * BlockTokens
	if n <= known {
		if h := t.path[from/BlockTokens].snapshot(n - from); h != nil && h.at == n-from {
			return true
		}
	}
	return f(t.paged, from, n)
}

// reachTries bounds the positions at which Reach looks for windows and states.
const reachTries = 64

// Reach returns the longest prefix of ids from which a sequence could continue if the stored pages were in
// memory, how many bytes these are, and the length of the prefix in memory. `has` reports whether the store
// has the page of a part for the positions of a block up to a token. For recurrent groups, `ends` are the
// positions of stored states, last first.
func (t *Tree) Reach(ns string, ids []int32, ends []int, has func(part, from, to int) bool) (n, found int, bytes uint64) {
	found, _ = t.match(ns, ids)
	known := t.walk(ns, ids)
	reach := len(ids)
	if t.hasWhole() {
		at := 0
		for at+BlockTokens <= len(ids) && t.wholeIs(at, at+BlockTokens, known, has) {
			at += BlockTokens
		}
		reach = at
		for to := min(at+BlockTokens-1, len(ids)); to > at; to-- {
			if t.wholeIs(at, to, known, has) {
				reach = to
				break
			}
		}
	}
	if !t.hasStates() {
		ends = ends[:0]
		for at := reach; at > found && len(ends) < reachTries; at = (at - 1) / BlockTokens * BlockTokens {
			ends = append(ends, at)
		}
	}
	tries := 0
	for _, n := range ends {
		if n <= found || tries == reachTries {
			break
		}
		if n > len(ids) || n-n%BlockTokens > reach {
			continue
		}
		tries++
		first := n / BlockTokens // of the blocks that are not known to be there
		for k := range t.parts[:t.paged] {
			switch p := &t.parts[k]; {
			case p.kind == whole:
			case p.window.AgeStep > 0:
				first = 0
			default:
				first = min(first, p.window.seen(n))
			}
		}
		ok := t.stateLacks(n, known, has)
		for i := first; ok && i < blocksFor(n); i++ {
			ok = t.blockLacks(i, n, known, has)
		}
		if !ok {
			continue
		}
		bytes = 0
		if t.lacking(n, t.walk(ns, ids[:n]), func(part, from, to int) bool { // of nodes that begin alike Fetch may find another
			bytes += t.parts[part].bytes
			return has(part, from, to)
		}) {
			return n, found, bytes
		}
		t.walk(ns, ids)
	}
	return found, found, 0
}

// wholeIs reports whether the block of the whole part is in memory or stored.
func (t *Tree) wholeIs(from, to, known int, has func(part, from, to int) bool) bool {
	return to <= known && t.path[from/BlockTokens].held[0] != nil || has(0, from, to)
}

var errNoPlace = errors.New("a longer block of the prefix tree begins with the same tokens")

// Fetch returns a table for ids that shares what the tree has, and the pages that are missing, which the
// caller fills before the table is kept or used. It fails as Grow does, or if the tree could not keep them.
func (t *Tree) Fetch(ns string, ids []int32) (*Table, []*Page, error) {
	p, table, n := t.pool, t.pool.NewTable(), len(ids)
	known := t.walk(ns, ids)
	for i := range p.layout {
		if !p.layout[i].PerSequence {
			table.units[i] = slices.Repeat([]int32{-1}, blocksFor(n))
		}
	}
	var missing []*Page
	type place struct{ part, from int }
	absent := map[place]bool{}
	need := uint64(0)
	ok := t.lacking(n, known, func(part, from, to int) bool {
		missing = append(missing, &Page{Namespace: ns, Tokens: ids[:to], From: from, Part: part})
		absent[place{part, from}] = true
		need += t.parts[part].bytes
		return true
	})
	if !ok {
		return nil, nil, errNoPlace
	}
	for i, at := range t.path {
		for k, h := range at.held {
			if h != nil && (h.part.kind == whole || h.part.window.sees(i, n)) && !absent[place{k, at.pos}] {
				t.attach(table, h, i)
			}
		}
	}
	if last := (n - 1) / BlockTokens; t.hasStates() && !absent[place{t.paged, last * BlockTokens}] {
		t.attach(table, t.path[last].snapshot(n-last*BlockTokens), 0)
	}
	if err := table.reserve(n, need); err != nil {
		table.Free()
		return nil, nil, err
	}
	for _, m := range missing {
		at := m.From / BlockTokens
		if t.parts[m.Part].kind == state {
			at = 0
		}
		for _, g := range t.parts[m.Part].groups {
			id := p.take(g)
			table.units[g][at] = id
			m.Units = append(m.Units, p.unit(g, id)...)
			m.Numbers = append(m.Numbers, Unit{g, id})
		}
	}
	table.n, table.done = n, n
	return table, missing, nil
}

// attach makes a table share a holding's units, at an index of its lists.
func (t *Tree) attach(table *Table, h *holding, at int) {
	for k, g := range h.part.groups {
		t.pool.hold(g, h.units[k])
		table.units[g][at] = h.units[k]
	}
}

// PageBytes returns the size of the largest page.
func (t *Tree) PageBytes() (most uint64) {
	for i := range t.parts {
		most = max(most, t.parts[i].bytes)
	}
	return most
}

// States returns the number of the part for recurrent state, if the layout has any.
func (t *Tree) States() (part int, ok bool) { return t.paged, t.hasStates() }
