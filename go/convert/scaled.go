package convert

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/safetensors"
)

// A grid is the scales of the blocks of a matrix, or of several matrices of the same shape.
type grid struct {
	scale         *safetensors.Tensor
	first         uint64 // the first row of scales
	down, across  uint64 // the number of scales of a matrix
	height, width uint64 // the size of a block
}

// scaleOf returns the scales of a tensor, nil if it has none.
func (m *Model) scaleOf(t *safetensors.Tensor) *safetensors.Tensor {
	base := strings.TrimSuffix(t.Name, ".weight")
	names := []string{base + ".weight_scale_inv", base + ".weight_scale", t.Name + "_scale_inv", base + ".scale"}
	if table, _, ok := strings.Cut(base, ".shard_"); ok { // the parts of a table share one scale
		names = append(names, table+".weight_scale")
	}
	for _, name := range names {
		if scale := m.weights.Tensor(name); scale != nil {
			return scale
		}
	}
	return nil
}

// scaled returns matrices of 8-bit floats, multiplied by their scales: one for each block, for each row, or for all.
func (m *Model) scaled(t *safetensors.Tensor, v lang.View) (lang.View, error) {
	scale := m.scaleOf(t)
	if scale == nil {
		return lang.View{}, fmt.Errorf("tensor %q is %s without scales", t.Name, t.DType)
	}
	bad := fmt.Errorf("tensor %q has the shape %v, and scales %v", t.Name, v.Shape, scale.Shape)
	const most = 1 << 24
	if scale.Elems() > most || len(v.Shape) < 2 {
		return lang.View{}, bad
	}
	k := len(v.Shape)
	rows, cols := v.Shape[k-2], v.Shape[k-1]
	// The last two dimensions of the scales are those of the grid of blocks.
	shape := append([]uint64(nil), scale.Shape...)
	for len(shape) < 2 {
		shape = append(shape, 1)
	}
	down, across := shape[len(shape)-2], shape[len(shape)-1]
	if k == 2 && len(scale.Shape) == 1 && scale.Elems() == rows {
		down, across = rows, 1
	}
	givenDown, givenAcross := m.blockSize()
	if m.family != nil && m.family.Stripes != nil && k == 2 {
		if s := m.family.Stripes(m.config, t.Name); s.N > 0 {
			return striped(v, s, grid{scale, 0, down, across, givenDown, givenAcross}, bad)
		}
	}
	matrices := v.Elems() / max(rows*cols, 1)
	if down*across == 0 || down*across*matrices != scale.Elems() && scale.Elems() != 1 {
		return lang.View{}, bad
	}
	blockDown, ok := sideOf(rows, down, givenDown)
	blockAcross, ok2 := sideOf(cols, across, givenAcross)
	if !ok || !ok2 {
		return lang.View{}, fmt.Errorf("%w, which are not of blocks as config.json has them", bad)
	}
	return timesGrid(v, grid{scale, 0, down, across, blockDown, blockAcross}), nil
}

// timesGrid returns matrices whose blocks are multiplied by their scales.
func timesGrid(v lang.View, g grid) lang.View {
	k := len(v.Shape)
	rows, cols := v.Shape[k-2], v.Shape[k-1]
	read := v.Read
	v.Read = func(dst []float32, at uint64) error {
		if err := read(dst, at); err != nil {
			return err
		}
		one := make([]float32, g.across)
		for len(dst) > 0 {
			row, col := at/cols, at%cols
			n := min(uint64(len(dst)), cols-col)
			line := g.first + row/rows*g.down + row%rows/g.height
			if g.scale.Elems() == 1 {
				line = 0
			}
			if err := g.scale.Floats(one, line*g.across); err != nil {
				return err
			}
			for i := range n {
				dst[i] *= one[(col+i)/g.width]
			}
			dst, at = dst[n:], at+n
		}
		return nil
	}
	return v
}

