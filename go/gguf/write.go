package gguf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// A Writer writes a GGUF file: first say what is in it, then call WriteTo. It
// keeps the metadata and the directory; the tensors' data comes from functions
// that are called one at a time while writing, so a file may be larger than
// memory. The first error sticks and comes from WriteTo.
//
// What it writes follows ggml's stricter reading of the format: the tensors lie
// in the order of the directory with no more than padding between them, and the
// last is padded too. What Parse accepts can be written, and the reverse.
type Writer struct {
	kvs     []KV
	keys    map[string]int
	tensors []pending
	names   map[string]bool
	align   uint64
	err     error
}

// pending is a tensor to be written.
type pending struct {
	name string
	typ  Type
	dims []uint64
	size uint64
	data func(io.Writer) error
}

// NewWriter returns a Writer of an empty file.
func NewWriter() *Writer {
	return &Writer{keys: make(map[string]int), names: make(map[string]bool), align: defaultAlignment}
}

// Bytes returns the data function of a tensor whose bytes are in memory.
func Bytes(p []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(p)
		return err
	}
}

// Set sets key to a value of one of the types that KV lists; an int is not
// among them, since its width in the file would be a guess. Keys are written in
// the order in which they were first set. A slice must stay unchanged until
// WriteTo is done. Setting "general.alignment", a uint32, also sets the
// alignment of the tensors; it is 32 otherwise.
func (w *Writer) Set(key string, value any) {
	if err := checkKey(key); err != nil {
		w.fail(err)
		return
	}
	if key == keyAlignment {
		a, err := checkAlignment(value)
		if err != nil {
			w.fail(fmt.Errorf("key %q: %w", key, err))
			return
		}
		w.align = a
	}
	if i, ok := w.keys[key]; ok {
		w.kvs[i].Value = value
		return
	}
	if len(w.kvs) == MaxKVs {
		w.fail(malformed("more than %d metadata entries", MaxKVs))
		return
	}
	w.keys[key] = len(w.kvs)
	w.kvs = append(w.kvs, KV{key, value})
}

// AddTensor adds a tensor, whose data must write typ.Size(dims) bytes, neither
// more nor less, each time that WriteTo calls it.
func (w *Writer) AddTensor(name string, typ Type, dims []uint64, data func(io.Writer) error) {
	size, err := typ.Size(dims)
	if err == nil {
		err = checkName(name)
	}
	switch {
	case err != nil:
	case w.names[name]:
		err = malformed("comes twice")
	case len(w.tensors) == MaxTensors:
		err = malformed("more than %d tensors", MaxTensors)
	}
	if err != nil {
		w.fail(fmt.Errorf("tensor %s: %w", quote(name), err))
		return
	}
	w.names[name] = true
	w.tensors = append(w.tensors, pending{name, typ, append([]uint64(nil), dims...), size, data})
}

func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// WriteTo writes the file to out and returns the bytes written. Nothing is
// written when an earlier call, or a value, was wrong. Each write is passed on
// as it comes: give a bufio.Writer where the data functions make small ones.
func (w *Writer) WriteTo(out io.Writer) (int64, error) {
	head, err := w.head()
	if err != nil {
		return 0, err
	}
	n, err := out.Write(head)
	total := int64(n)
	if err != nil {
		return total, err
	}
	for _, t := range w.tensors {
		body := &exactWriter{out: out, left: t.size}
		err := cmp.Or(t.data(body), body.err)
		total += int64(t.size - body.left)
		switch {
		case err != nil:
			return total, fmt.Errorf("tensor %s: %w", quote(t.name), err)
		case body.left != 0:
			return total, fmt.Errorf("tensor %s: %d bytes written of %d", quote(t.name), t.size-body.left, t.size)
		}
		n, err := writeZeros(out, alignUp(t.size, w.align)-t.size)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// Size returns how many bytes WriteTo will write.
func (w *Writer) Size() (uint64, error) {
	head, err := w.head()
	if err != nil {
		return 0, err
	}
	n := uint64(len(head))
	for _, t := range w.tensors {
		n += alignUp(t.size, w.align)
	}
	return n, nil
}

// Outline returns what the file will say, without the data of its tensors, of which none is made. The values are those that
// were given.
func (w *Writer) Outline() (*File, error) {
	if _, err := w.head(); err != nil {
		return nil, err
	}
	f := &File{Version: version, Alignment: w.align, KVs: w.kvs, keys: w.keys, names: make(map[string]int, len(w.tensors))}
	for i, t := range w.tensors {
		f.Tensors = append(f.Tensors, Tensor{Name: t.name, Type: t.typ, Dims: t.dims})
		f.names[t.name] = i
	}
	return f, nil
}

// head returns the file up to the data section.
func (w *Writer) head() ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	b := []byte(magic)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(w.tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(w.kvs)))
	e := encoder{b: b}
	for _, kv := range w.kvs {
		e.str(kv.Key)
		if e.value(kv.Value); e.err != nil {
			return nil, fmt.Errorf("key %s: %w", quote(kv.Key), e.err)
		}
	}
	offset := uint64(0)
	for _, t := range w.tensors {
		e.str(t.name)
		e.u32(uint32(len(t.dims)))
		for _, d := range t.dims {
			e.u64(d)
		}
		e.u32(uint32(t.typ))
		e.u64(offset)
		if t.size > math.MaxInt64-offset-w.align {
			return nil, fmt.Errorf("tensor %s: %w", quote(t.name), malformed("the file would be too large"))
		}
		offset += alignUp(t.size, w.align)
	}
	if len(w.tensors) > 0 {
		pad := alignUp(uint64(len(e.b)), w.align) - uint64(len(e.b))
		e.b = append(e.b, make([]byte, pad)...)
	}
	return e.b, nil
}

var errTooMuch = errors.New("more bytes written than its type and shape take")

// An exactWriter passes on at most left bytes. It keeps its first error, for
// data functions that ignore it.
type exactWriter struct {
	out  io.Writer
	left uint64
	err  error
}

func (w *exactWriter) Write(p []byte) (int, error) {
	if w.err == nil && uint64(len(p)) > w.left {
		w.err = errTooMuch
	}
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.out.Write(p)
	w.left -= uint64(n)
	w.err = err
	return n, err
}

// writeZeros writes n zero bytes.
func writeZeros(out io.Writer, n uint64) (int64, error) {
	if n == 0 {
		return 0, nil
	}
	written, err := out.Write(make([]byte, n))
	return int64(written), err
}
