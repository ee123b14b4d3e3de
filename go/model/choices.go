package model

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/quern-llm/quern/go/gguf"
)

// A choice is a tensor of integers.
type choice struct {
	t *gguf.Tensor
	v []int32 // nil until there is memory
}

// Choice implements nn.Weights.
func (w *weights) Choice(name string, n, rows, below int) ([]int32, error) {
	if c, ok := w.byChoice[name]; ok {
		return c.v, nil
	}
	t, err := w.tensor(name, []uint64{uint64(n), uint64(rows)})
	if err != nil {
		return nil, err
	}
	if t.Type != gguf.I32 && t.Type != gguf.I64 {
		return nil, fmt.Errorf("tensor %q: type %v, want I32 or I64", name, t.Type)
	}
	if err := w.file.need(context.Background(), t); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	c := &choice{t: t}
	for i := range n * rows {
		if t.Data == nil { // of a file that is not written yet
			break
		}
		if v := c.at(i); v < 0 || v >= int64(below) {
			return nil, fmt.Errorf("tensor %q: element %d is %d, want 0 to %d", name, i, v, below-1)
		}
	}
	w.choices = append(w.choices, c)
	w.byChoice[name] = c
	return nil, nil
}

// at returns integer i of the file.
func (c *choice) at(i int) int64 {
	if c.t.Type == gguf.I64 {
		return int64(binary.LittleEndian.Uint64(c.t.Data[8*i:]))
	}
	return int64(int32(binary.LittleEndian.Uint32(c.t.Data[4*i:])))
}

func choiceBytes(c *choice) uint64 { return (4*c.t.Elems() + 63) / 64 * 64 }

// fill copies the integers to v.
func (c *choice) fill(v []int32) {
	for i := range v {
		v[i] = int32(c.at(i)) // which was checked
	}
	c.v = v
}
