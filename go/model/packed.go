package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

// A packed file is a GGUF file whose matrices are panels, as the kernels read them, in the order in which they are
// used and on pages of their own; those of BF16 are in 12 bits or in 16, which their size tells. Beside the metadata of the model it has
//
//	quern.packed.version   uint32: of all of this
//	quern.packed.panels    uint32: kernel.PanelsVersion
//	quern.packed.names     the tensors of the model that it was made of: their names,
//	quern.packed.types     types
//	quern.packed.dims      and shapes, each of gguf.MaxDims dimensions, 0 for those that there are not
//	quern.packed.matrices  the names of the matrices
//
// and, for each matrix, a tensor of type PANELS, whose name is "panels:" and the matrix's. Those of which the squares
// are needed (see nn.Weights) have them in a tensor of F64. "sums:" has the CRC-32C of each matrix, or of
// each expert's, one after the other. All other tensors are as they were.
const (
	keyPacked         = "quern.packed.version"
	keyPackedPanels   = "quern.packed.panels"
	keyPackedNames    = "quern.packed.names"
	keyPackedTypes    = "quern.packed.types"
	keyPackedDims     = "quern.packed.dims"
	keyPackedMatrices = "quern.packed.matrices"

	packedVersion = 1

	prefixPanels  = "panels:"
	prefixSquares = "squares:"
	tensorSums    = "sums:"
)

// packedFile is the data of a packed file that replaces rows.
type packedFile struct {
	file *gguf.File
	sums map[string][]uint32 // by matrix, with those after it
}

// Packed reports whether the file's matrices are panels: see Pack.
func (f *File) Packed() bool { return f.packed != nil }

// Digests returns the checksums and squares of a packed file, which depend on all values of its matrices;
// none for a plain file.
func (f *File) Digests() (all [][]byte) {
	if !f.Packed() {
		return nil
	}
	for _, t := range f.packed.file.Tensors {
		if isDigest(t.Name) {
			all = append(all, t.Data)
		}
	}
	return all
}

// isDigest reports whether a tensor of a packed file is checksums or squares.
func isDigest(name string) bool { return name == tensorSums || strings.HasPrefix(name, prefixSquares) }

// unpack restores in f the tensors of the original model; it does nothing for a plain file.
func (f *File) unpack() error {
	g := f.GGUF
	if _, ok := g.Value(keyPacked); !ok {
		return nil
	}
	version, err := g.Uint(keyPacked)
	if err != nil {
		return err
	}
	panels, err := g.Uint(keyPackedPanels)
	if err != nil {
		return err
	}
	if version != packedVersion || panels != kernel.PanelsVersion {
		return fmt.Errorf("a packed file of version %d.%d, this program reads %d.%d: pack the model again (quern pack)",
			version, panels, packedVersion, kernel.PanelsVersion)
	}
	tensors, err := packedTensors(g)
	if err != nil {
		return err
	}
	if f.GGUF, err = g.With(tensors); err != nil {
		return err
	}
	f.packed = &packedFile{file: g}
	return f.packed.readSums()
}

// packedTensors returns the tensors of the original model, with data for those stored unchanged.
func packedTensors(g *gguf.File) ([]gguf.Tensor, error) {
	names, err := g.Strs(keyPackedNames)
	if err != nil {
		return nil, err
	}
	types, err := g.Ints(keyPackedTypes)
	if err != nil {
		return nil, err
	}
	dims, err := g.Ints(keyPackedDims)
	if err != nil {
		return nil, err
	}
	if len(types) != len(names) || len(dims) != len(names)*gguf.MaxDims {
		return nil, fmt.Errorf("key %q: %d types and %d dimensions of %d tensors", keyPackedNames, len(types), len(dims), len(names))
	}
	tensors := make([]gguf.Tensor, len(names))
	for i, name := range names {
		t := gguf.Tensor{Name: name, Type: gguf.Type(min(max(types[i], 0), math.MaxUint32))}
		for _, d := range dims[i*gguf.MaxDims:][:gguf.MaxDims] {
			if d > 0 {
				t.Dims = append(t.Dims, uint64(d))
			}
		}
		if own, ok := g.Tensor(name); ok {
			if own.Type != t.Type || fmt.Sprint(own.Dims) != fmt.Sprint(t.Dims) {
				return nil, fmt.Errorf("tensor %q: %v %v, key %q says %v %v", name, own.Type, own.Dims, keyPackedNames, t.Type, t.Dims)
			}
			t = *own
		}
		tensors[i] = t
	}
	return tensors, nil
}

func (p *packedFile) readSums() error {
	names, err := p.file.Strs(keyPackedMatrices)
	if err != nil {
		return err
	}
	t, ok := p.file.Tensor(tensorSums)
	if !ok || t.Type != gguf.I32 {
		return fmt.Errorf("tensor %q is missing, or not of I32", tensorSums)
	}
	all := make([]uint32, len(t.Data)/4)
	if _, err := binary.Decode(t.Data, binary.LittleEndian, all); err != nil {
		return err
	}
	p.sums = map[string][]uint32{}
	for _, name := range names {
		m, ok := p.file.Tensor(prefixPanels + name)
		n := 1
		if ok && m.Type == gguf.Panels && len(m.Dims) == 2 {
			n = int(min(m.Dims[1], uint64(len(m.Data)))) // bytes of one, and how many
		}
		if !ok || m.Type != gguf.Panels || n > len(all) {
			return fmt.Errorf("matrix %q is missing, or its checksums", name)
		}
		p.sums[name], all = all[:n:n], all[n:]
	}
	return nil
}

// keepPanels gives a matrix of a packed file its panels.
func (w *weights) keepPanels(key string, m *matrix) {
	m.Layout = kernel.X16
	t, ok := w.packed.file.Tensor(prefixPanels + key)
	if ok && len(t.Data) != m.Bytes() && m.Twelve() {
		m.Layout = kernel.X12
	}
	if !ok || t.Type != gguf.Panels || len(t.Data) != m.Bytes() || len(w.packed.sums[key]) != m.N {
		w.lacks = key
		return
	}
	m.panels, m.sums = t, w.packed.sums[key]
	switch {
	case w.stream[key]:
		m.streamed = true
	case !w.pack:
		m.inFile, m.Data = true, t.Data
	}
}

// squares returns the squares of a matrix of so many rows.
func (p *packedFile) squares(name string, rows int) ([]float64, error) {
	t, ok := p.file.Tensor(prefixSquares + name)
	if !ok || t.Type != gguf.F64 || len(t.Data) != 8*rows {
		return nil, fmt.Errorf("the packed file has no squares of %q; pack the model again", name)
	}
	s := make([]float64, rows)
	_, err := binary.Decode(t.Data, binary.LittleEndian, s)
	return s, err
}

// isPackedKey reports whether a metadata key belongs to the packed format and not to the model.
func isPackedKey(key string) bool { return strings.HasPrefix(key, "quern.packed.") }
