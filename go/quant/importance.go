package quant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/mem"
)

// Importance has by a tensor's name how much each column of its matrices counts: the mean square of what it is multiplied
// by. Experts follow each other.
type Importance map[string][]float32

// A Matrix is an importance matrix, as read from its file.
type Matrix struct {
	Entries   map[string]*Entry
	Datasets  []string // files that it was computed on
	Chunks    int      // of them
	ChunkSize int      // tokens
}

// An Entry has the sums of squares of what the columns of a tensor's matrices were multiplied by.
type Entry struct {
	Sums   []float32 // [matrix][column]
	Counts []float32 // [matrix]: how many rows were added; one for all in files of the old format
}

const (
	imatrixType   = "imatrix" // general.type
	keyDatasets   = "imatrix.datasets"
	keyChunkCount = "imatrix.chunk_count"
	keyChunkSize  = "imatrix.chunk_size"
	sumsSuffix    = ".in_sum2"
	countsSuffix  = ".counts"
)

// ReadMatrix reads an importance matrix: a GGUF file as llama-imatrix writes it, or its older .dat format.
func ReadMatrix(path string) (*Matrix, error) {
	region, err := mem.Map(path)
	if err != nil {
		return nil, err
	}
	defer region.Close()
	b := region.Bytes()
	var m *Matrix
	if len(b) >= 4 && string(b[:4]) == "GGUF" {
		m, err = parseMatrix(b)
	} else {
		m, err = parseOldMatrix(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func parseMatrix(b []byte) (*Matrix, error) {
	f, err := gguf.Parse(b)
	if err != nil {
		return nil, err
	}
	if _, err := f.Uint(keyChunkCount); err != nil {
		return nil, fmt.Errorf("no importance matrix: %w", err)
	}
	chunks, _ := f.Uint(keyChunkCount)
	size, err := f.Uint(keyChunkSize)
	if err != nil {
		return nil, err
	}
	m := &Matrix{Entries: map[string]*Entry{}, Chunks: int(min(chunks, math.MaxInt32)), ChunkSize: int(min(size, math.MaxInt32))}
	m.Datasets, _ = f.Strs(keyDatasets)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		name, ok := strings.CutSuffix(t.Name, sumsSuffix)
		if !ok {
			continue
		}
		counts, ok := f.Tensor(name + countsSuffix)
		if !ok || t.Type != gguf.F32 || counts.Type != gguf.F32 || t.Elems()%counts.Elems() != 0 {
			return nil, fmt.Errorf("tensor %s has no counts that fit it, as floats", t.Name)
		}
		m.Entries[name] = &Entry{Sums: floats(t.Data), Counts: floats(counts.Data)}
	}
	if len(m.Entries) == 0 {
		return nil, errors.New("an importance matrix without entries")
	}
	return m, nil
}

func floats(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

var errOldMatrix = errors.New("neither a GGUF file nor an importance matrix of the old format")

// parseOldMatrix reads the format without a magic number: a number of entries, each a name, a number of calls and as many
// values; then the number of chunks and the name of the text.
func parseOldMatrix(b []byte) (*Matrix, error) {
	next := func() (int, bool) {
		if len(b) < 4 {
			return 0, false
		}
		n := int32(binary.LittleEndian.Uint32(b))
		b = b[4:]
		return int(n), n >= 0
	}
	n, ok := next()
	if !ok || n < 1 || n > gguf.MaxTensors {
		return nil, errOldMatrix
	}
	m := &Matrix{Entries: map[string]*Entry{}}
	for range n {
		length, ok := next()
		if !ok || length < 1 || length > gguf.MaxNameBytes || length > len(b) {
			return nil, errOldMatrix
		}
		name := string(b[:length])
		b = b[length:]
		calls, ok := next()
		values, ok2 := next()
		if !ok || !ok2 || values < 1 || values > len(b)/4 {
			return nil, errOldMatrix
		}
		m.Entries[name] = &Entry{Sums: floats(b[:4*values]), Counts: []float32{float32(calls)}}
		b = b[4*values:]
	}
	if chunks, ok := next(); ok {
		m.Chunks = chunks
		if length, ok := next(); ok && length > 0 && length <= len(b) {
			m.Datasets = []string{string(b[:length])}
		}
	}
	return m, nil
}

// Importance returns the mean squares. Matrices that were never used count all columns alike. Non-finite or negative
// values are an error.
func (m *Matrix) Importance() (Importance, error) {
	all := make(Importance, len(m.Entries))
	for name, e := range m.Entries {
		v := make([]float32, len(e.Sums))
		width := len(v) / len(e.Counts)
		for i, s := range e.Sums {
			v[i] = 1
			if c := e.Counts[i/width]; c > 0 {
				v[i] = s / c
			}
			if !(v[i] >= 0) || math.IsInf(float64(v[i]), 0) {
				return nil, fmt.Errorf("the importance matrix has %v for column %d of %s, want 0 or more", v[i], i, name)
			}
		}
		all[name] = v
	}
	return all, nil
}

// Without removes the entries whose names have one of these parts; Only leaves no others.
func (i Importance) Without(parts []string) {
	for name := range i {
		if hasPart(name, parts) {
			delete(i, name)
		}
	}
}

// Only removes the entries whose names have none of these parts.
func (i Importance) Only(parts []string) {
	for name := range i {
		if !hasPart(name, parts) {
			delete(i, name)
		}
	}
}

func hasPart(name string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(name, p) {
			return true
		}
	}
	return false
}

// of returns the importance for a tensor, nil if it has none, and an error if it belongs to other matrices.
func (i Importance) of(t *gguf.Tensor) ([]float32, error) {
	v, ok := i[t.Name]
	if !ok {
		return nil, nil
	}
	want := t.Dims[0]
	if len(t.Dims) > 2 {
		want *= t.Dims[2]
	}
	switch {
	case uint64(len(v)) == want:
		return v, nil
	case roleOf(t.Name) == embed:
		return nil, nil // a table that is looked up was multiplied by nothing
	}
	return nil, fmt.Errorf("the importance matrix has %d columns, the tensor %d: was it computed for another model?", len(v), want)
}

// WriteTo writes the matrix as llama-imatrix does.
func (m *Matrix) WriteTo(out io.Writer) (int64, error) {
	w := gguf.NewWriter()
	w.Set("general.type", imatrixType)
	w.Set(keyDatasets, m.Datasets)
	w.Set(keyChunkCount, uint32(m.Chunks))
	w.Set(keyChunkSize, uint32(m.ChunkSize))
	for _, name := range slices.Sorted(maps.Keys(m.Entries)) {
		e := m.Entries[name]
		n := uint64(len(e.Counts))
		w.AddTensor(name+sumsSuffix, gguf.F32, []uint64{uint64(len(e.Sums)) / n, n}, gguf.Bytes(bytesOf(e.Sums)))
		w.AddTensor(name+countsSuffix, gguf.F32, []uint64{1, n}, gguf.Bytes(bytesOf(e.Counts)))
	}
	return w.WriteTo(out)
}

func bytesOf(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}
