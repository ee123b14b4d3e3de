package quantized

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/safetensors"
)

// formats are those of compressed-tensors that are read: here, or as 8-bit floats are in any checkpoint.
var formats = []string{"dense", "float-quantized", "int-quantized", "mixed-precision", "mxfp4-pack-quantized",
	"naive-quantized", "nvfp4-pack-quantized", "pack-quantized"}

// A scheme is how a group of compressed-tensors' configuration quantizes integers.
type scheme struct {
	bits      uint64
	symmetric bool
}

// compressed reads what compressed-tensors writes. Which group of the configuration a matrix is of follows from its tensors,
// by their types and shapes; the lists of targets are patterns for names of modules.
func (r *reader) compressed() error {
	schemes := r.schemes()
	turned := r.config.Within("transform_config")
	if len(turned.Object("config_groups")) > 0 {
		r.config.Fail("transform_config has rotations, which are not computed")
	}
	r.config.Take(turned)
	sparse := r.config.Within("sparsity_config")
	if format := sparse.Text("format"); format != "" && format != "dense" {
		r.config.Fail("sparsity_config has the format %.40s, want dense", format)
	}
	r.config.Take(sparse)
	err := r.each(".weight_packed", func(base string) error {
		r.part(base, ".input_global_scale")
		if q := r.tensors.Tensor(base + ".weight_packed"); q.DType == safetensors.U8 {
			return r.fours(base)
		}
		return r.integersPacked(base, schemes)
	})
	if err != nil {
		return err
	}
	return r.each(".weight_scale", func(base string) error {
		if q := r.tensors.Tensor(base + ".weight"); q == nil || q.DType != safetensors.I8 {
			return nil
		}
		return r.integersWhole(base)
	})
}

// schemes reads config_groups.
func (r *reader) schemes() (all []scheme) {
	groups := r.config.Within("config_groups")
	given := []string{r.config.Text("format")}
	for _, name := range slices.Sorted(maps.Keys(r.config.Object("config_groups"))) {
		group := groups.Within(name)
		weights := group.Within("weights")
		given = append(given, group.Text("format"))
		s := scheme{uint64(weights.CountOr("num_bits", 8)), weights.FlagOr("symmetric", true)}
		if kind := weights.Text("type"); kind != "float" && s.bits > 0 && s.bits <= 8 && !slices.Contains(all, s) {
			all = append(all, s)
		}
		group.Take(weights)
		groups.Take(group)
	}
	r.config.Take(groups)
	for _, format := range given {
		if format != "" && !slices.Contains(formats, format) {
			r.config.Fail("the format %.40s of compressed-tensors is not read, want one of %s", format,
				strings.Join(formats, ", "))
		}
	}
	return all
}

// integersPacked reads integers in words, row by row. They and their zeros are stored plus half of their range.
func (r *reader) integersPacked(base string, schemes []scheme) error {
	q, err := r.matrix(base, ".weight_packed", words)
	if err != nil {
		return err
	}
	shape, err := r.want(base, ".weight_shape", counts, 2)
	if err != nil {
		return err
	}
	size, err := integers(shape)
	if err != nil {
		return err
	}
	if size[0] != int64(q.Shape[0]) || size[1] < 1 || uint64(size[1]) > 32*q.Shape[1] {
		return fmt.Errorf("tensor %q says %v, and %q has the shape %v", shape.Name, size, q.Name, q.Shape)
	}
	m := &matrix{rows: q.Shape[0], cols: uint64(size[1])}
	zeros := r.part(base, ".weight_zero_point")
	at := slices.IndexFunc(schemes, func(s scheme) bool {
		return q.Shape[1] == upTo(m.cols*s.bits, 32) && s.symmetric == (zeros == nil)
	})
	if at < 0 {
		return fmt.Errorf("tensor %q has %d words for %d columns%s, which is no group of config.json", q.Name, q.Shape[1],
			m.cols, map[bool]string{true: "", false: " and zeros"}[zeros == nil])
	}
	bits := schemes[at].bits
	m.most, m.integers = 1<<bits-1, across(q, m.cols, bits)
	if err := r.scaled(base, m); err != nil {
		return err
	}
	if m.zeros, err = r.zerosOf(zeros, m, bits, int16(1)<<(bits-1)); err != nil {
		return err
	}
	r.views[base+".weight"], err = m.view(r.tiles)
	return err
}

