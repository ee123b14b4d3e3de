package model

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/mem"
)

// bound returns the weights of a file with these tensors, with memory for those that ask asks for.
func bound(t *testing.T, add func(w *gguf.Writer), ask func(w *weights) error) (*weights, error) {
	t.Helper()
	w := gguf.NewWriter()
	w.Set("general.architecture", "test")
	add(w)
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	got := newWeights(&File{GGUF: f}, "test", false)
	if err := ask(got); err != nil {
		return nil, err
	}
	budget := mem.NewBudget(1<<20, "test")
	if got.small, err = budget.Alloc("test", got.smallBytes()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(got.close)
	return got, got.bindVectors()
}

// The experts of tokens are read as they are, and one that there is not is an error.
func TestChoice(t *testing.T) {
	for _, tt := range []struct {
		typ  gguf.Type
		ids  []int32
		want string
	}{
		{gguf.I32, []int32{0, 7, 3, 3, 1, 2}, ""},
		{gguf.I32, []int32{0, 7, 3, 8, 1, 2}, "element 3 is 8, want 0 to 7"},
		{gguf.I32, []int32{0, -1, 3, 3, 1, 2}, "element 1 is -1"},
		{gguf.F32, []int32{0, 7, 3, 3, 1, 2}, "type F32, want I32"},
	} {
		var data bytes.Buffer
		if err := binary.Write(&data, binary.LittleEndian, tt.ids); err != nil {
			t.Fatal(err)
		}
		add := func(w *gguf.Writer) { w.AddTensor("x", tt.typ, []uint64{2, 3}, gguf.Bytes(data.Bytes())) }
		ask := func(w *weights) error { _, err := w.Choice("x", 2, 3, 8); return err }
		w, err := bound(t, add, ask)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.Choice("x", 2, 3, 8)
		if err != nil || len(got) != 6 || got[1] != 7 || got[5] != 2 {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// Vectors of several dimensions may be of any type: quantizers take them for matrices.
func TestQuantizedVector(t *testing.T) {
	const rows = 3
	data := make([]byte, 0, rows*34)
	for r := range rows {
		data = binary.LittleEndian.AppendUint16(data, 0x3c00) // a scale of 1
		for i := range 32 {
			data = append(data, byte(r*32+i))
		}
	}
	add := func(w *gguf.Writer) {
		w.AddTensor("x", gguf.Q8_0, []uint64{32, rows}, gguf.Bytes(data))
		w.AddTensor("y", gguf.Q8_0, []uint64{32}, gguf.Bytes(data[:34]))
	}
	w, err := bound(t, add, func(w *weights) error { _, err := w.Vector("x", 32, rows); return err })
	if err != nil {
		t.Fatal(err)
	}
	v, err := w.Vector("x", 32, rows)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range v[:32*rows] {
		if x != float32(i) {
			t.Fatalf("element %d is %v", i, x)
		}
	}
	if _, err := w.Vector("y", 32); err == nil || !strings.Contains(err.Error(), "type Q8_0, want F32, F16 or BF16") {
		t.Errorf("error %v", err)
	}
}
