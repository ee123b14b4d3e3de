package model

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// An Adapter is a packed LoRA adapter: low-rank corrections of a model's matrices. It is immutable.
type Adapter struct {
	Hash    [sha256.Size]byte // of the file
	Rank    int               // the largest
	Tensors int               // that it corrects

	low        map[string]kernel.LowRank // by the name of the matrix
	magnitudes bool                      // its matrices have them
	region     *mem.Region
	file       *File // for the other ranks, until they have it; nil: there are none
}

// OpenAdapter loads the adapter at path, a GGUF file, for this model. Errors are one line and name the file.
func (m *Model) OpenAdapter(path string, o Options) (*Adapter, error) {
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	a, err := m.readAdapter(f, o)
	if err == nil && m.ranks != nil && m.ranks.Rank() == 0 {
		a.file = f
		return a, nil
	}
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// readAdapter loads the adapter in f, which is no longer needed then.
func (m *Model) readAdapter(f *File, o Options) (*Adapter, error) {
	a := &Adapter{low: map[string]kernel.LowRank{}}
	if err := a.load(m, f, o); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Bytes returns the memory of the adapter.
func (a *Adapter) Bytes() int { return len(a.region.Bytes()) }

// Close releases the memory. No Runner may use the adapter. Closing again is a no-op.
func (a *Adapter) Close() {
	if a.region != nil {
		a.region.Close()
	}
	if a.file != nil {
		a.file.Close()
		a.file = nil
	}
}

func (a *Adapter) load(m *Model, f *File, o Options) error {
	kind, alpha, err := adapterKind(f.GGUF, m.Config.Arch)
	if err != nil {
		return err
	}
	a.magnitudes = kind == dora
	pairs, err := pairsOf(f.GGUF, kind)
	if err != nil {
		return err
	}
	var all []correction
	for _, p := range pairs {
		list, err := m.weights.corrected(p)
		if err != nil {
			return err
		}
		all = append(all, list...)
		a.Rank = max(a.Rank, p.rank)
	}
	a.Tensors = len(pairs)
	if _, _, err := m.adapted([]*Adapter{a.sketch(all)}); err != nil {
		return err
	}
	n := 0
	for _, c := range all {
		n += c.a.bytes() + c.b.bytes()
		if a.magnitudes {
			n += kernel.AlignUp(4 * kernel.Pad(c.b.Out))
		}
	}
	if a.region, err = o.Budget.Alloc("adapters", uint64(n)); err != nil {
		return err
	}
	rest := a.region.Bytes()
	var g gained // of the pair that comes now: several matrices may be of its tensor
	defer func() { g.close() }()
	for _, c := range all {
		l := kernel.LowRank{Scale: 1}
		if alpha != 0 {
			l.Scale = float32(alpha / float64(c.rank))
		}
		if a.magnitudes {
			if g.of != c.b.t {
				g.close()
				if g, err = m.gained(c.pair, l.Scale, o); err != nil {
					return err
				}
			}
			from, out := c.b.spans[0].from, c.b.Out
			c.b.by = g.by
			l.Gain = mem.Float32s(rest[:4*kernel.Pad(out)])
			copy(l.Gain, g.share[from:from+out])
			rest = rest[kernel.AlignUp(4*kernel.Pad(out)):]
		}
		for _, x := range []struct {
			to   *kernel.Matrix
			part thin
		}{{&l.A, c.a}, {&l.B, c.b}} {
			bytes := x.part.bytes()
			*x.to = x.part.Matrix
			x.to.Data, rest = rest[:x.part.Bytes():x.part.Bytes()], rest[bytes:]
			if err := x.part.fill(x.to.Data, o); err != nil {
				return err
			}
		}
		a.low[c.matrix] = l
	}
	h := sha256.New()
	for _, shard := range f.Shards() {
		h.Write(shard)
	}
	h.Sum(a.Hash[:0])
	return cmp.Or(m.Damaged(), f.Damaged()) // lengths are of the model's file
}

// sketch returns the adapter without memory, to check plans with.
func (a *Adapter) sketch(all []correction) *Adapter {
	s := &Adapter{Rank: a.Rank, magnitudes: a.magnitudes, low: map[string]kernel.LowRank{}}
	for _, c := range all {
		l := kernel.LowRank{A: c.a.Matrix, B: c.b.Matrix}
		if a.magnitudes {
			l.Gain = make([]float32, kernel.Pad(c.b.Out))
		}
		s.low[c.matrix] = l
	}
	return s
}

// adapterKind checks the metadata of an adapter's file and returns its kind, and its alpha, or 0 if it has none.
func adapterKind(f *gguf.File, arch string) (kind string, alpha float64, err error) {
	kind = lora
	if got, _ := f.Str("adapter.type"); got == dora {
		kind = dora
	}
	for _, want := range [][2]string{{"general.type", "adapter"}, {"adapter.type", kind}, {"general.architecture", arch}} {
		got, err := f.Str(want[0])
		switch {
		case errors.Is(err, gguf.ErrMissing) && want[0] == "general.type":
			return "", 0, fmt.Errorf("not an adapter: key %q is missing, want %q", want[0], want[1])
		case err != nil:
			return "", 0, err
		case got != want[1] && want[0] == "general.architecture":
			return "", 0, fmt.Errorf("an adapter of a model of architecture %q, the model is of %q", got, want[1])
		case got != want[1]:
			return "", 0, fmt.Errorf("not a LoRA adapter: key %q is %q, want %q", want[0], got, want[1])
		}
	}
	if _, ok := f.Value("adapter.alora.invocation_tokens"); ok {
		return "", 0, fmt.Errorf("key %q: adapters that begin with a token (aLoRA) are not supported", "adapter.alora.invocation_tokens")
	}
	alpha, err = f.Float("adapter.lora.alpha")
	switch {
	case errors.Is(err, gguf.ErrMissing):
		return kind, 0, nil
	case err != nil:
		return "", 0, err
	case math.IsNaN(alpha) || math.IsInf(alpha, 0):
		return "", 0, fmt.Errorf("key %q: %v, want a finite number", "adapter.lora.alpha", alpha)
	}
	return kind, alpha, nil
}

// A pair is an adapter's two matrices for one tensor, and its magnitudes, if it has some.
type pair struct {
	tensor string
	a, b   *gguf.Tensor
	m      *gguf.Tensor // nil: none
	rank   int
}

// pairsOf returns the pairs of a file of this kind, in the order of its tensors.
func pairsOf(f *gguf.File, kind string) ([]pair, error) {
	if len(f.Tensors) == 0 {
		return nil, errors.New("an adapter without tensors")
	}
	var pairs []pair
	for i := range f.Tensors {
		t := &f.Tensors[i]
		name, isA := strings.CutSuffix(t.Name, ".lora_a")
		name, isB := strings.CutSuffix(name, ".lora_b")
		isM := false
		if kind == dora {
			name, isM = strings.CutSuffix(name, ".lora_m")
		}
		switch {
		case isA || isB || isM:
		case kind == dora:
			return nil, fmt.Errorf("tensor %q: want a name that ends in .lora_a, .lora_b or .lora_m", t.Name)
		default:
			return nil, fmt.Errorf("tensor %q: want a name that ends in .lora_a or .lora_b", t.Name)
		}
		k := slices.IndexFunc(pairs, func(p pair) bool { return p.tensor == name })
		if k < 0 {
			k, pairs = len(pairs), append(pairs, pair{tensor: name})
		}
		switch {
		case isM:
			pairs[k].m = t
		case isA:
			pairs[k].a = t
		default:
			pairs[k].b = t
		}
	}
	for i := range pairs {
		p := &pairs[i]
		switch {
		case p.a == nil:
			return nil, missingTensor(p.tensor + ".lora_a")
		case p.b == nil:
			return nil, missingTensor(p.tensor + ".lora_b")
		case p.m == nil && kind == dora:
			return nil, missingTensor(p.tensor + ".lora_m")
		}
		rank := p.b.Dims[0]
		if rank < 1 || rank > kernel.MaxRank {
			return nil, fmt.Errorf("tensor %q: rank %d, want 1 to %d", p.b.Name, rank, kernel.MaxRank)
		}
		p.rank = int(rank)
	}
	slices.SortFunc(pairs, func(p, q pair) int { return cmp.Compare(p.tensor, q.tensor) })
	return pairs, nil
}

const embeddingName, outputName = "token_embd.weight", "output.weight"

// outOf returns how many rows a matrix of the tensor has.
func outOf(t *gguf.Tensor) uint64 {
	if len(t.Dims) < 2 {
		return 1
	}
	return t.Dims[1]
}

// check returns an error if the pair's shapes do not match t.
func (p *pair) check(t *gguf.Tensor) error {
	in, out, n, rank := t.Dims[0], outOf(t), uint64(1), uint64(p.rank)
	if len(t.Dims) > 2 {
		n = t.Dims[2]
	}
	wantA, wantB := []uint64{in, rank, n}, []uint64{rank, out, n}
	if p.tensor == embeddingName {
		wantA, wantB = []uint64{rank, out, n}, []uint64{rank, in, n}
	}
	for _, c := range []struct {
		t    *gguf.Tensor
		want []uint64
	}{{p.a, wantA}, {p.b, wantB}} {
		if !slices.Equal(trimmed(c.t.Dims), trimmed(c.want)) {
			return fmt.Errorf("tensor %q: shape %v, want %v for %q of the model", c.t.Name, c.t.Dims, trimmed(c.want), p.tensor)
		}
	}
	if p.m != nil && !slices.Equal(p.m.Dims, []uint64{out}) {
		return fmt.Errorf("tensor %q: shape %v, want %v for %q of the model", p.m.Name, p.m.Dims, []uint64{out}, p.tensor)
	}
	return nil
}

// A correction is an adapter's term of the products with one matrix.
type correction struct {
	pair
	matrix string // its name
	a, b   thin
}

// corrected returns the corrections of the matrices that are made of a pair's tensor.
func (w *weights) corrected(p pair) ([]correction, error) {
	name := p.tensor
	if name == outputName && !w.Has(outputName) {
		name = embeddingName // which serves as both: this is the product
	}
	t, ok := w.f.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("tensor %q: the model has no %q: the adapter is of another one", p.a.Name, p.tensor)
	}
	if err := p.check(t); err != nil {
		return nil, err
	}
	lookup := p.tensor == embeddingName
	var list []correction
	for _, m := range w.mats {
		m = m.undivided()
		if m.parts[0].Name != name || m.rows != lookup {
			continue
		}
		if m.remade != nil || !m.whole(name) {
			return nil, fmt.Errorf("tensor %q: adapters of %q are not supported: it is not multiplied as it is", p.a.Name, p.tensor)
		}
		if p.m != nil {
			if err := m.measurable(w); err != nil {
				return nil, fmt.Errorf("tensor %q: %w", p.m.Name, err)
			}
		}
		c := correction{pair: p, matrix: m.Name}
		if lookup {
			c.a, c.b = thinOf(p.a, m.Out, []span{{0, m.Out}}), thinOf(p.b, m.In, []span{{0, m.In}})
			c.a.Layout = kernel.Rows
		} else {
			rows := m.spans(t)
			var each []span // of A: that of the matrix of the tensor that the rows are of
			for k := range m.N {
				each = append(each, span{rows[k].from / int(outOf(t)) * p.rank, p.rank})
			}
			c.a, c.b = thinOf(p.a, p.rank, each), thinOf(p.b, m.Out, rows)
			if p.m != nil {
				c.b.Type = kernel.F32
			}
			c.a.N, c.b.N = m.N, m.N
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("tensor %q: adapters of %q are not supported: it is no matrix of products", p.a.Name, p.tensor)
	}
	return list, nil
}

// trimmed returns dims without trailing ones, keeping at least two.
func trimmed(dims []uint64) []uint64 {
	for len(dims) > 2 && dims[len(dims)-1] == 1 {
		dims = dims[:len(dims)-1]
	}
	return dims
}

// whole reports whether a matrix is made of one tensor.
func (m *matrix) whole(tensor string) bool {
	return !slices.ContainsFunc(m.parts, func(t *gguf.Tensor) bool { return t.Name != tensor })
}

// A span is n rows from number `from` on.
type span struct{ from, n int }

// spans returns the rows of a tensor that a matrix is made of, for each of N matrices.
func (m *matrix) spans(t *gguf.Tensor) []span {
	row := uint64(kernel.RowBytes(m.Type, m.In))
	var list []span
	for _, p := range m.parts {
		from, rows := int((p.Offset-t.Offset)/row), int(p.Elems()/p.Dims[0])
		for at := 0; at < rows; at += m.Out {
			list = append(list, span{from + at, min(m.Out, rows-at)})
		}
	}
	return list
}

// A thin is one of an adapter's two matrices, with the rows of its tensor that it is made of. Quantized types
// become floats: at these sizes that costs little.
type thin struct {
	kernel.Matrix
	t     *gguf.Tensor
	spans []span
	by    []float32 // what each row of t is multiplied by, which is of floats then; nil: nothing
}

// thinOf returns a packed matrix of so many rows.
func thinOf(t *gguf.Tensor, rows int, spans []span) thin {
	x := thin{t: t, spans: spans}
	x.Type, x.Layout, x.In, x.Out, x.N = kernel.F32, kernel.X16, int(t.Dims[0]), rows, 1
	if kernel.Type(t.Type) == kernel.F16 { // BF16 would take other activations
		x.Type = kernel.F16
	}
	return x
}

func (x *thin) bytes() int { return kernel.AlignUp(x.Bytes()) }

// fill writes the matrix to dst.
func (x *thin) fill(dst []byte, o Options) error {
	from := kernel.Type(x.t.Type)
	if err := from.Check(x.In); err != nil {
		return unsupported(x.t, err)
	}
	row, width := kernel.RowBytes(from, x.In), kernel.RowBytes(x.Type, x.In)
	most := 0
	for _, s := range x.spans {
		most = max(most, s.n)
	}
	buf, err := o.borrow("rows of an adapter", uint64(most*width))
	if err != nil {
		return err
	}
	defer buf.Close()
	for _, s := range x.spans {
		src, rows := x.t.Data[s.from*row:(s.from+s.n)*row], buf.Bytes()[:s.n*width]
		if x.Type == from {
			copy(rows, src)
		} else if err := kernel.Dequantize(from, mem.Float32s(rows), src); err != nil {
			return unsupported(x.t, err)
		}
		if x.by != nil {
			scaleRows(mem.Float32s(rows), mem.Float32s(rows), x.by[s.from:s.from+s.n], x.In)
		}
		packed := kernel.Pad(s.n) / kernel.Panel * kernel.PanelBytes(x.Type, x.In)
		if x.Layout == kernel.Rows {
			if err := x.finite(rows); err != nil {
				return err
			}
			copy(dst, rows)
			continue
		}
		err := o.packMat(dst[:packed:packed], kernel.X16, kernel.Matrix{Data: rows, Type: x.Type, In: x.In, Out: s.n, N: 1})
		if err != nil {
			return fmt.Errorf("tensor %q: %w", x.t.Name, err)
		}
		dst = dst[packed:]
	}
	return nil
}

// finite checks rows that are not packed.
func (x *thin) finite(rows []byte) error {
	v, width := make([]float32, x.In), kernel.RowBytes(x.Type, x.In)
	for at := 0; at < len(rows); at += width {
		if err := kernel.Dequantize(x.Type, v, rows[at:at+width]); err != nil {
			return unsupported(x.t, err)
		}
		if err := finite(v); err != nil {
			return fmt.Errorf("tensor %q: %w", x.t.Name, err)
		}
	}
	return nil
}
