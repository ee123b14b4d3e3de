package lang

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/gguf"
)

// An Op computes the tensors on the right of a rule from those on its left. Its errors are about shapes and continue
// "tensor NAME has": the caller says which tensor it was.
type Op func(c *hf.Config, in []View) ([]View, error)

// One returns an Op that takes one tensor and makes one.
func One(f func(c *hf.Config, v View) (View, error)) Op {
	return func(c *hf.Config, in []View) ([]View, error) {
		v, err := f(c, in[0])
		return []View{v}, err
	}
}

// Then does several operations one after the other.
func Then(ops ...Op) Op {
	return func(c *hf.Config, in []View) (out []View, err error) {
		out = in
		for _, o := range ops {
			if out, err = o(c, out); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// AddOne adds 1, for norms whose weights are stored as their difference from 1.
var AddOne = Plus(1)

// NegExp computes -exp(x): it turns the logarithms of decays into what GGUF has.
var NegExp = One(func(_ *hf.Config, v View) (View, error) {
	return v.Each(func(x float32) float32 { return -float32(math.Exp(float64(x))) }), nil
})

// Squeeze drops the dimensions of size 1.
var Squeeze = One(func(_ *hf.Config, v View) (View, error) { return v.Squeezed(), nil })

// Column makes a vector a matrix of one column.
var Column = One(func(_ *hf.Config, v View) (View, error) { return v.As(v.Elems(), 1) })

// Product multiplies two vectors, element by element.
var Product Op = func(_ *hf.Config, in []View) ([]View, error) {
	v, by := in[0].Squeezed(), in[1].Squeezed()
	if len(v.Shape) != 1 || !slices.Equal(v.Shape, by.Shape) {
		return nil, fmt.Errorf("the shapes %v and %v, want two vectors of as many numbers", in[0].Shape, in[1].Shape)
	}
	read := v.Read
	v.Held = nil
	v.Read = func(dst []float32, at uint64) error {
		if err := read(dst, at); err != nil {
			return err
		}
		factors := make([]float32, len(dst))
		if err := by.Read(factors, at); err != nil {
			return err
		}
		for i, f := range factors {
			dst[i] *= f
		}
		return nil
	}
	return []View{v}, nil
}

// Flat makes any tensor a vector.
var Flat = One(func(_ *hf.Config, v View) (View, error) { return v.As(v.Elems()) })

// Times multiplies by a number from config.json.
func Times(factor func(*hf.Config) float64) Op {
	return One(func(c *hf.Config, v View) (View, error) {
		f := float32(factor(c))
		if f == 1 {
			return v, nil
		}
		return v.Each(func(x float32) float32 { return x * f }), nil
	})
}

// Plus adds a number.
func Plus(d float32) Op {
	return One(func(_ *hf.Config, v View) (View, error) {
		return v.Each(func(x float32) float32 { return x + d }),
			nil
	})
}

// Transpose exchanges the last two dimensions.
var Transpose = One(func(_ *hf.Config, v View) (View, error) {
	k := len(v.Shape)
	if k < 2 {
		return View{}, fmt.Errorf("the shape %v, want two dimensions", v.Shape)
	}
	rows, cols := v.Shape[k-2], v.Shape[k-1]
	outer := v.Elems() / max(rows*cols, 1)
	out := v.Strided(0, Dim{outer, rows * cols}, Dim{cols, 1}, Dim{rows, cols})
	return out.As(append(slices.Clone(v.Shape[:k-2]), cols, rows)...)
})

// Grouped makes a vector a matrix with this number of rows, unless it is 1.
func Grouped(groups func(*hf.Config) int) Op {
	return One(func(c *hf.Config, v View) (View, error) {
		n := uint64(max(groups(c), 1))
		if v.Elems()%n != 0 {
			return View{}, fmt.Errorf("%d elements in %d groups", v.Elems(), n)
		}
		if n == 1 {
			return v, nil
		}
		return v.As(n, v.Elems()/n)
	})
}

// Permute reorders the rows of each head, from halves to pairs: checkpoints rotate channel i with channel i + n/2,
// GGUF's LLaMA rotates neighbours.
func Permute(heads func(*hf.Config) int) Op {
	return One(func(c *hf.Config, v View) (View, error) {
		rows, each := v.Rows()
		h := uint64(heads(c))
		if h == 0 || rows%(2*h) != 0 {
			return View{}, fmt.Errorf("%d rows for %d heads", rows, h)
		}
		d := rows / h
		return v.Strided(0, Dim{h, d * each}, Dim{d / 2, each}, Dim{2, d / 2 * each}, Dim{each, 1}).As(v.Shape...)
	})
}

// Halves splits a tensor in the middle of its rows, as gate and up projections in one matrix are split.
var Halves Op = func(_ *hf.Config, in []View) ([]View, error) { return Cut(in[0], 2, false) }

// Cut splits the rows of matrices into parts of the same size. With turns, part i has the rows i, i + parts, i +
// 2*parts and so on.
func Cut(v View, parts uint64, turns bool) ([]View, error) {
	axis := max(len(v.Shape)-2, 0)
	return CutAxis(v, axis, parts, turns)
}

// CutAxis splits a tensor into parts as Cut does, along another axis.
func CutAxis(v View, axis int, parts uint64, turns bool) (out []View, err error) {
	if axis >= len(v.Shape) || v.Shape[axis]%parts != 0 {
		return nil, fmt.Errorf("the shape %v in %d parts", v.Shape, parts)
	}
	n, inner, outer := v.Shape[axis]/parts, uint64(1), uint64(1)
	for _, d := range v.Shape[axis+1:] {
		inner *= d
	}
	for _, d := range v.Shape[:axis] {
		outer *= d
	}
	shape := slices.Clone(v.Shape)
	shape[axis] = n
	for i := range parts {
		from, step := i*n*inner, inner
		if turns {
			from, step = i*inner, parts*inner
		}
		part, err := v.Strided(from, Dim{outer, parts * n * inner}, Dim{n, step}, Dim{inner, 1}).As(shape...)
		if err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	return out, nil
}

// Turns splits a tensor into its even and odd rows, where gate and up projections take turns.
var Turns Op = func(_ *hf.Config, in []View) ([]View, error) { return Cut(in[0], 2, true) }

// TurnsLast splits a tensor into its even and odd columns.
var TurnsLast Op = func(_ *hf.Config, in []View) ([]View, error) { return CutAxis(in[0], len(in[0].Shape)-1, 2, true) }

// MXFP4 makes blocks of MXFP4 of a tensor of packed 4-bit numbers and one of their scales' exponents, as gpt-oss has
// them. In a checkpoint a byte has two neighbours, in GGUF one number of the first half of the block and one of the
// second.
var MXFP4 Op = func(_ *hf.Config, in []View) ([]View, error) {
	blocks, scales := in[0], in[1]
	k := len(blocks.Shape)
	if k != 4 || blocks.Shape[3] != 16 || !slices.Equal(blocks.Shape[:3], scales.Shape) || blocks.Bytes == nil ||
		scales.Bytes == nil {
		return nil, fmt.Errorf("blocks %v and scales %v, want bytes of blocks of 16 and a scale for each",
			blocks.Shape, scales.Shape)
	}
	shape := []uint64{blocks.Shape[0], blocks.Shape[1], 32 * blocks.Shape[2]}
	return []View{{Shape: shape, Type: gguf.MXFP4, Bytes: func(dst []byte, at uint64) error {
		n := uint64(len(dst)) / 17
		buf := make([]byte, 17*n)
		packed, exponents := buf[:16*n], buf[16*n:]
		if err := blocks.Bytes(packed, at/32*16); err != nil {
			return err
		}
		if err := scales.Bytes(exponents, at/32); err != nil {
			return err
		}
		for b := range n {
			out, from := dst[17*b:17*b+17], packed[16*b:16*b+16]
			out[0] = exponents[b]
			for i := range 16 {
				low, high := from[i/2], from[8+i/2]
				if i%2 == 0 {
					out[1+i] = low&15 | high<<4
				} else {
					out[1+i] = low>>4 | high&0xf0
				}
			}
		}
		return nil
	}}}, nil
}

// MXFP4Turns is MXFP4 of a tensor whose rows are those of two tensors in turns.
var MXFP4Turns Op = func(c *hf.Config, in []View) ([]View, error) {
	all, err := MXFP4(c, in)
	if err != nil {
		return nil, err
	}
	v := all[0]
	if v.Shape[1]%2 != 0 {
		return nil, fmt.Errorf("%d rows, want a gate and what it gates", v.Shape[1])
	}
	row := v.Shape[2]
	var out []View
	for k := range uint64(2) {
		part := View{Shape: []uint64{v.Shape[0], v.Shape[1] / 2, row}, Type: v.Type}
		part.Bytes = func(dst []byte, at uint64) error {
			for len(dst) > 0 {
				n := min(uint64(len(dst)), (row-at%row)/32*17)
				if err := v.Bytes(dst[:n], (2*(at/row)+k)*row+at%row); err != nil {
					return err
				}
				dst, at = dst[n:], at+n/17*32
			}
			return nil
		}
		out = append(out, part)
	}
	return out, nil
}

// Together joins tensors along the first dimension.
var Together Op = func(_ *hf.Config, in []View) ([]View, error) {
	v, err := Joined(in...)
	return []View{v}, err
}

// Each3 does an operation to each of three tensors, nil standing for none.
func Each3(ops ...Op) Op {
	return func(c *hf.Config, in []View) ([]View, error) {
		out := slices.Clone(in)
		for i, o := range ops {
			if o == nil {
				continue
			}
			made, err := o(c, in[i:i+1])
			if err != nil {
				return nil, err
			}
			out[i] = made[0]
		}
		return out, nil
	}
}

// Taps gives the weights of a convolution the shape that GGUF has: channels, 1, taps.
var Taps = One(func(_ *hf.Config, v View) (View, error) {
	v = v.Squeezed()
	if len(v.Shape) != 2 {
		return View{}, fmt.Errorf("the shape %v, want channels and taps", v.Shape)
	}
	return v.As(v.Shape[0], 1, v.Shape[1])
})

// ByExpert splits the rows of a matrix that has those of all experts.
var ByExpert = One(func(c *hf.Config, v View) (View, error) {
	rows, each := v.Rows()
	f := c.Within("ffn_config")
	n := uint64(max(f.CountOr("moe_num_experts", c.Experts()), 1))
	c.Take(f)
	return v.As(n, rows/n, each)
})
