package kvcache

// A Tier is where what the tree gives away may go instead of being lost: to slower
// memory, to a disk. The tree remembers what it took, as cold, and by which handle;
// sequences do not find it.
type Tier interface {
	// Take copies what it wants to keep, and returns a handle for it, or nil. It is
	// called while memory is short: it may not use the pool.
	Take(e Evicted) (handle any)
	// Drop says that the tree has forgotten what the handle is of.
	Drop(handle any)
}

// Evicted is units that are about to be given away.
type Evicted struct {
	Namespace string
	Tokens    []int32  // of the text that they are of, up to its last that they know
	From      int      // position at which their block begins
	Groups    []int    // of each unit
	Units     [][]byte // valid during the call
}

// SetTier has a tier see what is given away from now on.
func (t *Tree) SetTier(tier Tier) { t.tier = tier }

// Cold returns the handles of what the tier has of the text that begins with ids.
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

// chill offers a holding to the tier, and tells whether it was taken.
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

// chillRest gives away what else a node has in memory when its block of the whole part
// is cold: to the tier what nobody else holds.
func (t *Tree) chillRest(n *node) {
	for k, h := range n.held {
		if h.inMemory() && (h.busy > 0 || !t.chill(h)) {
			t.release(h)
			n.held[k] = nil
		}
	}
	states := n.states[:0]
	for _, h := range n.states {
		if h.inMemory() { // somebody else holds it, or the node could not have gone
			t.release(h)
		} else {
			states = append(states, h)
		}
	}
	n.states = states
}
