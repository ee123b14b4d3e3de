package model

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// weights implements nn.Weights for a file: the tensors that a program requested, in that order. At first
// none has memory; after bind, the same requests return Data.
type weights struct {
	f        *gguf.File
	arch     string
	pack     bool        // matrices for products; else they stay in the file
	packed   *packedFile // nil for files of rows
	file     *File
	lacks    string              // a matrix that a packed file does not have
	short    bool                // matrices of layers that are floats become Q8_0
	headRows bool                // a head's matrices stay in its file, too
	bound    bool                // there is memory
	stream   map[string]bool     // matrices that come from the disk when they are needed, by key
	guess    map[int]guess       // of experts that layers will need
	panels   map[string][]panels // what this rank has of matrices of which it does not have all, by key
	mats     []*matrix

	elsewhere []*matrix // that other ranks have, and this one does not

	vecs   []*vector
	made   []*vector // what the architecture computes, see Floats
	byName map[string]*matrix
	byVec  map[string]*vector

	choices  []*choice
	byChoice map[string]*choice

	ropes []*rotations
	evens []even
	small *mem.Region
	big   *pack // packed matrices; nil when there are none
	nodes []int // of the places that they are divided over; nil: one place

	undivided *nn.Program          // of all of it, before it is divided among ranks
	bias      map[string][]float32 // biases that this rank has, by matrix and rows

	sharing *Shared       // where matrices are found that other models have; nil: nowhere
	lone    []*mem.Region // of biases
}

// A matrix is made of one tensor or, for experts with a tensor each, several.
type matrix struct {
	kernel.Matrix
	parts  []*gguf.Tensor
	rows   bool    // looked up, not multiplied: never packed
	scales *vector // of the products; nil where the file has none

	remade   func(buf []byte, t *gguf.Tensor) ([]byte, error) // of each part, in buf and of Type; nil: they are as in the file
	streamed bool                                             // Data is in a stream.Store

	shortened bool    // from floats to Type
	columns   *vector // what the columns are multiplied by before; nil: one

	panels *gguf.Tensor // of a packed file; nil for rows
	sums   []uint32     // of each of N matrices of panels
	inFile bool         // Data is panels in the file's pages

	shared *part // of another model, whose Data is this matrix's too; nil: it has its own
	pack   *pack // that it lies in: the model's, or its own where it turned out to differ
	at     int   // of its first panels there

	squares *squares // nil where nobody wants them, and once they were used
	squared bool     // somebody wanted them

	divided *divided // nil unless it is this rank's part of one
}

// A vector is a tensor of floats, or values that the architecture computes.
type vector struct {
	t *gguf.Tensor // nil if the architecture computes it
	n int
	v []float32 // nil until there is memory; padded to whole panels
}

// rotations is the frequencies of a rope.
type rotations struct {
	rope    nn.Rope
	factors *vector   // nil where the file has none
	freqs   []float64 // nil until there is memory
}

func newWeights(f *File, arch string, pack bool) *weights {
	return &weights{
		f: f.GGUF, packed: f.packed, file: f, arch: arch, pack: pack,
		byName: map[string]*matrix{}, byVec: map[string]*vector{}, byChoice: map[string]*choice{},
	}
}

func missingTensor(name string) error { return fmt.Errorf("tensor %q is missing", name) }

// Has implements nn.Weights.
func (w *weights) Has(name string) bool {
	_, ok := w.f.Tensor(name)
	return ok
}

// Table implements nn.Weights.
func (w *weights) Table(name string, in, out int) (kernel.Matrix, error) {
	return w.matrix([]string{name}, in, out, 1, true)
}

// Matrix implements nn.Weights.
func (w *weights) Matrix(name string, in, out, n int) (kernel.Matrix, error) {
	return w.matrix([]string{name}, in, out, n, false)
}

// Flat implements nn.Weights.
func (w *weights) Flat(name string, in, out int) (kernel.Matrix, error) {
	if m, ok := w.byName[name]; ok {
		return m.asked(), nil
	}
	t, err := w.flat(name, in, out)
	if err != nil {
		return kernel.Matrix{}, err
	}
	m := &matrix{parts: []*gguf.Tensor{t}}
	m.Type, m.In, m.Out, m.N = typeOf(t), in, out, 1
	w.keep(name, m)
	return m.asked(), nil
}

