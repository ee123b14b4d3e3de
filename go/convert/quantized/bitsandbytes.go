package quantized

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/safetensors"
)

// maxState is the most bytes of a matrix's state, which is a JSON object of a few settings.
const maxState = 1 << 16

// A state says how bitsandbytes quantized a matrix of 4 bits.
type state struct {
	Type   string   `json:"quant_type"`
	Size   uint64   `json:"blocksize"`
	Shape  []uint64 `json:"shape"`
	Nested uint64   `json:"nested_blocksize"` // 0: scales are floats
	Offset float32  `json:"nested_offset"`
}

// bitsandbytes reads matrices of 4 bits, which have a state, and those of 8 bits, which have the largest number of each row in
// SCB (LLM.int8).
func (r *reader) bitsandbytes() error {
	for _, kind := range []string{"nf4", "fp4"} {
		err := r.each(".weight.quant_state.bitsandbytes__"+kind, func(base string) error { return r.tables(base, kind) })
		if err != nil {
			return err
		}
	}
	if err := r.each(".SCB", r.rowwise); err != nil {
		return err
	}
	return r.alone(".weight_format", ".SCB")
}

// tables reads a matrix of 4 bits: numbers of a table, times the scale of their block. Blocks do not end with rows. Scales may
// have 8 bits themselves: numbers of a table, times the scale of their block of scales, plus an offset.
func (r *reader) tables(base, kind string) error {
	name := base + ".weight"
	s, err := r.state(name, ".quant_state.bitsandbytes__"+kind)
	if err != nil {
		return err
	}
	rows, cols := s.Shape[0], s.Shape[1]
	q := r.part(name, "")
	if q == nil {
		return fmt.Errorf("tensor %q is missing", name)
	}
	n := rows * cols
	if bytes := q.Elems() * q.DType.Size(); bytes != (n+1)/2 {
		return fmt.Errorf("tensor %q has %d bytes, want those of %d numbers of 4 bits", name, bytes, n)
	}
	var table [16]float32
	codes, err := r.want(name, ".quant_map", floats, 16)
	if err == nil {
		err = codes.Floats(table[:], 0)
	}
	if err != nil {
		return err
	}
	scales, err := r.scalesOf(name, s, upTo(n, s.Size))
	if err != nil {
		return err
	}
	r.views[name] = lang.View{Shape: []uint64{rows, cols}, Read: coded(q, table, true, s.Size, scales)}
	return nil
}

// state reads the state of a matrix.
func (r *reader) state(name, suffix string) (*state, error) {
	t, err := r.want(name, suffix, bytes)
	if err != nil {
		return nil, err
	}
	if t.Elems() > maxState {
		return nil, fmt.Errorf("tensor %q has %d bytes, the most is %d", t.Name, t.Elems(), maxState)
	}
	text := make([]byte, t.Elems())
	if _, err := t.ReadAt(text, 0); err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("tensor %q: %q", t.Name, err.Error())
	}
	const most = 1 << 31
	switch {
	case !strings.HasSuffix(suffix, s.Type):
		return nil, fmt.Errorf("tensor %q says the type %.40q", t.Name, s.Type)
	case s.Size == 0 || s.Size > most || s.Nested > most:
		return nil, fmt.Errorf("tensor %q has blocks of %d and of %d, want a size", t.Name, s.Size, s.Nested)
	case len(s.Shape) != 2 || s.Shape[0]-1 >= most || s.Shape[1]-1 >= most:
		return nil, fmt.Errorf("tensor %q has the shape %v, want two dimensions", t.Name, s.Shape)
	}
	return &s, nil
}

// scalesOf returns the reader of n scales.
func (r *reader) scalesOf(name string, s *state, n uint64) (func(dst []float32, at uint64) error, error) {
	if s.Nested == 0 {
		scales, err := r.want(name, ".absmax", floats, n)
		if err != nil {
			return nil, err
		}
		return scales.Floats, nil
	}
	scales, err := r.want(name, ".absmax", bytes, n)
	if err != nil {
		return nil, err
	}
	outer, err := r.want(name, ".nested_absmax", floats, upTo(n, s.Nested))
	if err != nil {
		return nil, err
	}
	codes, err := r.want(name, ".nested_quant_map", floats, 256)
	if err != nil {
		return nil, err
	}
	var table [256]float32
	if err := codes.Floats(table[:], 0); err != nil {
		return nil, err
	}
	return func(dst []float32, at uint64) error {
		if len(dst) == 0 {
			return nil
		}
		packed := make([]byte, len(dst))
		if _, err := scales.ReadAt(packed, int64(at)); err != nil {
			return err
		}
		last := at + uint64(len(dst)) - 1
		factors := make([]float32, last/s.Nested-at/s.Nested+1)
		if err := outer.Floats(factors, at/s.Nested); err != nil {
			return err
		}
		for i, x := range packed {
			product := table[x] * factors[(at+uint64(i))/s.Nested-at/s.Nested]
			dst[i] = product + s.Offset
		}
		return nil
	}, nil
}

// rowwise reads a matrix of 8 bits: an integer times the largest number of its row, over 127.
func (r *reader) rowwise(base string) error {
	q, err := r.matrix(base, ".weight", signed)
	if err != nil {
		return err
	}
	if order := r.part(base, ".weight_format"); order != nil {
		var first [1]byte
		if order.DType != safetensors.U8 || order.Elems() != 1 {
			return fmt.Errorf("tensor %q is %s of the shape %v, want a byte", order.Name, order.DType, order.Shape)
		}
		if _, err := order.ReadAt(first[:], 0); err != nil {
			return err
		}
		if first[0] != 0 {
			return fmt.Errorf("tensor %q is %d, want 0: rows one after the other", order.Name, first[0])
		}
	}
	scales, err := r.want(base, ".SCB", floats, q.Shape[0])
	if err != nil {
		return err
	}
	m := &matrix{rows: q.Shape[0], cols: q.Shape[1], groups: 1, width: q.Shape[1], most: 255, factor: 7.874015718698502e-3,
		integers: whole(q), zeros: always(128), scales: byRow(scales, 1)}
	r.views[base+".weight"], err = m.view(r.tiles)
	return err
}
