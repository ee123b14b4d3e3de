package gguf

import (
	"cmp"
	"fmt"
	"slices"
)

// The least bytes that an entry takes: a key of one character with its type
// and a one-byte value, and a tensor of no dimensions with such a name.
const (
	minKVBytes     = 8 + 1 + 4 + 1
	minTensorBytes = 8 + 1 + 4 + 4 + 8
)

// Parse reads a whole GGUF file. The tensors of the result are views into data.
// An error wraps ErrFormat.
func Parse(data []byte) (*File, error) { return ParseHead(data, len(data)) }

// ParseHead is Parse where only the first n bytes of data can be read yet. The error is ErrShort if more of them are
// needed. The tensors' data is not read.
func ParseHead(data []byte, n int) (*File, error) {
	f := &File{Alignment: defaultAlignment}
	d := &decoder{b: data[:n:n], size: len(data)}
	nTensors, nKVs, err := f.header(d)
	if err != nil {
		return nil, err
	}
	if err := f.readKVs(d, nKVs); err != nil {
		return nil, err
	}
	if err := f.readTensors(d, nTensors); err != nil {
		return nil, err
	}
	if err := f.place(data, uint64(d.off)); err != nil {
		return nil, err
	}
	return f, nil
}

// header reads the fixed part of the file, up to the first metadata entry.
func (f *File) header(d *decoder) (nTensors, nKVs uint64, err error) {
	switch m := string(d.next(uint64(len(magic)))); {
	case d.err != nil:
		return 0, 0, d.err
	case m == "FUGG":
		return 0, 0, errBigEndian
	case m != magic:
		return 0, 0, malformed("the file begins with %q, want %q", m, magic)
	}
	f.Version = d.u32()
	switch v := f.Version; {
	case d.err != nil:
		return 0, 0, d.err
	case v == 1:
		return 0, 0, malformed("version 1, supported are 2 and 3: convert the model again")
	case v&0xffff == 0 && v != 0:
		return 0, 0, errBigEndian
	case v != 2 && v != 3:
		return 0, 0, malformed("version %d, supported are 2 and 3", v)
	}
	nTensors, nKVs = d.u64(), d.u64()
	if d.err != nil {
		return 0, 0, d.err
	}
	if most := min(MaxTensors, d.left()/minTensorBytes); nTensors > most {
		return 0, 0, malformed("%d tensors, a file of %d bytes holds at most %d", nTensors, d.size, most)
	}
	if most := min(MaxKVs, d.left()/minKVBytes); nKVs > most {
		return 0, 0, malformed("%d metadata entries, a file of %d bytes holds at most %d", nKVs, d.size, most)
	}
	return nTensors, nKVs, nil
}

var errBigEndian = malformed("big-endian file, only little-endian is supported: convert it to little-endian")

// readKVs reads n metadata entries.
func (f *File) readKVs(d *decoder, n uint64) error {
	f.KVs = make([]KV, 0, n)
	f.keys = make(map[string]int, n)
	for i := range n {
		key := d.bytes()
		if d.err != nil {
			return fmt.Errorf("metadata entry %d of %d: %w", i, n, d.err)
		}
		kv := KV{Key: string(key[:min(len(key), MaxKeyBytes+1)])}
		if err := checkKey(kv.Key); err != nil {
			return fmt.Errorf("metadata entry %d of %d: %w", i, n, err)
		}
		if _, ok := f.keys[kv.Key]; ok {
			return fmt.Errorf("key %s: %w", quote(kv.Key), malformed("comes twice"))
		}
		kv.Value = d.value(kind(d.u32()))
		if d.err != nil {
			return fmt.Errorf("key %s: %w", quote(kv.Key), d.err)
		}
		f.keys[kv.Key] = len(f.KVs)
		f.KVs = append(f.KVs, kv)
	}
	if v, ok := f.Value(keyAlignment); ok {
		a, err := checkAlignment(v)
		if err != nil {
			return fmt.Errorf("key %q: %w", keyAlignment, err)
		}
		f.Alignment = a
	}
	return nil
}

// readTensors reads n entries of the directory. Offset is left relative to the
// data section, Data is left out.
func (f *File) readTensors(d *decoder, n uint64) error {
	f.Tensors = make([]Tensor, 0, n)
	f.names = make(map[string]int, n)
	for i := range n {
		name := d.bytes()
		if d.err != nil {
			return fmt.Errorf("tensor %d of %d: %w", i, n, d.err)
		}
		t := Tensor{Name: string(name[:min(len(name), MaxNameBytes+1)])}
		if err := checkName(t.Name); err != nil {
			return fmt.Errorf("tensor %d of %d: %w", i, n, err)
		}
		if _, ok := f.names[t.Name]; ok {
			return fmt.Errorf("tensor %s: %w", quote(t.Name), malformed("comes twice"))
		}
		t.Dims = d.dims()
		t.Type = Type(d.u32())
		t.Offset = d.u64()
		if d.err != nil {
			return fmt.Errorf("tensor %s: %w", quote(t.Name), d.err)
		}
		f.names[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}

// dims reads a tensor's shape.
func (d *decoder) dims() []uint64 {
	n := d.u32()
	switch {
	case n > MaxDims:
		d.fail("%d dimensions, the most is %d", n, MaxDims)
		return nil
	case n == 0: // a scalar; as one dimension it needs no special case in callers
		return []uint64{1}
	}
	dims := make([]uint64, n)
	for i := range dims {
		dims[i] = d.u64()
	}
	return dims
}

// place finds the tensors' data, in a section that begins at the first aligned
// byte from end, where the directory ends.
func (f *File) place(data []byte, end uint64) error {
	if len(f.Tensors) == 0 {
		return nil
	}
	f.DataOffset = alignUp(end, f.Alignment)
	section := max(uint64(len(data)), f.DataOffset) - f.DataOffset // its bytes
	for i := range f.Tensors {
		t := &f.Tensors[i]
		size, err := t.Type.Size(t.Dims)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quote(t.Name), err)
		}
		if t.Offset%f.Alignment != 0 {
			return fmt.Errorf("tensor %s: %w", quote(t.Name),
				malformed("offset %d is not a multiple of the alignment, %d", t.Offset, f.Alignment))
		}
		if t.Offset > section || size > section-t.Offset {
			return fmt.Errorf("tensor %s: %w", quote(t.Name),
				malformed("truncated: %d bytes wanted at %d of the tensor data, which is %d bytes",
					size, t.Offset, section))
		}
		t.Offset += f.DataOffset
		t.Data = data[t.Offset:][:size:size]
	}
	return f.checkOverlap()
}

// checkOverlap returns an error when two tensors share bytes. Gaps and any
// order are fine: a tensor may be left out by a tool that edits the directory.
func (f *File) checkOverlap() error {
	order := make([]*Tensor, len(f.Tensors))
	for i := range f.Tensors {
		order[i] = &f.Tensors[i]
	}
	slices.SortFunc(order, func(a, b *Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	for i, t := range order[1:] {
		if before := order[i]; before.Offset+uint64(len(before.Data)) > t.Offset {
			return fmt.Errorf("tensor %s: %w", quote(t.Name),
				malformed("its data overlaps that of %s", quote(before.Name)))
		}
	}
	return nil
}