// flat returns a tensor as a matrix of so many columns and rows.
func (w *weights) flat(name string, in, out int) (*gguf.Tensor, error) {
	t, ok := w.f.Tensor(name)
	if !ok {
		return nil, missingTensor(name)
	}
	n, last := uint64(1), len(t.Dims)-1
	for last > 0 && n < uint64(out) {
		n *= t.Dims[last]
		last--
	}
	flat := *t
	flat.Dims = []uint64{1, n}
	for _, d := range t.Dims[:last+1] {
		flat.Dims[0] *= d
	}
	if flat.Dims[0] != uint64(in) || flat.Dims[1] != uint64(out) {
		return nil, fmt.Errorf("tensor %q: shape %v, want %d numbers in each of %d rows", name, t.Dims, in, out)
	}
	if err := typeOf(t).Check(in); err != nil {
		return nil, unsupported(t, err)
	}
	return &flat, nil
}

// Rows implements nn.Weights.
func (w *weights) Rows(name string) int {
	t, ok := w.f.Tensor(name)
	if !ok {
		return 0
	}
	for i := len(t.Dims) - 1; i > 0; i-- {
		if t.Dims[i] > 1 {
			return int(min(t.Dims[i], math.MaxInt32))
		}
	}
	return 1
}

// Columns implements nn.Weights.
func (w *weights) Columns(name string) int {
	t, ok := w.f.Tensor(name)
	if !ok || len(t.Dims) == 0 {
		return 0
	}
	return int(min(t.Dims[0], math.MaxInt32))
}

// Stack implements nn.Weights.
func (w *weights) Stack(names []string, in, out int) (kernel.Matrix, error) {
	return w.matrix(names, in, out, 1, false)
}

// Part implements nn.Weights.
func (w *weights) Part(name string, in, of, from, n, mats int) (kernel.Matrix, error) {
	return w.cut(name, []uint64{uint64(in), uint64(of), uint64(mats)}, in, from, n, mats, of)
}

// Nth implements nn.Weights.
func (w *weights) Nth(name string, in, out, n, i int) (kernel.Matrix, error) {
	return w.cut(name, []uint64{uint64(in), uint64(out), uint64(n)}, in, i*out, out, 1, out)
}

// cut returns n rows of a tensor of this shape, starting at number `from`, for each of `mats` matrices that
// are `of` rows apart.
func (w *weights) cut(name string, shape []uint64, in, from, n, mats, of int) (kernel.Matrix, error) {
	key := fmt.Sprintf("%s from row %d", name, from)
	if m, ok := w.byName[key]; ok {
		return m.asked(), nil
	}
	t, err := w.tensor(name, shape)
	if err != nil {
		return kernel.Matrix{}, err
	}
	if err := typeOf(t).Check(in); err != nil {
		return kernel.Matrix{}, unsupported(t, err)
	}
	if err := wholeGroups(t, of, from, n); err != nil {
		return kernel.Matrix{}, err
	}
	m := &matrix{}
	for i := range mats {
		m.parts = append(m.parts, rowsOf(t, in, i*of+from, n))
	}
	m.Type, m.In, m.Out, m.N = typeOf(t), in, n, mats
	if m.scales, err = w.scales(name, mats); err != nil {
		return kernel.Matrix{}, err
	}
	w.keep(key, m)
	return m.asked(), nil
}

// Heads implements nn.Weights.
func (w *weights) Heads(name string, in, of, from, n, heads int) (kernel.Matrix, error) {
	key := nn.HeadsName(name, from)
	if m, ok := w.byName[key]; ok {
		return m.asked(), nil
	}
	t, err := w.tensor(name, []uint64{uint64(in), uint64(of * heads)})
	if err != nil {
		return kernel.Matrix{}, err
	}
	if err := typeOf(t).Check(in); err != nil {
		return kernel.Matrix{}, unsupported(t, err)
	}
	if n%kernel.Panel != 0 {
		return kernel.Matrix{}, fmt.Errorf("tensor %q: %d rows of each head, want a multiple of %d", name, n, kernel.Panel)
	}
	if err := wholeGroups(t, of, from, n); err != nil {
		return kernel.Matrix{}, err
	}
	m := &matrix{}
	for h := range heads {
		m.parts = append(m.parts, rowsOf(t, in, h*of+from, n))
	}
	m.Type, m.In, m.Out, m.N = typeOf(t), in, n*heads, 1
	w.keep(key, m)
	return m.asked(), nil
}

