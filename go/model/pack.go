package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/stream"
)

// pageBytes is the alignment of tensors in a packed file, as direct reads need.
const pageBytes = stream.Align

// ErrPacked reports a file that is already packed.
var ErrPacked = errors.New("the file is packed already; give the one that it was made of")

// Pack writes the model in f as a packed file, which is mapped or streamed without repacking. One matrix at a
// time is in memory.
func Pack(out io.Writer, f *File, o Options) (int64, error) {
	if f.Packed() {
		return 0, ErrPacked
	}
	s, err := NewSurvey(f, kernel.KVTypes{K: kernel.KVI16, V: kernel.KVI16}, 0) // for which sizes of channels are needed
	if err != nil {
		return 0, err
	}
	if drafting, err := s.Drafting(); err == nil {
		s = drafting
	}
	found, err := s.find(Packed)
	if err != nil {
		return 0, err
	}
	p, err := newPacking(s, found, o)
	if err != nil {
		return 0, err
	}
	defer p.close()
	w := gguf.NewWriter()
	p.describe(w)
	for _, x := range p.mats {
		w.AddTensor(prefixPanels+x.Name, gguf.Panels, []uint64{uint64(x.Bytes() / x.N), uint64(x.N)}, func(to io.Writer) error { return p.matrix(to, x) })
	}
	for i := range f.GGUF.Tensors {
		if t := &f.GGUF.Tensors[i]; !p.used[t.Name] {
			w.AddTensor(t.Name, t.Type, t.Dims, func(to io.Writer) error { return p.rows(to, t) })
		}
	}
	sums := 0
	for _, x := range p.mats {
		sums += x.N
		if x.squares != nil {
			w.AddTensor(prefixSquares+x.Name, gguf.F64, []uint64{uint64(x.Out)}, func(to io.Writer) error {
				return binary.Write(to, binary.LittleEndian, x.squares.rows)
			})
		}
	}
	w.AddTensor(tensorSums, gguf.I32, []uint64{uint64(sums)}, func(to io.Writer) error { return binary.Write(to, binary.LittleEndian, p.sums) })
	return w.WriteTo(out)
}

// A packing is a packed file that is being written.
type packing struct {
	reading
	weights *weights
	mats    []*matrix       // in the order in which they are used
	used    map[string]bool // tensors of which nothing but panels is needed
	room    *loan           // for one matrix
	scratch *loan
	sums    []uint32
}

