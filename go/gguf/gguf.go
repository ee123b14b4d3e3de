// Package gguf reads and writes GGUF, the single-file format of quantized
// models: metadata as typed key-value pairs, a directory of tensors, and their
// data. It takes bytes and gives views into them; opening, mapping and
// unmapping files is the caller's.
//
// The reader does not trust its input. Every count and length is checked against the
// remaining bytes before anything is allocated, so a parse costs at most a small
// multiple of the metadata's size whatever the file claims, and every tensor
// it returns lies inside the data, aligned, whole, and apart from the others.
// Versions 2 and 3, little-endian, are read; version 3 is written.
//
// Decoded metadata is copied out of the bytes. Tensor.Data is not: it is valid
// for as long as the bytes given to Parse are.
package gguf

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrFormat reports bytes that are not a GGUF file this package accepts.
var ErrFormat = errors.New("malformed GGUF")

// ErrMissing reports a metadata key that the file does not have.
var ErrMissing = errors.New("missing from the metadata")

// ErrShort reports that the head of a file is longer than what was given of it: see ParseHead.
var ErrShort = errors.New("the head of the file goes on")

// Limits on the contents of a file. Real models stay far below: the largest known has
// about 50 000 tensors and a hundred keys.
const (
	MaxDims      = 4       // dimensions of a tensor, as in ggml
	MaxKVs       = 1 << 16 // metadata entries
	MaxTensors   = 1 << 18 // tensors in a file, or in all shards together
	MaxKeyBytes  = 1<<16 - 1
	MaxNameBytes = 1024 // ggml itself stops at 63, builds of it for images go beyond
	MaxDepth     = 4    // arrays within arrays
	MaxArrays    = 1 << 20
)

const (
	magic            = "GGUF"
	version          = 3 // the version written, and the newest read
	defaultAlignment = 32
	minAlignment     = 8
	maxAlignment     = 1 << 21 // a huge page; bounds what padding costs

	keyAlignment = "general.alignment"
)

// A Tensor is one entry of the directory, with its data.
type Tensor struct {
	Name string
	Type Type
	// Dims are the sizes in ggml's order: Dims[0] is contiguous, so a weight
	// of 32 rows of 256 has Dims {256, 32}. There are 1 to MaxDims of them; a
	// scalar in the file becomes {1}.
	Dims []uint64
	// Data are the tensor's bytes, a view into what Parse was given. Its
	// length is Type.Size(Dims).
	Data []byte
	// Offset is where Data begins, in bytes from the start of its file.
	Offset uint64
	// Shard is the index of that file among those given to Merge, else 0.
	Shard int
}

// Elems returns the number of elements.
func (t *Tensor) Elems() uint64 {
	n := uint64(1)
	for _, d := range t.Dims {
		n *= d // Parse has checked that it does not overflow
	}
	return n
}

// A KV is one metadata entry. Value is a bool, string, uint8, int8, uint16,
// int16, uint32, int32, uint64, int64, float32 or float64, a slice of one of
// these, or, for an array of arrays, an []any of slices.
type KV struct {
	Key   string
	Value any
}

// A File is a parsed GGUF file, or several merged. Get one from Parse or
// Merge; it is safe for concurrent readers.
type File struct {
	Version    uint32
	Alignment  uint64 // of tensor data, from the start of the data section
	DataOffset uint64 // where the data section begins; 0 when there are no tensors
	KVs        []KV   // in the file's order
	Tensors    []Tensor

	keys  map[string]int // key to index in KVs
	names map[string]int // tensor name to index in Tensors
}

// Value returns the value of key, and whether the file has it.
func (f *File) Value(key string) (any, bool) {
	i, ok := f.keys[key]
	if !ok {
		return nil, false
	}
	return f.KVs[i].Value, true
}

// Set puts a value in place of what the file has for key, or beside it: for those who give other metadata than
// the file's, before anything else uses it. What the directory of tensors depends on cannot be set.
func (f *File) Set(key string, value any) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if key == keyAlignment || key == "general.architecture" || strings.HasPrefix(key, "split.") {
		return fmt.Errorf("key %s: the tensors depend on it, so no other value can be given", quote(key))
	}
	f.KVs = slices.Clone(f.KVs)
	if i, ok := f.keys[key]; ok {
		f.KVs[i].Value = value
		return nil
	}
	f.keys[key] = len(f.KVs)
	f.KVs = append(f.KVs, KV{key, value})
	return nil
}

// Tensor returns the tensor called name, and whether the file has it.
func (f *File) Tensor(name string) (*Tensor, bool) {
	i, ok := f.names[name]
	if !ok {
		return nil, false
	}
	return &f.Tensors[i], true
}

// malformed returns an error that wraps ErrFormat and says what is wrong.
func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// quote quotes a string from a file for an error, which stays one short line
// whatever the string holds.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// checkKey returns an error for an invalid metadata key.
func checkKey(key string) error {
	switch {
	case key == "":
		return malformed("empty key")
	case len(key) > MaxKeyBytes:
		return malformed("key %s of %d bytes, the most is %d", quote(key), len(key), MaxKeyBytes)
	}
	return nil
}

// checkName returns an error for an invalid tensor name.
func checkName(name string) error {
	switch {
	case name == "":
		return malformed("empty name")
	case len(name) > MaxNameBytes:
		return malformed("name %s of %d bytes, the most is %d", quote(name), len(name), MaxNameBytes)
	}
	return nil
}

// checkAlignment returns the alignment that the value of general.alignment
// sets, or an error. Below 8 bytes, tensors of 8-byte elements would come to
// lie across their natural alignment.
func checkAlignment(v any) (uint64, error) {
	a, ok := v.(uint32)
	if !ok {
		return 0, malformed("%s, want uint32", typeName(v))
	}
	if a < minAlignment || a > maxAlignment || a&(a-1) != 0 {
		return 0, malformed("%d, want a power of two from %d to %d", a, minAlignment, maxAlignment)
	}
	return uint64(a), nil
}

// alignUp rounds n up to a multiple of align, a power of two. The caller knows
// that n + align does not overflow.
func alignUp(n, align uint64) uint64 {
	return (n + align - 1) &^ (align - 1)
}