// EachHead implements nn.Weights.
func (w *weights) EachHead(name string, in, of, from, n, heads int) (kernel.Matrix, error) {
	return w.cut(name, []uint64{uint64(in), uint64(of * heads)}, in, from, n, heads, of)
}

// rowsOf returns n rows of a matrix as a tensor.
func rowsOf(t *gguf.Tensor, in, from, n int) *gguf.Tensor {
	row := kernel.RowBytes(typeOf(t), in)
	part := *t
	part.Dims = []uint64{uint64(in), uint64(n)}
	if t.Data != nil { // else it is a packed file, whose matrices are not its tensors
		part.Data = t.Data[from*row : (from+n)*row]
	}
	part.Offset += uint64(from * row)
	return &part
}

// keep adds a matrix in its final form.
func (w *weights) keep(key string, m *matrix) {
	w.shorten(key, m)
	if list := w.panels[key]; list != nil && len(list) == 0 { // another rank has it
		m.Name = key
		w.byName[key], w.elsewhere = m, append(w.elsewhere, m)
		return
	}
	m.divide(w.panels[key])
	// A matrix made of several tensors must be copied together, and interleaved rows must be separated, so
	// these are packed as well. A draft head is small and used often.
	head := ofHead(key) && !w.headRows
	if w.packed != nil && !m.rows && !head {
		w.keepPanels(key, m)
	} else if w.stream[key] {
		m.streamed = true
		if m.packsInPlace() {
			m.Layout = kernel.X16 // as large as its rows
		}
	} else if !m.rows && (w.pack || head || len(m.parts) > 1 || m.remade != nil || together(m.parts[0]) > 1) {
		m.Layout = packedLayout(m.Matrix)
	} else {
		m.Data = m.parts[0].Data
	}
	m.Name = key
	w.mats = append(w.mats, m)
	w.byName[key] = m
}

// twelvePays is a variable for tests.
var twelvePays = kernel.TwelvePays

// packedLayout returns the layout of panels that a matrix gets, unless its values do not fit it (Model.read).
func packedLayout(m kernel.Matrix) kernel.Layout {
	if m.Twelve() && twelvePays() {
		return kernel.X12
	}
	return kernel.X16
}

// matrix returns n matrices from each of the named tensors.
func (w *weights) matrix(names []string, in, out, n int, rows bool) (kernel.Matrix, error) {
	key := names[0]
	if rows {
		key += " by rows" // tied embeddings are both a table and an output
	}
	if m, ok := w.byName[key]; ok {
		return m.asked(), nil
	}
	m := &matrix{rows: rows}
	m.In, m.Out, m.N = in, out, n*len(names)
	want := []uint64{uint64(in), uint64(out)}
	if n > 1 {
		want = append(want, uint64(n))
	}
	for i, name := range names {
		t, err := w.tensor(name, want)
		if err != nil {
			return kernel.Matrix{}, err
		}
		m.Type = typeOf(t)
		if err := m.Type.Check(in); err != nil {
			return kernel.Matrix{}, unsupported(t, err)
		}
		if rows && together(t) > 1 {
			return kernel.Matrix{}, fmt.Errorf("tensor %q: type %v, want %v, since rows that are looked up cannot be interleaved", name, t.Type, m.Type)
		}
		if i > 0 && t.Type != m.parts[0].Type {
			return kernel.Matrix{}, fmt.Errorf("tensor %q: type %v, %q has %v", name, t.Type, m.parts[0].Name, m.parts[0].Type)
		}
		m.parts = append(m.parts, t)
	}
	s, err := w.scales(names[0], n)
	switch {
	case err != nil:
		return kernel.Matrix{}, err
	case s != nil && (rows || len(names) > 1):
		return kernel.Matrix{}, fmt.Errorf("tensor %q: scales of %q are not supported", s.t.Name, names[0])
	}
	m.scales = s
	w.keep(key, m)
	return m.asked(), nil
}

// scales returns the separate factors that some files have for a matrix, one per expert of n, or nil.
func (w *weights) scales(name string, n int) (*vector, error) {
	scale := scaleName(w.arch, name)
	if scale == "" || !w.Has(scale) {
		return nil, nil
	}
	if _, err := w.Vector(scale, n); err != nil {
		return nil, err
	}
	return w.byVec[scale], nil
}

// scaleName returns the name of the tensor with the factors of a matrix in files that have them; "" where none can be. Routers of
// Gemma 4 have none: the tensor of that name multiplies their input.
func scaleName(arch, name string) string {
	base, ok := strings.CutSuffix(name, ".weight")
	if !ok || arch == "gemma4" && strings.HasSuffix(base, ".ffn_gate_inp") {
		return ""
	}
	return base + ".scale"
}

