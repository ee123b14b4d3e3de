package kvcache

import "github.com/quern-llm/quern/go/mem"

// Units is the memory of a group, as kernel.Units describes it.
type Units struct {
	Memory []byte
	Bytes  int // that a unit takes in all places
	Places int
	Stride int
}

// divided is how the units of a group are divided among NUMA nodes: each has the keys and values of the same number of
// heads of every layer. Elsewhere, in slot files and in stores, a unit is the bytes that it would be in one place.
type divided struct {
	places int
	stride int   // bytes from the parts of units in one place to those in the next
	each   int   // bytes from one unit's part to the next one's in a place: whole pages, which can be given back
	layers []int // bytes of each layer in a unit, in their order
	bytes  int   // of all layers: what a unit is rounded up to is nowhere
}

// Place asks that units be on these NUMA nodes, before there are any. Of a group whose layers are given, as the bytes that
// each takes in a unit, every node gets the parts of units with its share of the heads; units of others are on the nodes in
// turns, page by page. So are those of a group whose parts, rounded up to whole pages, would take much more than the pool
// counts. Where a container forbids it, pages are on the nodes of the threads that write them first. After an error the
// pool is only to be closed.
func (p *Pool) Place(nodes []int, layers [][]int) error {
	for i := range p.groups {
		g := &p.groups[i]
		d := g.divide(len(nodes), layers[i])
		if d == nil || uint64(g.most)*uint64(d.each*d.places-d.bytes) > max(p.most/32, uncounted) {
			_ = g.region.Interleave(nodes)
			continue
		}
		_ = g.region.Close() // first: where memory is not overcommitted, there may be no room for both
		var err error
		if g.region, err = mem.Alloc(uint64(d.stride)*uint64(d.places), "keys and values"); err != nil {
			return err
		}
		g.div = d
		for k, node := range nodes {
			_ = g.region.Place(k*d.stride, d.stride, node)
		}
	}
	return nil
}

// uncounted is how much memory a pool may take beyond what it counts, if that is more than a 32nd of it.
const uncounted = 64 << 20

// divide returns how the units of a group with these layers would be divided; nil if there are none.
func (g *units) divide(places int, layers []int) *divided {
	if layers == nil {
		return nil
	}
	d := &divided{places: places, layers: layers}
	for _, n := range layers {
		d.bytes += n
	}
	d.each = roundUp(d.bytes/places, page)
	d.stride = roundUp(g.most*d.each, mem.HugePage)
	return d
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Units returns the memory of a group.
func (p *Pool) Units(group int) Units {
	g := &p.groups[group]
	if g.div == nil {
		return Units{Memory: g.region.Bytes(), Bytes: g.Bytes}
	}
	return Units{g.region.Bytes(), g.div.each * g.div.places, g.div.places, g.div.stride}
}

// Count returns how many units a group has room for.
func (p *Pool) Count(group int) int { return p.groups[group].most }

func (g *units) places() int {
	if g.div == nil {
		return 1
	}
	return g.div.places
}

// span returns where the part of a unit in place k is in the region, and what it takes there.
func (g *units) span(id int32, k int) (from, n int) {
	if g.div == nil {
		return int(id) * g.Bytes, g.Bytes
	}
	return k*g.div.stride + int(id)*g.div.each, g.div.each
}

// part returns the part of a unit in place k.
func (g *units) part(id int32, k int) []byte {
	from, n := g.span(id, k)
	if g.div != nil {
		n = g.div.bytes / g.div.places
	}
	return g.region.Bytes()[from:][:n:n]
}

// unit returns the memory of a unit: pieces in the order of its bytes in one place, where the heads of a layer follow each
// other.
func (p *Pool) unit(group int, id int32) (pieces [][]byte) {
	g := &p.groups[group]
	if g.div == nil {
		return [][]byte{g.part(id, 0)}
	}
	at := 0
	for _, n := range g.div.layers {
		n /= g.div.places
		for k := range g.div.places {
			pieces = append(pieces, g.part(id, k)[at:][:n:n])
		}
		at += n
	}
	if rest := g.Bytes - g.div.bytes; rest > 0 {
		pieces = append(pieces, make([]byte, rest))
	}
	return pieces
}

// copyUnit copies a unit of a group.
func (p *Pool) copyUnit(group int, to, from int32) {
	g := &p.groups[group]
	for k := range g.places() {
		copy(g.part(to, k), g.part(from, k))
	}
	if p.twin != nil {
		p.twin.Copied(group, to, from)
	}
}
