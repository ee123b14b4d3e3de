package model

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/quant"
)

// A ScaledFile is an adapter's file with a scale.
type ScaledFile struct {
	*File
	Scale float32
}

// MergeAdapters returns a Writer of the base model with adapters merged. Tensors that they change get the
// type returned by `as`. Rows are computed as they are written, so only one tensor's corrections are in
// memory. Errors of WriteTo name tensors.
func MergeAdapters(base *File, adapters []ScaledFile, as func(t *gguf.Tensor) gguf.Type) (*gguf.Writer, error) {
	cfg, err := base.Config()
	if err != nil {
		return nil, err
	}
	deltas := map[string][]delta{} // by tensor, in the order of the adapters
	for _, a := range adapters {
		if err := addDeltas(deltas, base.GGUF, a, cfg.Arch); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Paths[0], err)
		}
	}
	w := gguf.NewWriter()
	for _, kv := range base.GGUF.KVs {
		w.Set(kv.Key, kv.Value)
	}
	var all uint64
	changed := map[gguf.Type]uint64{} // numbers that become of another type
	for i := range base.GGUF.Tensors {
		t := &base.GGUF.Tensors[i]
		list := deltas[t.Name]
		all += t.Elems()
		if list == nil {
			w.AddTensor(t.Name, t.Type, t.Dims, gguf.Bytes(t.Data))
			continue
		}
		if err := kernel.Type(t.Type).Check(int(t.Dims[0])); err != nil {
			return nil, unsupported(t, err)
		}
		to := quant.Fallback(as(t), int(t.Dims[0]))
		if to != t.Type {
			changed[to] += t.Elems()
		}
		w.AddTensor(t.Name, to, t.Dims, func(out io.Writer) error { return writeMerged(out, t, list, to) })
	}
	for to, n := range changed {
		if mix, err := quant.ParseMix(to.String()); err == nil && n > all/2 {
			w.Set("general.file_type", mix.Kind) // else the base's: most of it is as it was
		}
	}
	return w, nil
}

// AsFloats is the default type of a merged tensor: F32 and BF16 stay, everything else becomes F16.
func AsFloats(t *gguf.Tensor) gguf.Type {
	if t.Type == gguf.F32 || t.Type == gguf.BF16 {
		return t.Type
	}
	return gguf.F16
}

// A delta is an adapter's change of a tensor: the scaled low-rank product.
type delta struct {
	pair
	scale  float32 // of B A
	by     float32 // of the adapter as a whole
	lookup bool    // of an embedding: its numbers are A's, the vectors are B's columns
}

// addDeltas adds the deltas of an adapter's file.
func addDeltas(deltas map[string][]delta, base *gguf.File, a ScaledFile, arch string) error {
	kind, alpha, err := adapterKind(a.GGUF, arch)
	if err != nil {
		return err
	}
	pairs, err := pairsOf(a.GGUF, kind)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		t, ok := base.Tensor(p.tensor)
		_, apart := base.Tensor(outputName)
		switch {
		case !apart && (p.tensor == outputName || p.tensor == embeddingName):
			return fmt.Errorf("tensor %q: the model has one matrix for the input and the output, and the adapter corrects one of them: it cannot be merged; give it with --lora", p.a.Name)
		case !ok:
			return fmt.Errorf("tensor %q: the model has no %q: the adapter is of another one", p.a.Name, p.tensor)
		}
		if err := p.check(t); err != nil {
			return err
		}
		if s, ok := base.Tensor(scaleName(arch, p.tensor)); ok {
			return fmt.Errorf("tensor %q: the model multiplies the products of %q by %q, so adapters of it cannot be merged", p.a.Name, p.tensor, s.Name)
		}
		d := delta{pair: p, scale: 1, by: a.Scale, lookup: p.tensor == embeddingName}
		if alpha != 0 {
			d.scale = float32(alpha / float64(p.rank))
		}
		if p.m != nil && (d.lookup || len(t.Dims) > 2) {
			return fmt.Errorf("tensor %q: magnitudes of %q are not supported: it is not multiplied as one matrix", p.m.Name, p.tensor)
		}
		deltas[p.tensor] = append(deltas[p.tensor], d)
	}
	return nil
}

// floats returns an adapter's tensor as floats.
func floats(t *gguf.Tensor) ([]float32, error) {
	all := make([]float32, t.Elems())
	return all, floatsInto(all, t)
}

// floatsInto puts an adapter's tensor as floats into all.
func floatsInto(all []float32, t *gguf.Tensor) error {
	n := int(t.Dims[0])
	if err := kernel.Type(t.Type).Check(n); err != nil {
		return unsupported(t, err)
	}
	row := kernel.RowBytes(kernel.Type(t.Type), n)
	for i := range len(all) / n {
		if err := kernel.Dequantize(kernel.Type(t.Type), all[i*n:(i+1)*n], t.Data[i*row:(i+1)*row]); err != nil {
			return unsupported(t, err)
		}
	}
	if err := finite(all); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return nil
}