// tensor returns a tensor of this shape, whatever dimensions of 1 there are beside.
func (w *weights) tensor(name string, want []uint64) (*gguf.Tensor, error) {
	t, ok := w.f.Tensor(name)
	if !ok {
		return nil, missingTensor(name)
	}
	if !slices.Equal(counted(t.Dims), counted(want)) {
		return nil, fmt.Errorf("tensor %q: shape %v, want %v", name, t.Dims, want)
	}
	return t, nil
}

// counted returns dimensions but for those of 1.
func counted(dims []uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(dims), func(d uint64) bool { return d == 1 })
}

// unsupported returns an error that names a tensor that the kernels do not support. The kernels can name an
// unknown type only by its number.
func unsupported(t *gguf.Tensor, err error) error {
	if errors.Is(err, kernel.ErrType) {
		return fmt.Errorf("tensor %q: type %v is not supported, supported are %v: %w", t.Name, t.Type, kernel.Types(), kernel.ErrType)
	}
	return fmt.Errorf("tensor %q: %w", t.Name, err)
}

// Vector implements nn.Weights.
func (w *weights) Vector(name string, dims ...int) ([]float32, error) {
	if v, ok := w.byVec[name]; ok {
		return v.v, nil
	}
	n, want := 1, []uint64(nil)
	for _, d := range dims {
		n *= d
		want = append(want, uint64(d))
	}
	t, err := w.tensor(name, want)
	if err != nil {
		return nil, err
	}
	if !isFloat(t) && (len(dims) < 2 || together(t) > 1) {
		return nil, fmt.Errorf("tensor %q: type %v, want F32, F16 or BF16", name, t.Type)
	}
	if err := typeOf(t).Check(dims[0]); !isFloat(t) && err != nil {
		return nil, unsupported(t, err)
	}
	v := &vector{t: t, n: n}
	w.vecs = append(w.vecs, v)
	w.byVec[name] = v
	return v.v, nil
}

// Rope implements nn.Weights.
func (w *weights) Rope(r nn.Rope) ([]float64, error) {
	if i := slices.IndexFunc(w.ropes, func(o *rotations) bool { return o.rope == r }); i >= 0 {
		return w.ropes[i].freqs, nil
	}
	o := &rotations{rope: r}
	if r.Factors != "" && (r.NCtxShort > 0 || w.Has(r.Factors)) {
		if _, err := w.Vector(r.Factors, cmp.Or(r.Of, r.NRot)/2); err != nil {
			return nil, err
		}
		o.factors = w.byVec[r.Factors]
	}
	w.ropes = append(w.ropes, o)
	return nil, nil
}

// bytes returns the memory of all weights outside the file.
func (w *weights) bytes() uint64 { return w.bytesIn(len(w.nodes)) }

// bytesIn returns it for packed matrices that are divided over so many places; 0 is 1.
func (w *weights) bytesIn(places int) uint64 {
	part := w.partBytes(places)
	if places > 1 {
		part *= uint64(places)
	}
	for _, m := range w.mats {
		if m.pack != nil && m.pack != w.big {
			part += m.pack.reserved.Bytes()
		}
	}
	return part + w.smallBytes()
}

// partBytes returns the memory of the model's packed matrices in each of so many places.
func (w *weights) partBytes(places int) uint64 {
	n := uint64(0)
	for _, m := range w.mats {
		if m.anonymous() && m.shared == nil && m.pack == w.big {
			n += uint64(m.PartBytes(max(places, 1)))
		}
	}
	return placeBytes(n, places)
}

// placeBytes returns the memory of n bytes of panels in each of so many places: whole huge pages where there are several.
func placeBytes(n uint64, places int) uint64 {
	if places > 1 {
		n = (n + mem.HugePage - 1) / mem.HugePage * mem.HugePage
	}
	return n
}

// apartBytes returns the memory of matrices that are packed because the file has them in several tensors or
// in another order. In a packed file each is one tensor.
func (w *weights) apartBytes() uint64 {
	n := uint64(0)
	for _, m := range w.mats {
		if m.anonymous() && m.panels == nil && (len(m.parts) > 1 || m.remade != nil || together(m.parts[0]) > 1) {
			n += uint64(m.Bytes())
		}
	}
	return n
}

