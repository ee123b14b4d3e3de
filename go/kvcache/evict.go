package kvcache

import "container/heap"

// evict gives away what only the tree holds, until `need` bytes are free or there is
// nothing left. It takes what is least worth its bytes first, and looks at no more
// than it takes: all that can go lies in a heap.
//
// The block of a node goes after all that follow it, for alone they are of no use, and
// takes the node with it. Blocks of a window and snapshots can go by themselves.
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

// giveAway takes a holding out of memory, or out of the tree where no tier takes it,
// and what is of no use without it.
func (t *Tree) giveAway(h *holding) {
	n := h.node
	if t.chill(h) {
		if h.part.kind == whole {
			t.chillRest(n)
			t.review(n.parent)
		}
		t.review(n)
		return
	}
	switch h.part.kind {
	case whole:
		for _, o := range n.held {
			if o.inMemory() {
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

// evictable tells whether a holding can be given away now.
func (t *Tree) evictable(h *holding) bool {
	if h.busy > 0 || !h.inMemory() {
		return false
	}
	switch h.part.kind {
	case whole:
		return t.spare(h.node)
	case windowed: // in a leaf that can go it goes with the node
		return !t.hasWhole() || h.node.held[0].busy > 0 || !t.spare(h.node)
	}
	return true
}

// spare tells whether nothing that can still be given away needs the node.
func (t *Tree) spare(n *node) bool {
	if n.warm > 0 {
		return false
	}
	for _, h := range n.states {
		if h.busy == 0 && h.inMemory() {
			return false
		}
	}
	return true
}

// review puts into the heap what can be given away of a node, and takes out what
// cannot.
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

// revalue values all that a node has anew.
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

// deep is the position at which attention costs a token about as much as its weights.
const deep = 8192

// cost is what the tokens from one position to another cost to compute, in blocks at
// the beginning of a text.
func cost(from, to int) float64 {
	return float64(to-from) / BlockTokens * (1 + float64(from+to)/2/deep)
}

// value says when a holding is given away among others: by what it saves for each of
// its bytes, times how often it was asked for, over what was given away last. So what
// is not asked for falls behind, and nothing has to be counted down. (GreedyDual-Size
// with frequency, Cherkasova 1998.)
func (t *Tree) value(h *holding) {
	times, saves, bytes := float64(h.used), h.cost, h.part.bytes
	switch h.part.kind {
	case whole:
		bytes = h.node.bytes()
		times++
		if t.hasStates() {
			times = 0 // it was of use to its snapshots, and those are gone
		}
	case windowed:
		if len(h.node.children) > 0 {
			times += 1.0 / 16 // texts seldom leave others in the middle
		} else {
			times++
		}
	case state:
		if times++; h.passed < 2 { // those before it may go first
			saves = cost(0, h.node.pos+h.at)
		}
		if len(h.node.children) == 0 { // the node can go after it
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
		if h.inMemory() {
			bytes += h.part.bytes
		}
	}
	return bytes
}

// leaves is a heap of holdings that can be given away, the least worth on top.
type leaves []*holding

func (q leaves) Len() int { return len(q) }
func (q leaves) Less(i, j int) bool {
	if q[i].rate != q[j].rate {
		return q[i].rate < q[j].rate
	}
	return q[i].born < q[j].born
}
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
