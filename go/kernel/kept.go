package kernel

/*
#include "quern.h"
#cgo noescape qn_kv_shift
#cgo nocallback qn_kv_shift
#cgo noescape qn_kv_convert
#cgo nocallback qn_kv_convert
*/
import "C"

import (
	"fmt"
	"slices"
	"unsafe"
)

// A KeptKV is what a StoreKV stores for each position in the blocks of its group.
type KeptKV struct {
	Heads
	Rope         Rope
	RopeAt, NRot int
	Freqs        []float64 // as those of its RopeTable
	Mul          []float32 // what keys were multiplied by after the rotation, [NHeadKV][HeadDim]; nil: nothing
}

// Kept returns what o stores, given the frequencies of its rotations.
func (o StoreKV) Kept(freqs []float64) KeptKV {
	k := KeptKV{Heads: o.Heads, Rope: o.Rope, RopeAt: o.RopeAt, NRot: o.NRot, Freqs: freqs, Mul: o.KMul}
	if !o.RopeFirst || o.KNorm == nil {
		return k
	}
	k.Mul = nil
	for i := range o.NHeadKV * o.HeadDim {
		m := o.KNorm[i%o.HeadDim]
		if o.KMul != nil {
			m *= o.KMul[i]
		}
		k.Mul = append(k.Mul, m)
	}
	return k
}

// In returns what the layer stores in a tier.
func (k KeptKV) In(t Tier) KeptKV {
	k.Heads = k.Heads.in(t)
	return k
}

// KeptLayers is what the layers of a group store, in C memory. The caller closes it.
type KeptLayers struct {
	layers []C.struct_qn_kv // in C memory
	bytes  int              // of a unit, at least
	owned  []unsafe.Pointer
}

// Turnable reports whether keys can be rotated again: no channel was multiplied by 0 after its rotation.
func (k KeptKV) Turnable() bool { return !slices.Contains(k.Mul, 0) }

// NewKeptLayers returns the KeptLayers of layers in the same group.
func NewKeptLayers(kept []KeptKV) *KeptLayers {
	l := &KeptLayers{layers: unsafe.Slice((*C.struct_qn_kv)(calloc(len(kept), C.sizeof_struct_qn_kv)), len(kept))}
	l.owned = append(l.owned, unsafe.Pointer(unsafe.SliceData(l.layers)))
	for i, k := range kept {
		c := &l.layers[i]
		c.offset = C.int64_t(k.KVOffset)
		c.k_type, c.v_type = C.int32_t(k.KV.K), C.int32_t(k.KV.V)
		c.n_head_kv, c.head_dim, c.v_dim = C.int32_t(k.NHeadKV), C.int32_t(k.HeadDim), C.int32_t(k.valueDim())
		if k.InKeys {
			c.v_in_k = 1
		}
		c.rope, c.rope_at, c.n_rot = C.int32_t(k.Rope), C.int32_t(k.RopeAt), C.int32_t(k.NRot)
		if k.Rope != RopeNone {
			freqs := unsafe.Slice((*float64)(calloc(k.NRot/2, 8)), k.NRot/2)
			copy(freqs, k.Freqs)
			c.freq = (*C.double)(unsafe.SliceData(freqs))
			l.owned = append(l.owned, unsafe.Pointer(c.freq))
		}
		if k.Mul != nil {
			mul := float32s(len(k.Mul))
			copy(mul, k.Mul)
			c.mul = (*C.float)(unsafe.SliceData(mul))
			l.owned = append(l.owned, unsafe.Pointer(c.mul))
		}
		l.bytes = max(l.bytes, k.reach())
	}
	return l
}

// Close frees the layers. Closing again is a no-op.
func (l *KeptLayers) Close() {
	for _, p := range l.owned {
		free(p)
	}
	l.layers, l.owned = nil, nil
}

// Shift moves the keys and values of positions at+by to end+by in the blocks of one table to positions at to
// end in those of another, and rotates the keys back by as many positions. The tables may share blocks;
// positions without a block (-1) in either are skipped. It panics on positions outside the tables.
func (l *KeptLayers) Shift(pool *Pool, u Units, to, from []int32, at, end, by int) {
	pool.mustBeOpen()
	if at < 0 || end < at || by < 1 || end > len(to)*KVBlock || end+by > len(from)*KVBlock {
		panic(fmt.Sprintf("kernel: positions %d to %d shifted by %d, in %d blocks of %d", at, end, by, len(to), len(from)))
	}
	for _, id := range slices.Concat(to, from) {
		if id < -1 || int(id) >= u.n() {
			panic(fmt.Sprintf("kernel: KV block %d of %d", id, u.n()))
		}
	}
	l.mustFit(u.Bytes)
	group := u.c()
	rc := C.qn_kv_shift(pool.c, &group, ptr(to), ptr(from), C.int64_t(at),
		C.int64_t(end), C.int64_t(by), unsafe.SliceData(l.layers), C.int32_t(len(l.layers)))
	if rc != C.QN_OK {
		panic("kernel: layers that keep something else")
	}
}

// A KeptBlock is a block of a group and what its layers keep there.
type KeptBlock struct {
	Layers *KeptLayers
	Units
	ID int32
}

func (b KeptBlock) c() C.struct_qn_kv_block {
	b.Layers.mustFit(b.Bytes)
	if b.ID < 0 || int(b.ID) >= b.n() {
		panic(fmt.Sprintf("kernel: KV block %d of %d", b.ID, b.n()))
	}
	return C.struct_qn_kv_block{group: b.Units.c(), layers: unsafe.SliceData(b.Layers.layers), unit: C.int32_t(b.ID)}
}

// Convert fills a block with the contents of another of the same positions, converted to its own types.
func (p *Pool) Convert(to, from KeptBlock) {
	p.mustBeOpen()
	if len(to.Layers.layers) != len(from.Layers.layers) {
		panic("kernel: blocks of different layers")
	}
	y, x := to.c(), from.c()
	rc := C.qn_kv_convert(p.c, &y, &x, C.int32_t(len(to.Layers.layers)))
	if rc != C.QN_OK {
		panic("kernel: layers that keep something else")
	}
}

func (l *KeptLayers) mustFit(unitBytes int) {
	if l.layers == nil || l.bytes > unitBytes {
		panic(fmt.Sprintf("kernel: layers that reach %d bytes into blocks of %d, or are closed", l.bytes, unitBytes))
	}
}
