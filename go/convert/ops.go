package convert

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
)

// An op makes the tensors that a rule names of those that it takes. It returns errors about shapes: the caller names the
// tensor.
type op func(c *config, in []view) ([]view, error)

// one is an op of one tensor to one.
func one(f func(c *config, v view) (view, error)) op {
	return func(c *config, in []view) ([]view, error) {
		v, err := f(c, in[0])
		return []view{v}, err
	}
}

// then does one op after the other.
func then(ops ...op) op {
	return func(c *config, in []view) (out []view, err error) {
		out = in
		for _, o := range ops {
			if out, err = o(c, out); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// addOne is for norms whose weights are stored as their distance from 1.
var addOne = plus(1)

// negExp turns the logarithm of a decay into the decay.
var negExp = one(func(_ *config, v view) (view, error) {
	return v.each(func(x float32) float32 { return -float32(math.Exp(float64(x))) }), nil
})

// squeeze drops the dimensions of 1.
var squeeze = one(func(_ *config, v view) (view, error) { return v.squeezed(), nil })

// column makes a vector a matrix of one column.
var column = one(func(_ *config, v view) (view, error) { return v.as(v.elems(), 1) })

// product multiplies two vectors, number by number.
var product op = func(_ *config, in []view) ([]view, error) {
	v, by := in[0].squeezed(), in[1].squeezed()
	if len(v.shape) != 1 || !slices.Equal(v.shape, by.shape) {
		return nil, fmt.Errorf("the shapes %v and %v, want two vectors of as many numbers", in[0].shape, in[1].shape)
	}
	read := v.read
	v.read = func(dst []float32, at uint64) error {
		if err := read(dst, at); err != nil {
			return err
		}
		factors := make([]float32, len(dst))
		if err := by.read(factors, at); err != nil {
			return err
		}
		for i, f := range factors {
			dst[i] *= f
		}
		return nil
	}
	return []view{v}, nil
}

// flat makes a vector of any tensor.
var flat = one(func(_ *config, v view) (view, error) { return v.as(v.elems()) })

// times multiplies by a number of config.json.
func times(factor func(*config) float64) op {
	return one(func(c *config, v view) (view, error) {
		f := float32(factor(c))
		if f == 1 {
			return v, nil
		}
		return v.each(func(x float32) float32 { return x * f }), nil
	})
}

// plus adds a number.
func plus(d float32) op {
	return one(func(_ *config, v view) (view, error) { return v.each(func(x float32) float32 { return x + d }), nil })
}

// transpose exchanges the last two dimensions.
var transpose = one(func(_ *config, v view) (view, error) {
	k := len(v.shape)
	if k < 2 {
		return view{}, fmt.Errorf("the shape %v, want two dimensions", v.shape)
	}
	rows, cols := v.shape[k-2], v.shape[k-1]
	outer := v.elems() / max(rows*cols, 1)
	out := v.strided(0, dim{outer, rows * cols}, dim{cols, 1}, dim{rows, cols})
	return out.as(append(slices.Clone(v.shape[:k-2]), cols, rows)...)
})

// grouped makes a vector a matrix of the given rows, if more than one.
func grouped(groups func(*config) int) op {
	return one(func(c *config, v view) (view, error) {
		n := uint64(max(groups(c), 1))
		if v.elems()%n != 0 {
			return view{}, fmt.Errorf("%d elements in %d groups", v.elems(), n)
		}
		if n == 1 {
			return v, nil
		}
		return v.as(n, v.elems()/n)
	})
}

// permute exchanges the channels of each head from halves to pairs, as rotations of pairs want them.
func permute(heads func(*config) int) op {
	return one(func(c *config, v view) (view, error) {
		rows, each := v.rows()
		h := uint64(heads(c))
		if h == 0 || rows%(2*h) != 0 {
			return view{}, fmt.Errorf("%d rows for %d heads", rows, h)
		}
		d := rows / h
		return v.strided(0, dim{h, d * each}, dim{d / 2, each}, dim{2, d / 2 * each}, dim{each, 1}).as(v.shape...)
	})
}

// halves splits the last dimension but one, or the only one, in the middle.
var halves op = func(_ *config, in []view) ([]view, error) { return cut(in[0], 2, false) }

// cut cuts the rows of the last two dimensions in parts, or takes turns with them.
func cut(v view, parts uint64, turns bool) ([]view, error) {
	axis := max(len(v.shape)-2, 0)
	return cutAxis(v, axis, parts, turns)
}

func cutAxis(v view, axis int, parts uint64, turns bool) (out []view, err error) {
	if axis >= len(v.shape) || v.shape[axis]%parts != 0 {
		return nil, fmt.Errorf("the shape %v in %d parts", v.shape, parts)
	}
	n, inner, outer := v.shape[axis]/parts, uint64(1), uint64(1)
	for _, d := range v.shape[axis+1:] {
		inner *= d
	}
	for _, d := range v.shape[:axis] {
		outer *= d
	}
	shape := slices.Clone(v.shape)
	shape[axis] = n
	for i := range parts {
		from, step := i*n*inner, inner
		if turns {
			from, step = i*inner, parts*inner
		}
		part, err := v.strided(from, dim{outer, parts * n * inner}, dim{n, step}, dim{inner, 1}).as(shape...)
		if err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	return out, nil
}

// turns splits rows that take turns: those of a gate and what it gates.
var turns op = func(_ *config, in []view) ([]view, error) { return cut(in[0], 2, true) }

// turnsLast splits columns that take turns.
var turnsLast op = func(_ *config, in []view) ([]view, error) { return cutAxis(in[0], len(in[0].shape)-1, 2, true) }

// mxfp4 packs blocks of 32 numbers of 4 bits, two in a byte, with the exponents of their scales. There a byte has two
// neighbours; GGUF's has one of the first half of a block and one of the second.
var mxfp4 op = func(_ *config, in []view) ([]view, error) {
	blocks, scales := in[0], in[1]
	k := len(blocks.shape)
	if k != 4 || blocks.shape[3] != 16 || !slices.Equal(blocks.shape[:3], scales.shape) || blocks.bytes == nil || scales.bytes == nil {
		return nil, fmt.Errorf("blocks %v and scales %v, want bytes of blocks of 16 and a scale for each", blocks.shape, scales.shape)
	}
	shape := []uint64{blocks.shape[0], blocks.shape[1], 32 * blocks.shape[2]}
	return []view{{shape: shape, typ: gguf.MXFP4, bytes: func(dst []byte, at uint64) error {
		n := uint64(len(dst)) / 17
		buf := make([]byte, 17*n)
		packed, exponents := buf[:16*n], buf[16*n:]
		if err := blocks.bytes(packed, at/32*16); err != nil {
			return err
		}
		if err := scales.bytes(exponents, at/32); err != nil {
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

// mxfp4Turns is mxfp4 of two tensors whose rows take turns.
var mxfp4Turns op = func(c *config, in []view) ([]view, error) {
	all, err := mxfp4(c, in)
	if err != nil {
		return nil, err
	}
	v := all[0]
	if v.shape[1]%2 != 0 {
		return nil, fmt.Errorf("%d rows, want a gate and what it gates", v.shape[1])
	}
	row := v.shape[2]
	var out []view
	for k := range uint64(2) {
		part := view{shape: []uint64{v.shape[0], v.shape[1] / 2, row}, typ: v.typ}
		part.bytes = func(dst []byte, at uint64) error {
			for len(dst) > 0 {
				n := min(uint64(len(dst)), (row-at%row)/32*17)
				if err := v.bytes(dst[:n], (2*(at/row)+k)*row+at%row); err != nil {
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

// together puts tensors one below the other.
var together op = func(_ *config, in []view) ([]view, error) {
	v, err := joined(in...)
	return []view{v}, err
}

// each3 does something to each of three tensors; nil: nothing.
func each3(ops ...op) op {
	return func(c *config, in []view) ([]view, error) {
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

// taps is the weights of a convolution, with a dimension of 1 between channels and taps.
var taps = one(func(_ *config, v view) (view, error) {
	v = v.squeezed()
	if len(v.shape) != 2 {
		return view{}, fmt.Errorf("the shape %v, want channels and taps", v.shape)
	}
	return v.as(v.shape[0], 1, v.shape[1])
})

// byExpert takes apart what the experts have one below the other.
var byExpert = one(func(c *config, v view) (view, error) {
	rows, each := v.rows()
	f := c.within("ffn_config")
	n := uint64(max(f.countOr("moe_num_experts", c.experts()), 1))
	c.take(f)
	return v.as(n, rows/n, each)
})
