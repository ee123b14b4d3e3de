package model

import (
	"encoding/binary"
	"fmt"

	"github.com/quern-llm/quern/go/gguf"
)

// A choice is the integers of a tensor.
type choice struct {
	t *gguf.Tensor
	v []int32 // nil until there is memory
}

// Choice implements arch.Weights.
func (w *weights) Choice(name string, n, rows, below int) ([]int32, error) {
	if c, ok := w.byChoice[name]; ok {
		return c.v, nil
	}
	t, err := w.tensor(name, []uint64{uint64(n), uint64(rows)})
	if err != nil {
		return nil, err
	}
	if t.Type != gguf.I32 {
		return nil, fmt.Errorf("tensor %q: type %v, want I32", name, t.Type)
	}
	for i := range n * rows {
		if v := int32(binary.LittleEndian.Uint32(t.Data[4*i:])); v < 0 || int(v) >= below {
			return nil, fmt.Errorf("tensor %q: element %d is %d, want 0 to %d", name, i, v, below-1)
		}
	}
	c := &choice{t: t}
	w.choices = append(w.choices, c)
	w.byChoice[name] = c
	return nil, nil
}

func choiceBytes(c *choice) uint64 { return (uint64(len(c.t.Data)) + 63) / 64 * 64 }

// fill copies the integers, which are where they can be read as such.
func (c *choice) fill(v []int32) {
	for i := range v {
		v[i] = int32(binary.LittleEndian.Uint32(c.t.Data[4*i:]))
	}
	c.v = v
}