func newPacking(s *Survey, f *find, o Options) (_ *packing, err error) {
	p := &packing{weights: f.weights, mats: inOrder(f), used: map[string]bool{}}
	p.reading = reading{Options: o, file: s.file, total: f.weights.sourceBytes()}
	most := 0
	for _, x := range p.mats {
		plain := x.Matrix
		plain.Layout = kernel.X16
		most = max(most, plain.Bytes(), x.Bytes())
		for _, t := range x.parts {
			p.used[t.Name] = true
		}
	}
	for _, x := range f.weights.mats { // tables stay as they are
		if x.rows {
			delete(p.used, x.parts[0].Name)
		}
	}
	// Vectors need memory: channel factors are computed from norms.
	if f.weights.small, err = o.Budget.Alloc("norms and biases", f.weights.smallBytes()); err == nil {
		err = f.weights.bindVectors()
	}
	if err == nil {
		p.room, err = o.borrow("panels of a matrix", uint64(most))
	}
	if err == nil {
		p.scratch, err = o.borrow("panels to check the weights", f.weights.checkBytes())
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.spare = p.scratch.Bytes()
	if err := p.fit(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// fit finds out which matrices fit into 12 bits, by packing them: sizes come before data in a file. So they are read twice.
func (p *packing) fit() error {
	var mats []*matrix
	bytes := func(x *matrix) (n uint64) {
		for _, t := range x.parts {
			n += uint64(len(t.Data))
		}
		return n
	}
	for _, x := range p.mats {
		if x.Layout == kernel.X12 {
			mats = append(mats, x)
			p.total += bytes(x)
		}
	}
	for _, x := range mats {
		x.Data = p.room.Bytes()[:x.Bytes():x.Bytes()]
		before := p.done
		err := p.reading.matrix(x)
		if errors.Is(err, kernel.ErrWide) {
			x.Layout, err = kernel.X16, nil
		}
		x.Data = nil
		if err != nil {
			return err
		}
		p.progress(before + bytes(x))
	}
	return nil
}

func (p *packing) close() {
	for _, l := range []*loan{p.room, p.scratch} {
		if l != nil {
			l.Close()
		}
	}
	p.weights.close()
}

// inOrder returns the matrices of products in order of use.
func inOrder(f *find) []*matrix {
	var list []*matrix
	seen := map[*matrix]bool{}
	add := func(m *matrix) {
		if m != nil && !m.rows && !seen[m] {
			seen[m] = true
			list = append(list, m)
		}
	}
	of := func(ops []kernel.Op) {
		for _, op := range ops {
			if mm, ok := op.(kernel.Matmul); ok {
				for _, part := range mm.Parts {
					add(f.weights.byName[part.Name])
				}
			}
		}
	}
	for _, ops := range slices.Concat([][]kernel.Op{f.program.Begin}, f.program.Encoder, f.program.Layers) {
		of(ops)
	}
	for _, o := range f.program.Outputs {
		of(o.Ops)
	}
	for _, m := range f.weights.mats {
		add(m)
	}
	return list
}

// describe writes the metadata.
func (p *packing) describe(w *gguf.Writer) {
	g := p.file.GGUF
	for _, kv := range g.KVs {
		if !isPackedKey(kv.Key) {
			w.Set(kv.Key, kv.Value)
		}
	}
	w.Set("general.alignment", uint32(pageBytes))
	w.Set(keyPacked, uint32(packedVersion))
	w.Set(keyPackedPanels, uint32(kernel.PanelsVersion))
	var names, matrices []string
	var types []uint32
	var dims []uint64
	for _, t := range g.Tensors {
		names, types = append(names, t.Name), append(types, uint32(t.Type))
		d := make([]uint64, gguf.MaxDims)
		copy(d, t.Dims)
		dims = append(dims, d...)
	}
	for _, x := range p.mats {
		matrices = append(matrices, x.Name)
	}
	w.Set(keyPackedNames, names)
	w.Set(keyPackedTypes, types)
	w.Set(keyPackedDims, dims)
	w.Set(keyPackedMatrices, matrices)
}

// matrix writes the panels of a matrix.
func (p *packing) matrix(to io.Writer, x *matrix) error {
	n := x.Bytes()
	x.Data = p.room.Bytes()[:n:n]
	if err := p.reading.matrix(x); err != nil {
		return err
	}
	for at := 0; at < n; at += n / x.N {
		p.sums = append(p.sums, stream.Sum(x.Data[at:at+n/x.N]))
	}
	_, err := to.Write(x.Data)
	return err
}

// rows writes a tensor unchanged. The values of tables are checked here, because loading does not check them.
func (p *packing) rows(to io.Writer, t *gguf.Tensor) error {
	for _, x := range p.weights.mats {
		if x.rows && x.parts[0].Name == t.Name && p.weights.readNow(x) {
			if err := p.reading.matrix(x); err != nil {
				return err
			}
		}
	}
	_, err := to.Write(t.Data)
	if damage := p.file.Damaged(); damage != nil {
		err = damage
	}
	return err
}

// Verify reads a packed file in full and returns an error that names the first matrix with a checksum
// mismatch.
func (f *File) Verify(progress func(done, total uint64)) error {
	if !f.Packed() {
		return errors.New("not a packed file: only these have checksums (see quern pack)")
	}
	done := uint64(0)
	names, err := f.packed.file.Strs(keyPackedMatrices)
	if err != nil {
		return err
	}
	for _, name := range names {
		t, _ := f.packed.file.Tensor(prefixPanels + name) // readSums has found it
		sums := f.packed.sums[name]
		each := len(t.Data) / len(sums)
		for i, sum := range sums {
			if stream.Sum(t.Data[i*each:(i+1)*each]) != sum {
				return fmt.Errorf("matrix %q: %w", name, stream.ErrSum)
			}
			f.Drop(t, i*each, each)
			done += uint64(each)
			progress(done, f.Size())
		}
	}
	return f.Damaged()
}
