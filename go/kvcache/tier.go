package kvcache

// A Tier stores units that the tree evicts, in slower memory or on disk, instead of their
// being lost. The tree marks what the tier took as cold and keeps its handle; sequences
// do not find cold units.
type Tier interface {
	// Take copies the units if it keeps them, and returns a handle, or nil. It is called
	// while memory is short and must not use the pool.
	Take(e Evicted) (handle any)
	// Drop tells the tier that the tree no longer uses the handle.
	Drop(handle any)
}

// Evicted is units that are about to be evicted.
type Evicted struct {
	Namespace string
	Tokens    []int32  // of their text, up to the last token that is part of them
	From      int      // first position of their block
	Groups    []int    // of each unit
	Units     [][]byte // valid during the call
}

// SetTier sets the tier that is offered evicted units from now on.
func (t *Tree) SetTier(tier Tier) { t.tier = tier }

// Cold returns the handles of the cold units of the text that begins with ids.
func (t *Tree) Cold(ns string, ids []int32) (handles []any) {
	t.walk(ns, ids)
	for _, n := range t.path {
		for _, list := range [2][]*holding{n.held, n.states} {
			for _, h := range list {
				if h != nil && h.cold != nil {
					handles = append(handles, h.cold)
				}
			}
		}
	}
	return handles
}

// chill offers a holding to the tier, and reports whether it was taken.
func (t *Tree) chill(h *holding) bool {
	if t.tier == nil {
		return false
	}
	n := h.node
	e := Evicted{From: n.pos, Groups: h.part.groups}
	tokens := len(n.ids)
	if h.part.kind == state {
		tokens = h.at
	}
	e.Tokens = make([]int32, n.pos+tokens)
	copy(e.Tokens[n.pos:], n.ids[:tokens])
	root := n.parent
	for ; root.parent != nil; root = root.parent {
		copy(e.Tokens[root.pos:], root.ids)
	}
	e.Namespace = root.ns
	for k, g := range h.part.groups {
		e.Units = append(e.Units, t.pool.unit(g, h.units[k]))
	}
	handle := t.tier.Take(e)
	if handle == nil {
		return false
	}
	t.evicted += uint64(len(h.units))
	t.disown(h)
	h.units, h.cold = nil, handle
	return true
}

// chillRest evicts a node's other holdings from memory when its block of the whole part
// is cold; those without other holders are offered to the tier.
func (t *Tree) chillRest(n *node) {
	for k, h := range n.held {
		if h.inMemory() && (h.busy > 0 || !t.chill(h)) {
			t.release(h)
			n.held[k] = nil
		}
	}
	states := n.states[:0]
	for _, h := range n.states {
		if h.inMemory() { // it has other holders, or the node could not have been evicted
			t.release(h)
		} else {
			states = append(states, h)
		}
	}
	n.states = states
}