// packsInPlace reports whether streamed rows of the matrix are packed where they were read, once for as long
// as they stay in memory. Rows of experts are not, because neighbors share pages, into which the neighbor is
// read later.
func (m *matrix) packsInPlace() bool {
	return m.panels == nil && m.N == 1 && m.Out%kernel.Panel == 0 && kernel.PanelBytes(m.Type, m.In) == kernel.Panel*kernel.RowBytes(m.Type, m.In)
}

// anonymous reports whether the matrix has memory of its own: panels that are neither in the file nor
// streamed.
func (m *matrix) anonymous() bool { return m.Layout != kernel.Rows && !m.streamed && !m.inFile }

// smallBytes returns the memory of vectors and rotations.
func (w *weights) smallBytes() uint64 {
	n := uint64(0)
	for _, o := range w.ropes {
		n += ropeBytes(o)
	}
	for _, v := range slices.Concat(w.vecs, w.made) {
		n += vectorBytes(v)
	}
	for _, c := range w.choices {
		n += choiceBytes(c)
	}
	return max(n, 4) // models without norms and biases have some memory too
}

// isFloat reports whether the elements of a tensor are floats.
func isFloat(t *gguf.Tensor) bool {
	return t.Type == gguf.F32 || t.Type == gguf.F16 || t.Type == gguf.BF16
}

// read fills the vector; one of several dimensions, which may have any type, row by row.
func (v *vector) read() error {
	n := v.n
	if !isFloat(v.t) {
		n = int(v.t.Dims[0])
	}
	row := kernel.RowBytes(typeOf(v.t), n)
	for i := range v.n / n {
		if err := kernel.Dequantize(typeOf(v.t), v.v[i*n:(i+1)*n], v.t.Data[i*row:(i+1)*row]); err != nil {
			return err
		}
	}
	return nil
}

func ropeBytes(o *rotations) uint64 { return uint64(kernel.AlignUp(o.rope.NRot / 2 * 8)) }

func vectorBytes(v *vector) uint64 { return uint64(kernel.Pad(v.n)) * 4 }

// sourceBytes returns how much of the file is read to pack or check it.
func (w *weights) sourceBytes() uint64 {
	n := uint64(0)
	for _, m := range w.mats {
		switch {
		case !w.readNow(m):
		case m.panels != nil:
			n += uint64(len(m.panels.Data))
		default:
			for _, t := range m.parts {
				n += uint64(len(t.Data))
			}
		}
	}
	return n
}

// readNow reports whether a matrix is read at load. Packed files were checked when they were written, and
// streamed matrices are read later, unless channel factors are computed from them.
func (w *weights) readNow(m *matrix) bool {
	switch {
	case w.packed != nil:
		return m.anonymous()
	case m.streamed:
		return m.squares != nil
	}
	return !w.readElsewhere(m)
}

// checkBytes returns the memory of the panels used to check the values of matrices that are not packed, some
// rows at a time, or to transpose or de-interleave others.
func (w *weights) checkBytes() uint64 {
	n := 0
	for _, m := range w.mats {
		if w.packed != nil && !ofHead(m.Name) { // they were checked when it was written
			continue
		}
		if m.Layout == kernel.Rows && !w.readElsewhere(m) && !m.streamed {
			n = max(n, min(chunkRows(m), kernel.Pad(m.Out))/kernel.Panel*kernel.PanelBytes(m.Type, m.In))
		}
		if m.shared != nil {
			n = max(n, min(chunkRows(m), kernel.Pad(m.Out))/kernel.Panel*m.PanelBytes())
		}
		if m.remade != nil {
			n = max(n, m.Out*kernel.RowBytes(m.Type, m.In)) // a part
		} else if together(m.parts[0]) > 1 {
			n = max(n, min(chunkRows(m), m.Out)*kernel.RowBytes(m.Type, m.In))
		}
	}
	return uint64(n)
}

// readElsewhere reports whether another matrix of the same tensor has its values checked: a tied embedding is
// read once.
func (w *weights) readElsewhere(m *matrix) bool { return m.rows && w.byName[m.parts[0].Name] != nil }

