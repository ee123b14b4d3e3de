// Package safetensors reads checkpoints in the safetensors format, whole or in shards with an index. Only headers are
// kept; the tensors' bytes are read where they are asked for, so a checkpoint may be larger than memory.
//
// The reader does not trust its input: every length is checked before anything is allocated, every tensor lies inside its
// file and apart from the others, and an index names files of its own folder.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrFormat reports bytes that are not a safetensors file.
var ErrFormat = errors.New("malformed safetensors")

const (
	maxHeader  = 100_000_000 // bytes, as in the reference implementation
	maxDims    = 8
	maxTensors = 1 << 20
)

// A DType says how the elements of a tensor are stored, by the format's name.
type DType string

// The types whose elements can be read as numbers.
const (
	F64    DType = "F64"
	F32    DType = "F32"
	F16    DType = "F16"
	BF16   DType = "BF16"
	F8E4M3 DType = "F8_E4M3"
	F8E5M2 DType = "F8_E5M2"
	F8E8M0 DType = "F8_E8M0"
	I64    DType = "I64"
	I32    DType = "I32"
	I16    DType = "I16"
	I8     DType = "I8"
	U8     DType = "U8"
)

// sizes has the bytes of an element of each type that a file may have.
var sizes = map[DType]uint64{
	F64: 8, F32: 4, F16: 2, BF16: 2, F8E4M3: 1, F8E5M2: 1, F8E8M0: 1, I64: 8, I32: 4, I16: 2, I8: 1, U8: 1,
	"U64": 8, "U32": 4, "U16": 2, "BOOL": 1, "C64": 8,
}

// Size returns the bytes of an element, 0 of an unknown type.
func (d DType) Size() uint64 { return sizes[d] }

// A Tensor is an entry of a header.
type Tensor struct {
	Name  string
	DType DType
	Shape []uint64 // the last dimension is contiguous; empty for a scalar
	size  uint64   // bytes
	at    int64    // in the file
	from  io.ReaderAt
	file  string
}

// Elems returns the number of elements.
func (t *Tensor) Elems() uint64 { return t.size / sizes[t.DType] }

// Equal reports whether two tensors have the same type, shape and bytes.
func (t *Tensor) Equal(o *Tensor) bool {
	if t.DType != o.DType || !slices.Equal(t.Shape, o.Shape) {
		return false
	}
	a, b := make([]byte, 1<<20), make([]byte, 1<<20)
	for at := uint64(0); at < t.size; at += uint64(len(a)) {
		n := min(t.size-at, uint64(len(a)))
		if _, err := t.ReadAt(a[:n], int64(at)); err != nil {
			return false
		}
		if _, err := o.ReadAt(b[:n], int64(at)); err != nil || !bytes.Equal(a[:n], b[:n]) {
			return false
		}
	}
	return true
}

// ReadAt reads the tensor's bytes from offset off, as an io.ReaderAt does.
func (t *Tensor) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || uint64(off) > t.size || uint64(len(p)) > t.size-uint64(off) {
		return 0, fmt.Errorf("%s: tensor %s: bytes %d to %d of %d", t.file, quote(t.Name), off, off+int64(len(p)), t.size)
	}
	n, err := t.from.ReadAt(p, t.at+off)
	if n == len(p) {
		return n, nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, fmt.Errorf("%s: tensor %s: %w", t.file, quote(t.Name), err)
}

// A header is what is read of a file.
type header struct {
	tensors []*Tensor // in the order of their bytes
	meta    map[string]string
}

// readHeader reads the header of a file of size bytes. Errors wrap ErrFormat or are of reading, and do not name the file.
func readHeader(r io.ReaderAt, size int64, file string) (*header, error) {
	var prefix [8]byte
	if size < int64(len(prefix)) {
		return nil, malformed("%d bytes, want a header and its length", size)
	}
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > maxHeader || n > uint64(size)-8 {
		return nil, malformed("a header of %d bytes in a file of %d, the most is %d", n, size, maxHeader)
	}
	text := make([]byte, n)
	if _, err := r.ReadAt(text, 8); err != nil {
		return nil, err
	}
	var entries map[string]jsontext.Value
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, malformed("the header is not a JSON object of tensors: %v", oneLine(err))
	}
	if len(entries) > maxTensors {
		return nil, malformed("%d tensors, the most is %d", len(entries), maxTensors)
	}
	h := &header{}
	data := uint64(size) - 8 - n
	for name, value := range entries {
		if name == "__metadata__" {
			if err := json.Unmarshal(value, &h.meta); err != nil {
				return nil, malformed("__metadata__ is not an object of strings")
			}
			continue
		}
		t := &Tensor{Name: name, from: r, file: file}
		begin, err := t.read(value, data)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote(name), err)
		}
		t.at = int64(8 + n + begin)
		h.tensors = append(h.tensors, t)
	}
	slices.SortFunc(h.tensors, func(a, b *Tensor) int {
		if a.at != b.at {
			return int(min(max(a.at-b.at, -1), 1))
		}
		return int(min(max(int64(a.size)-int64(b.size), -1), 1)) // one of no bytes first
	})
	for i, t := range h.tensors[min(1, len(h.tensors)):] {
		if before := h.tensors[i]; before.at+int64(before.size) > t.at {
			return nil, malformed("tensors %s and %s overlap", quote(before.Name), quote(t.Name))
		}
	}
	return h, nil
}

// read reads an entry, and returns where its bytes begin among the data bytes of the file.
func (t *Tensor) read(value jsontext.Value, data uint64) (begin uint64, err error) {
	var entry struct {
		DType   DType    `json:"dtype"`
		Shape   []uint64 `json:"shape"`
		Offsets []uint64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(value, &entry); err != nil {
		return 0, malformed("%v", oneLine(err))
	}
	each, ok := sizes[entry.DType]
	switch {
	case !ok:
		return 0, malformed("the type %s is unknown", quote(string(entry.DType)))
	case len(entry.Shape) > maxDims:
		return 0, malformed("%d dimensions, the most is %d", len(entry.Shape), maxDims)
	case len(entry.Offsets) != 2 || entry.Offsets[0] > entry.Offsets[1] || entry.Offsets[1] > data:
		return 0, malformed("data_offsets %v, want where it begins and ends among %d bytes", entry.Offsets, data)
	}
	want := each
	for _, d := range entry.Shape {
		hi, lo := bits.Mul64(want, d)
		if hi != 0 {
			return 0, malformed("the shape %v has too many elements", entry.Shape)
		}
		want = lo
	}
	t.DType, t.Shape, t.size = entry.DType, entry.Shape, entry.Offsets[1]-entry.Offsets[0]
	if t.size != want {
		return 0, malformed("%d bytes, %s of the shape %v takes %d", t.size, t.DType, t.Shape, want)
	}
	return entry.Offsets[0], nil
}

// openFile opens a file of a checkpoint.
func openFile(path string) (*os.File, *header, error) {
	info, err := os.Stat(path) // follows links: caches are made of them
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is no file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	h, err := readHeader(f, info.Size(), path)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, h, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// quote quotes a string from a file for an error of one line.
func quote(s string) string {
	const most = 120
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// oneLine returns what an error says as a line without control characters.
func oneLine(err error) string {
	s := strconv.Quote(err.Error())
	return s[1 : len(s)-1]
}
