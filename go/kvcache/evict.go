package kvcache

import "container/heap"

// evict evicts units that only the tree holds, until `need` bytes are free or there are none left. Holdings
// of the least value per byte are evicted first. All evictable ones are in a heap, so it visits no more
// holdings than it evicts.
//
// A node's block is evicted after all nodes that follow it, which are useless without it; the node is then
// removed. Window blocks and snapshots can be evicted alone.
func (t *Tree) evict(need uint64) {
	p := t.pool
	for p.limit-p.used < need && len(t.heap) > 0 {
		h := t.heap[0]
		if !h.node.awaited {
			t.floor = max(t.floor, h.rate)
		}
		t.giveAway(h)
	}
}

// giveAway evicts a holding, together with whatever is useless without it.
func (t *Tree) giveAway(h *holding) {
	n := h.node
	switch h.part.kind {
	case whole:
		for _, o := range n.held {
			if o != nil {
				t.evicted += uint64(len(o.units))
			}
		}
		for _, o := range n.states {
			t.evicted += uint64(len(o.units))
		}
		t.remove(n)
		return
	case windowed:
		for k, o := range n.held {
			if o == h {
				n.held[k] = nil
			}
		}
	case state:
		for k, o := range n.states {
			if o == h {
				n.states = append(n.states[:k], n.states[k+1:]...)
				break
			}
		}
	}
	t.evicted += uint64(len(h.units))
	t.release(h)
	t.review(n)
	t.prune(n)
}

// evictable reports whether a holding can be evicted now.
func (t *Tree) evictable(h *holding) bool {
	if h.busy > 0 {
		return false
	}
	switch h.part.kind {
	case whole:
		return h.node.spare()
	case windowed: // in an evictable leaf it is evicted with the node
		return !t.hasWhole() || h.node.held[0].busy > 0 || !h.node.spare()
	}
	return true
}

// spare reports whether no evictable holding needs the node.
func (n *node) spare() bool { return n.warm == 0 && n.snapshots() == 0 }

// snapshots returns how many snapshots of a node can be evicted.
func (n *node) snapshots() (idle int) {
	for _, h := range n.states {
		if h.busy == 0 {
			idle++
		}
	}
	return idle
}

// review updates the heap for a node: it adds the node's evictable holdings and removes
// the others.
func (t *Tree) review(n *node) {
	for _, list := range [2][]*holding{n.held, n.states} {
		for _, h := range list {
			if h == nil {
				continue
			}
			switch can := t.evictable(h); {
			case can && h.index < 0:
				heap.Push(&t.heap, h)
			case !can:
				t.heap.remove(h)
			}
		}
	}
}

// revalue recomputes the values of all of a node's holdings.
func (t *Tree) revalue(n *node) {
	for _, list := range [2][]*holding{n.held, n.states} {
		for _, h := range list {
			if h != nil {
				t.value(h)
			}
		}
	}
	t.review(n)
}

// deep is the position at which attention costs a token about as much as the weights.
const deep = 8192

// cost is the cost of computing the tokens from one position to another, in units of a
// block at the beginning of a text.
func cost(from, to int) float64 {
	return float64(to-from) / BlockTokens * (1 + float64(from+to)/2/deep)
}

// value sets the eviction priority of a holding: the cost that it saves per byte, times
// its hits, plus the value of the last holding evicted. Holdings without hits thus age
// relative to others, and no counter has to be decremented. (GreedyDual-Size with
// frequency, Cherkasova 1998.)
func (t *Tree) value(h *holding) {
	times, saves, bytes := float64(h.used), h.cost, h.part.bytes
	switch h.part.kind {
	case whole:
		bytes = h.node.bytes()
		times++
		if t.hasStates() {
			times = 0 // its hits were those of its snapshots, which are gone
		}
	case windowed:
		if len(h.node.children) > 0 && h.part.window.AgeFrom == 0 {
			times += 1.0 / 16 // texts seldom diverge in the middle
		} else {
			times++
		}
	case state:
		if times++; h.passed < 2 { // earlier ones may be evicted first
			saves = cost(0, h.node.pos+h.at)
		}
		if len(h.node.children) == 0 { // the node can be evicted after it
			bytes += h.node.bytes()
		}
	}
	h.rate = t.floor + times*saves/float64(bytes)*float64(t.parts[0].bytes)
	if h.node.awaited {
		h.rate += 1e9
	}
	if h.index >= 0 {
		heap.Fix(&t.heap, h.index)
	}
}

// bytes returns what the blocks of a node take.
func (n *node) bytes() (bytes uint64) {
	for _, h := range n.held {
		if h != nil {
			bytes += h.part.bytes
		}
	}
	return bytes
}

// before reports whether h is evicted before o.
func (h *holding) before(o *holding) bool {
	if h.rate != o.rate {
		return h.rate < o.rate
	}
	return h.born < o.born
}

// leaves is a min-heap of evictable holdings, by value.
type leaves []*holding

func (q leaves) Len() int           { return len(q) }
func (q leaves) Less(i, j int) bool { return q[i].before(q[j]) }
func (q leaves) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *leaves) Push(x any) {
	h := x.(*holding)
	h.index = len(*q)
	*q = append(*q, h)
}
func (q *leaves) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = nil
	*q = (*q)[:len(*q)-1]
	last.index = -1
	return last
}

func (q *leaves) remove(h *holding) {
	if h.index >= 0 {
		heap.Remove(q, h.index)
	}
}
