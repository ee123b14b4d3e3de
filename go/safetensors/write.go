package safetensors

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Writer makes a file of tensors, which keep their order. The zero value is empty.
type Writer struct {
	meta    map[string]string
	tensors []toWrite
}

// toWrite is a tensor of a Writer.
type toWrite struct {
	name  string
	shape []uint64
	x     []float32
}

// Set adds a text to the header.
func (w *Writer) Set(key, text string) {
	if w.meta == nil {
		w.meta = map[string]string{}
	}
	w.meta[key] = text
}

// AddFloats adds a tensor of as many numbers as its shape has. They must stay as they are until the file is written.
func (w *Writer) AddFloats(name string, shape []uint64, x []float32) {
	w.tensors = append(w.tensors, toWrite{name, shape, x})
}

// Size returns the bytes of the tensors, without the header.
func (w *Writer) Size() (n uint64) {
	for _, t := range w.tensors {
		n += 4 * uint64(len(t.x))
	}
	return n
}

// WriteTo writes the file.
func (w *Writer) WriteTo(out io.Writer) (int64, error) {
	head, err := w.header()
	if err != nil {
		return 0, err
	}
	b := bufio.NewWriterSize(out, 1<<16)
	n := int64(8 + len(head))
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], uint64(len(head)))
	_, _ = b.Write(word[:]) // its errors stay until Flush
	_, _ = b.Write(head)
	for _, t := range w.tensors {
		for _, v := range t.x {
			binary.LittleEndian.PutUint32(word[:4], math.Float32bits(v))
			if _, err := b.Write(word[:4]); err != nil {
				return n, err
			}
		}
		n += 4 * int64(len(t.x))
	}
	return n, b.Flush()
}

// header returns the JSON, padded with spaces so that data begins at a multiple of 8.
func (w *Writer) header() ([]byte, error) {
	type entry struct {
		DType   DType     `json:"dtype"`
		Shape   []uint64  `json:"shape"`
		Offsets [2]uint64 `json:"data_offsets"`
	}
	var s strings.Builder
	enc := jsontext.NewEncoder(&s)
	var failed error
	put := func(v any) {
		if failed == nil {
			failed = json.MarshalEncode(enc, v, json.Deterministic(true))
		}
	}
	token := func(t jsontext.Token) {
		if failed == nil {
			failed = enc.WriteToken(t)
		}
	}
	token(jsontext.BeginObject)
	if len(w.meta) > 0 {
		put("__metadata__")
		put(maps.Clone(w.meta))
	}
	at := uint64(0)
	for _, t := range w.tensors {
		n, size := uint64(1), 4*uint64(len(t.x))
		for _, d := range t.shape {
			n *= d
		}
		if n != uint64(len(t.x)) {
			return nil, fmt.Errorf("tensor %s: %d numbers, the shape %v has %d", quote(t.name), len(t.x), t.shape, n)
		}
		put(t.name)
		put(entry{F32, slices.Clone(t.shape), [2]uint64{at, at + size}})
		at += size
	}
	token(jsontext.EndObject)
	if failed != nil {
		return nil, failed
	}
	head := []byte(strings.TrimSuffix(s.String(), "\n"))
	for len(head)%8 != 0 {
		head = append(head, ' ')
	}
	return head, nil
}
