package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// The first bytes of a file are its head if they have all of it; before that more are asked for, and memory is allocated only for
// what is there.
func TestParseHead(t *testing.T) {
	w := NewWriter()
	w.Set("general.architecture", "llama")
	w.Set("words", []string{"one", "two", "three"})
	w.Set("numbers", []int32{1, 2, 3})
	w.Set("bits", []bool{true, false})
	w.AddTensor("t", F32, []uint64{64}, Bytes(make([]byte, 256)))
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	whole, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	end := int(whole.DataOffset)
	short := 0
	for n := range len(data) {
		f, err := ParseHead(data, n)
		switch {
		case errors.Is(err, ErrShort):
			if short++; n >= end {
				t.Fatalf("%d bytes of a head of %d are too few", n, end)
			}
		case err != nil:
			t.Fatalf("%d bytes: %v", n, err)
		case len(f.KVs) != len(whole.KVs) || len(f.Tensors) != 1 || &f.Tensors[0].Data[0] != &data[end]:
			t.Fatalf("%d bytes give another head", n)
		}
	}
	if short < end-32 {
		t.Errorf("%d of %d lengths are too short", short, end)
	}
	// An array as long as a large file, of which there is only the beginning.
	huge := make([]byte, 1<<26)
	n := copy(huge, "GGUF\x03\x00\x00\x00")
	binary.LittleEndian.PutUint64(huge[n+8:], 1)
	n += 16
	binary.LittleEndian.PutUint64(huge[n:], 1)
	huge[n+8] = 'k'
	n += 9
	binary.LittleEndian.PutUint32(huge[n:], uint32(kindArray))
	binary.LittleEndian.PutUint32(huge[n+4:], uint32(kindUint8))
	binary.LittleEndian.PutUint64(huge[n+8:], 1<<25)
	got := testing.AllocsPerRun(1, func() {
		if _, err := ParseHead(huge, 4096); !errors.Is(err, ErrShort) {
			t.Errorf("a long array: %v", err)
		}
	})
	if got > 20 {
		t.Errorf("%v allocations", got)
	}
}