// integersWhole reads integers of 8 bits. They are read plus 128, as others are.
func (r *reader) integersWhole(base string) error {
	q, err := r.matrix(base, ".weight", signed)
	if err != nil {
		return err
	}
	m := &matrix{rows: q.Shape[0], cols: q.Shape[1], most: 255, integers: whole(q)}
	if err := r.scaled(base, m); err != nil {
		return err
	}
	if m.zeros, err = r.zerosOf(r.part(base, ".weight_zero_point"), m, 8, 128); err != nil {
		return err
	}
	r.views[base+".weight"], err = m.view(r.tiles)
	return err
}

// whole reads rows of bytes with a sign, plus 128.
func whole(t *safetensors.Tensor) func(dst []uint8, first, n uint64) error {
	return func(dst []uint8, first, n uint64) error {
		_, err := t.ReadAt(dst, int64(first*t.Shape[1]))
		for i := range dst {
			dst[i] ^= 0x80
		}
		return err
	}
}

// scaled reads what is known of the scales of a matrix: for groups of columns, one in a row, or one in all.
func (r *reader) scaled(base string, m *matrix) error {
	scales, err := r.want(base, ".weight_scale", floats)
	if err != nil {
		return err
	}
	bad := fmt.Errorf("tensor %q has the shape %v, want scales of groups of [%d %d]", scales.Name, scales.Shape, m.rows, m.cols)
	switch {
	case scales.Elems() == 1:
		m.groups = 1
		m.scales = func(dst []float32, _, _ uint64) error {
			err := scales.Floats(dst[:1], 0)
			for i := range dst {
				dst[i] = dst[0]
			}
			return err
		}
	case len(scales.Shape) == 0 || len(scales.Shape) > 2 || scales.Shape[0] != m.rows || scales.Elems() == 0:
		return bad
	default:
		m.groups = scales.Elems() / m.rows
		m.scales = byRow(scales, m.groups)
	}
	if m.cols%m.groups != 0 {
		return bad
	}
	m.width = m.cols / m.groups
	index := r.part(base, ".weight_g_idx")
	if index == nil || m.groups == 1 {
		return nil
	}
	if none, err := unset(index); none || err != nil {
		return err
	}
	m.groupOf, err = groupsOf(index, m.cols, m.groups, m.width)
	return err
}

// unset reports whether a tensor says of no column in which group it is.
func unset(index *safetensors.Tensor) (bool, error) {
	if !slices.Contains(counts, index.DType) {
		return false, nil
	}
	all, err := integers(index)
	return !slices.ContainsFunc(all, func(g int64) bool { return g != -1 }), err
}

// zerosOf returns the reader of a matrix's zeros: half, plus those that a tensor has. It has them packed down its columns, or
// as bytes; nil stands for none.
func (r *reader) zerosOf(t *safetensors.Tensor, m *matrix, bits uint64, half int16) (
	func(dst []int16, first, n uint64) error, error) {
	switch {
	case t == nil:
		return always(half), nil
	case t.DType == safetensors.I32 && slices.Equal(t.Shape, []uint64{upTo(m.rows*bits, 32), m.groups}):
		return func(dst []int16, first, n uint64) error {
			from := first * bits / 32
			buf := make([]uint32, (upTo((first+n)*bits, 32)-from)*m.groups)
			if err := readWords(buf, t, from*m.groups); err != nil {
				return err
			}
			for i := range n {
				for g := range m.groups {
					dst[i*m.groups+g] = int16(unpacked(buf[g:], i, bits, m.groups))
				}
			}
			return nil
		}, nil
	case t.DType == safetensors.I8 && t.Elems() == 1:
		var one [1]byte
		_, err := t.ReadAt(one[:], 0)
		return always(half + int16(int8(one[0]))), err
	case t.DType == safetensors.I8 && t.Elems() == m.rows*m.groups && t.Shape[0] == m.rows:
		return func(dst []int16, first, n uint64) error {
			buf := make([]byte, n*m.groups)
			_, err := t.ReadAt(buf, int64(first*m.groups))
			for i, x := range buf {
				dst[i] = half + int16(int8(x))
			}
			return err
		}, nil
	}
	return nil, fmt.Errorf("tensor %q is %s of the shape %v, want a zero for each of %d groups in %d rows", t.Name, t.DType,
		t.Shape, m.groups, m.rows)
}