// A merger computes rows of a tensor with its deltas.
type merger struct {
	t     *gguf.Tensor
	in    int // elements of a row
	out   int // rows of a matrix; there may be several
	parts []mergedPart
}

type mergedPart struct {
	scale   float32
	rank    int
	numbers []float32 // [row][rank]
	vectors []float32 // [matrix][rank][in]
	gained            // where it has magnitudes: rows of B A are multiplied by their gain as well
	times   float32   // of the adapter
}

func newMerger(t *gguf.Tensor, list []delta) (*merger, error) {
	m := &merger{t: t, in: int(t.Dims[0]), out: int(outOf(t))}
	for _, d := range list {
		a, err := floats(d.a)
		if err != nil {
			return nil, err
		}
		b, err := floats(d.b)
		if err != nil {
			return nil, err
		}
		p := mergedPart{scale: d.by * d.scale, rank: d.rank, numbers: b, vectors: a, times: d.by}
		if d.m != nil {
			magnitude, err := floats(d.m)
			if err != nil {
				return nil, err
			}
			x := turned{t: t, a: a, b: b, rank: d.rank, scale: d.scale}
			n := len(magnitude)
			length := make([]float32, n)
			p.share, p.by = make([]float32, n), make([]float32, n)
			if err := x.lengths(length, runtime.GOMAXPROCS(0)); err != nil {
				return nil, err
			}
			if err := p.fill(d.pair, magnitude, length); err != nil {
				return nil, err
			}
		}
		if d.lookup {
			p.numbers, p.vectors = a, make([]float32, len(b))
			for i := range m.in {
				for k := range d.rank {
					p.vectors[k*m.in+i] = b[i*d.rank+k]
				}
			}
		}
		m.parts = append(m.parts, p)
	}
	return m, nil
}

// row computes row r, counted over all matrices, into y. Sums are in float32, in a fixed order.
func (m *merger) row(y, sum []float32, r int) error {
	width := kernel.RowBytes(kernel.Type(m.t.Type), m.in)
	if err := kernel.Dequantize(kernel.Type(m.t.Type), y, m.t.Data[r*width:(r+1)*width]); err != nil {
		return err
	}
	var own []float32 // the row without adapters
	if slices.ContainsFunc(m.parts, func(p mergedPart) bool { return p.share != nil }) {
		own = slices.Clone(y)
	}
	for _, p := range m.parts {
		clear(sum)
		vectors := p.vectors[r/m.out*p.rank*m.in:]
		for k, v := range p.numbers[r*p.rank : (r+1)*p.rank] {
			for i, x := range vectors[k*m.in : (k+1)*m.in] {
				sum[i] += v * x
			}
		}
		scale := p.scale
		if p.share != nil {
			scale *= p.gained.by[r]
			for i, v := range own {
				y[i] += p.times * p.share[r] * v
			}
		}
		for i, s := range sum {
			y[i] += scale * s
		}
	}
	return nil
}

// mergedRows is the number of rows that a thread computes at a time.
const mergedRows = 32

// writeMerged writes a tensor with its deltas in a type.
func writeMerged(out io.Writer, t *gguf.Tensor, list []delta, to gguf.Type) error {
	m, err := newMerger(t, list)
	if err != nil {
		return err
	}
	rows := int(t.Elems()) / m.in
	threads := runtime.GOMAXPROCS(0)
	parts := make([][]byte, threads)
	for at := 0; at < rows; at += threads * mergedRows {
		err := panics.Each(threads, func(w int) (err error) {
			from := min(at+w*mergedRows, rows)
			parts[w], err = m.encode(parts[w], to, from, min(from+mergedRows, rows))
			return err
		})
		if err != nil {
			return err
		}
		for _, p := range parts {
			if _, err := out.Write(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// encode returns the rows of a range, reusing the memory of b if it is large enough.
func (m *merger) encode(b []byte, to gguf.Type, from, end int) ([]byte, error) {
	if from == end {
		return b[:0], nil
	}
	all, sum := make([]float32, (end-from)*m.in), make([]float32, m.in)
	for r := from; r < end; r++ {
		if err := m.row(all[(r-from)*m.in:][:m.in], sum, r); err != nil {
			return nil, err
		}
	}
	b = slices.Grow(b[:0], (end-from)*quant.RowBytes(to, m.in))[:(end-from)*quant.RowBytes(to, m.in)]
	err := quant.Encode(to, b, all, m.in, nil)
	if errors.Is(err, kernel.ErrNotFinite) {
		err = fmt.Errorf("a weight that is more than %v holds; BF16 and F32 hold more", to)
	}
	return b, err
}
