package measure

import (
	"fmt"
	"time"

	"github.com/quern-llm/quern/go/kernel"
)

const (
	// memoryIn by memoryOut is a matrix of an 8B model.
	memoryIn, memoryOut = 4096, 4096
	// cachedIn is small, so that each thread has many panels.
	cachedIn = 2048
	// cachedBytes of panels per thread fit its second-level cache, together with the
	// activations of a tile.
	cachedBytes = 512 << 10
	// cachedPanels is the minimum per thread: with fewer, a unit of dynamic scheduling
	// is less than a panel.
	cachedPanels = 16
	// cachedOps is how many products on cached weights one call computes, so that
	// thread wake-up is negligible.
	cachedOps = 64
)

// weights measures the packing of a type, and products with what was packed.
func (b *Bench) weights(t kernel.Type, yield func(*Result) error) error {
	rows, packed := b.halves()
	if err := t.Check(memoryIn); err != nil {
		return err
	}
	one := kernel.Matrix{Type: t, Layout: kernel.Rows, In: memoryIn, Out: memoryOut, N: 1}
	one.N = min(len(rows)/one.Bytes(), len(packed)/panelled(one).Bytes())
	if one.N == 0 {
		return fmt.Errorf("a matrix of %d bytes does not fit into %d", one.Bytes(), len(rows))
	}
	one.Data = rows[:one.Bytes()]
	all := panelled(one)
	all.Data = packed[:all.Bytes()]
	r, err := b.pack(all.Data, one)
	if err != nil {
		return err
	}
	if err := yield(r); err != nil {
		return err
	}

	from := make([][]kernel.Matrix, all.N) // one plan per matrix: successive calls read different ones, so none is in the caches
	for i := range from {
		m := all
		m.N = 1
		m.Data = all.Data[i*m.Bytes():][:m.Bytes()]
		from[i] = []kernel.Matrix{m}
	}
	for _, n := range b.Tokens {
		r := &Result{Kernel: Matmul, Type: t.String(), Tokens: n}
		if err := b.matmul(r, from); err != nil {
			return err
		}
		if err := yield(r); err != nil {
			return err
		}
	}

	for _, n := range b.Tokens {
		r, err := b.Cached(t, n)
		if err != nil {
			return err
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

// Cached measures products of n tokens with weights that stay in the caches.
func (b *Bench) Cached(t kernel.Type, n int) (*Result, error) {
	rows, packed := b.halves()
	panel := kernel.PanelBytes(t, cachedIn)
	panels := b.Pool.Threads() * max(cachedBytes/panel, cachedPanels)
	m := kernel.Matrix{Type: t, Layout: kernel.X16, In: cachedIn, Out: panels * kernel.Panel, N: 1}
	source := m
	source.Layout = kernel.Rows
	if m.Bytes() > len(packed) || source.Bytes() > len(rows) {
		return nil, fmt.Errorf("a matrix of %d bytes does not fit into %d", m.Bytes(), len(packed))
	}
	m.Data, source.Data = packed[:m.Bytes()], rows[:source.Bytes()]
	if err := b.Pool.PackMat(m.Data, source); err != nil {
		return nil, err
	}
	r := &Result{Kernel: Matmul, Type: t.String(), Tokens: n, FromCache: true}
	same := make([]kernel.Matrix, max(cachedOps/n, 1))
	for i := range same {
		same[i] = m
	}
	return r, b.matmul(r, [][]kernel.Matrix{same})
}

// Fill makes the rows that products are measured with.
func (b *Bench) Fill() {
	rows, _ := b.halves()
	fill(rows)
}

// pack packs m to dst, alternately with copies of the same size. Both take long enough
// to be samples by themselves.
func (b *Bench) pack(dst []byte, m kernel.Matrix) (*Result, error) {
	r := &Result{Kernel: Pack, Type: m.Type.String(), Bytes: float64(len(m.Data))}
	for i := range b.Repeats + 1 {
		start := time.Now()
		if err := b.Pool.PackMat(dst, m); err != nil {
			return nil, err
		}
		packed := time.Now()
		b.Pool.MeasureCopy(dst[:len(m.Data)], m.Data, 1)
		if i > 0 { // the first run faults pages in
			r.Samples = append(r.Samples, packed.Sub(start))
			r.Copies = append(r.Copies, time.Since(packed))
		}
	}
	// The copies have overwritten the panels.
	return r, b.Pool.PackMat(dst, m)
}

// panelled is m in the packed layout, without memory.
func panelled(m kernel.Matrix) kernel.Matrix {
	m.Layout, m.Data = kernel.X16, nil
	return m
}

// matmul measures products with r.Tokens tokens. Successive calls use successive lists
// of matrices; all matrices have one shape.
func (b *Bench) matmul(r *Result, lists [][]kernel.Matrix) error {
	m := lists[0][0]
	specs := []kernel.BufSpec{
		{Width: kernel.Pad(m.In)},
		{Kind: m.Type.Act(), Width: kernel.Pad(m.In)},
		{Width: kernel.Pad(m.Out)},
	}
	act := kernel.Act{m.Type.Act(): 1}
	var plans [][]kernel.Op
	for _, list := range lists {
		var ops []kernel.Op
		for _, m := range list {
			ops = append(ops, kernel.Matmul{Dst: 2, Act: act, Parts: []kernel.Part{{Matrix: m}}})
		}
		plans = append(plans, ops)
	}
	s, err := b.stage(specs, r.Tokens)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.once(kernel.ToAct{Act: act, Src: 0, Cols: m.In}); err != nil {
		return err
	}
	if err := s.prepare(plans...); err != nil {
		return err
	}
	r.Bytes = float64(m.Bytes())
	r.MACs = float64(m.In) * float64(m.Out) * float64(r.Tokens)
	s.sample(r, len(lists[0]))
	return nil
}