// bind allocates all weights, reserved from the budget, and fills the vectors. Matrices that other models
// seem to have use the shared memory. Packed matrices are divided over the places of these nodes.
func (w *weights) bind(budget *mem.Budget, shared *Shared, nodes []int) (err error) {
	if len(nodes) > 1 {
		w.nodes = nodes
	}
	if w.sharing = shared; shared != nil {
		for _, m := range w.mats {
			if m.shared = shared.take(m); m.shared != nil {
				m.Data, m.Layout, m.Places, m.Stride = m.shared.Data, m.shared.Layout, m.shared.Places, m.shared.Stride
			}
		}
	}
	if n := w.partBytes(len(w.nodes)); n > 0 {
		if w.big, err = newPack(budget, n, w.nodes); err != nil {
			return err
		}
		at := 0
		for _, m := range w.mats {
			if m.anonymous() && m.shared == nil {
				w.big.put(m, at)
				at += m.PartBytes(w.big.places)
			}
		}
	}
	if w.small, err = budget.Alloc("norms and biases", w.smallBytes()); err != nil {
		return err
	}
	return w.bindVectors()
}

// bindVectors fills the vectors and rotations.
func (w *weights) bindVectors() error {
	rest := w.small.Bytes()
	for _, o := range w.ropes {
		n := ropeBytes(o)
		o.freqs, rest = mem.Float64s(rest[:n:n])[:o.rope.NRot/2], rest[n:]
	}
	for _, c := range w.choices {
		n := choiceBytes(c)
		c.fill(mem.Int32s(rest[:n:n])[:c.t.Elems()])
		rest = rest[n:]
	}
	for _, v := range slices.Concat(w.vecs, w.made) {
		n := vectorBytes(v)
		v.v, rest = mem.Float32s(rest[:n:n]), rest[n:]
		if v.t == nil {
			continue
		}
		if err := v.read(); err != nil {
			return unsupported(v.t, err)
		}
		if err := finite(v.v); err != nil {
			return fmt.Errorf("tensor %q: %w", v.t.Name, err)
		}
	}
	for _, m := range w.mats {
		if m.scales != nil {
			m.Scales = m.scales.v[:m.asked().N]
		}
	}
	for _, e := range w.evens {
		if err := e.fill(); err != nil {
			return err
		}
	}
	w.bound = true
	return w.fillRopes()
}

func (w *weights) fillRopes() error {
	for _, o := range w.ropes {
		var factors []float32
		if v := o.factors; v != nil {
			factors = v.v
			if i := slices.IndexFunc(factors[:v.n], func(f float32) bool { return f <= 0 }); i >= 0 {
				return fmt.Errorf("tensor %q: factor %d is %v, want more than 0", v.t.Name, i, factors[i])
			}
		}
		freqs := o.rope.Freqs(factors)
		if err := finite(freqs); err != nil {
			return fmt.Errorf("key %q: rotations that are not finite", w.arch+".rope.freq_base")
		}
		copy(o.freqs, freqs)
	}
	return nil
}

func finite[T float32 | float64](v []T) error {
	if slices.ContainsFunc(v, func(f T) bool { return f-f != 0 }) {
		return kernel.ErrNotFinite
	}
	return nil
}

func (w *weights) close() {
	for _, m := range w.mats {
		if m.shared != nil {
			w.sharing.drop(m.shared)
			m.shared = nil
		}
		if m.pack != nil && m.pack != w.big {
			w.sharing.leave(m.pack)
		}
		m.pack = nil
	}
	if w.big != nil {
		w.sharing.leave(w.big)
		w.big = nil
	}
	for _, r := range append(w.lone, w.small) {
		if r != nil {
			r.Close()
		}
	}
}

// free gives back the memory of a matrix that differs from the shared one, or does not fit its layout, and alone gives it
// other memory.
func (w *weights) free(m *matrix) {
	p := m.pack
	switch {
	case m.shared != nil:
		w.sharing.drop(m.shared)
	case p != w.big:
		w.sharing.leave(p)
	default:
		for k := range p.places {
			_ = p.region.Discard(k*p.stride+m.at, m.PartBytes(p.places)) // a failure costs memory, not correctness
		}
	}
	m.shared, m.pack, m.Data, m.Places, m.Stride = nil, nil, nil, 0, 0
	if w.big != nil {
		_ = w.big.reserved.Resize(w.partBytes(w.big.places) * uint64(w.big.places)) // shrinking cannot fail
	}
}

// alone allocates memory for one matrix. After an error it has none, and may be tried again.
func (w *weights) alone(m *matrix, budget *mem.Budget) error {
	p, err := newPack(budget, placeBytes(uint64(m.PartBytes(max(len(w.nodes), 1))), len(w.nodes)), w.nodes)
	if err == nil {
		p.put(m, 0)
	}
	return err
}