// striped returns a matrix that was divided among machines, with the rows of each kind together. The last block of a
// machine may be shorter.
func striped(v lang.View, s lang.Stripes, g grid, bad error) (lang.View, error) {
	rows, cols, all := v.Shape[0], v.Shape[1], uint64(0)
	for _, n := range s.Rows {
		if n == 0 || n%s.N != 0 {
			return lang.View{}, fmt.Errorf("%w: %d rows are not of %d stripes", bad, n, s.N)
		}
		all += n
	}
	blocks := func(n, side uint64) uint64 { return (n + max(side, 1) - 1) / max(side, 1) }
	each := rows / s.N
	if g.height == 0 || g.width == 0 || all != rows || g.down != s.N*blocks(each, g.height) ||
		g.across != blocks(cols, g.width) {
		return lang.View{}, fmt.Errorf("%w, want %d rows in %d stripes, with blocks of their own of a size that config.json has", bad, all, s.N)
	}
	down := g.down / s.N
	var parts []lang.View
	from := uint64(0) // the first row of a kind in the rows of a machine
	for _, n := range s.Rows {
		for i := range s.N {
			stripe := timesGrid(v.Strided(i*each*cols, lang.Dim{each, cols}, lang.Dim{cols, 1}),
				grid{g.scale, i * down, down, g.across, g.height, g.width})
			parts = append(parts, stripe.Strided(from*cols, lang.Dim{n / s.N, cols}, lang.Dim{cols, 1}))
		}
		from += n / s.N
	}
	return lang.Joined(parts...)
}

// sideOf returns the side of the blocks that n elements are divided into. If config.json does not give it, all blocks
// must be of the same size, since nothing says how much shorter the last one is.
func sideOf(n, blocks, given uint64) (side uint64, ok bool) {
	switch {
	case blocks == 1:
		return max(n, 1), true
	case blocks == n:
		return 1, true
	case given > 0:
		return given, (n+given-1)/given == blocks
	}
	return n / max(blocks, 1), blocks > 0 && blocks < n && n%blocks == 0
}

// blockSize returns the rows and columns of a block that has one scale, 0 if config.json does not say.
func (m *Model) blockSize() (down, across uint64) {
	q := m.config.Within("quantization_config compression_config")
	defer func() { m.config.Take(q) }()
	given := [][]any{}
	if q.Has("weight_block_size") {
		given = append(given, q.List("weight_block_size"))
	}
	for _, group := range q.Object("config_groups") {
		o, _ := group.(map[string]any)
		weights, _ := o["weights"].(map[string]any)
		switch size := weights["block_structure"].(type) {
		case []any:
			given = append(given, size)
		case string: // as in 128x128
			var sides []any
			for side := range strings.SplitSeq(size, "x") {
				n, _ := hf.Digits(side)
				sides = append(sides, float64(n))
			}
			given = append(given, sides)
		}
	}
	for _, size := range given {
		var sides [2]int
		for i, v := range size {
			if n, ok := hf.AsCount(v); ok && n > 0 && i < len(sides) {
				sides[i] = n
			}
		}
		if len(size) != 2 || sides[0] == 0 || sides[1] == 0 {
			q.Fail("quantization_config: blocks of %.40v, want two sides", size)
			return 0, 0
		}
		if d, a := uint64(sides[0]), uint64(sides[1]); down == 0 {
			down, across = d, a
		} else if down != d || across != a {
			q.Fail("quantization_config: blocks of %dx%d and of %dx%d; want one size", down, across, d, a)
			return 0, 0
		}
	}
	return down, across
}

// copied returns the reader of a tensor of bytes.
func copied(t *safetensors.Tensor) func(dst []byte, at uint64) error {
	return func(dst []byte, at uint64) error {
		_, err := t.ReadAt(dst, int64(at))
		return err
	}
}

// fours returns a matrix of 4-bit floats, two in a byte, as MXFP4: each 32 numbers of a row have one exponent.
func fours(t, scale *safetensors.Tensor) (lang.View, error) {
	bad := fmt.Errorf("tensor %q has the shape %v, and scales %v as %s, want two dimensions, and an exponent for each 16 bytes of a row", t.Name, t.Shape, scale.Shape, scale.DType)
	if len(t.Shape) != 2 || t.Shape[1]%16 != 0 || scale.DType != safetensors.F8E8M0 && scale.DType != safetensors.U8 {
		return lang.View{}, bad
	}
	blocks := lang.View{Shape: []uint64{1, t.Shape[0], t.Shape[1] / 16, 16}, Bytes: copied(t)}
	exponents := lang.View{Shape: append([]uint64{1}, scale.Shape...), Bytes: copied(scale)}
	made, err := lang.MXFP4(nil, []lang.View{blocks, exponents})
	if err != nil {
		return lang.View{}, bad
	}
	return made[0].As(made[0].Shape[1:]...)
}
