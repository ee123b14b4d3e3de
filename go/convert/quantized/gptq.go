package quantized

import (
	"fmt"
	"slices"
)

// gptq reads what AutoGPTQ and GPTQModel write: qweight packs the integers of a column, of the transposed matrix, and qzeros
// the zeros of a group; g_idx has the group of each column. In the first version of the format a zero is stored less one.
func (r *reader) gptq() error {
	bits := uint64(r.config.CountOr("bits", 4))
	if !known(bits) {
		r.config.Fail("weights of %d bits are not read, want 2, 3, 4 or 8", bits)
	}
	later := false
	switch format := r.config.Text("checkpoint_format"); format {
	case "", "gptq":
	case "gptq_v2":
		later = true
	default:
		r.config.Fail("checkpoint_format is %.40s, want gptq or gptq_v2", format)
	}
	if r.config.Flag("is_marlin_format") {
		r.config.Fail("is_marlin_format is true; want the format gptq")
	}
	size := r.groupSize("group_size")
	if err := r.each(".qweight", func(base string) error { return r.gptqMatrix(base, bits, size, later) }); err != nil {
		return err
	}
	return r.alone(".scales", ".qweight")
}

// known reports whether integers of a number of bits are read.
func known(bits uint64) bool { return slices.Contains([]uint64{2, 3, 4, 8}, bits) }

// groupSize returns a setting that is the number of columns of a group, 0 for all columns.
func (r *reader) groupSize(names string) uint64 {
	n := r.config.NumberOr(names, -1)
	if n != -1 && (n < 1 || n > 1<<30 || n != float64(uint64(n))) {
		r.config.Fail("%s is %v, want -1 or a number of columns", names, n)
	}
	return uint64(max(n, 0))
}

func (r *reader) gptqMatrix(base string, bits, size uint64, later bool) error {
	q, err := r.matrix(base, ".qweight", words)
	if err != nil {
		return err
	}
	packed, rows := q.Shape[0], q.Shape[1]
	index := r.part(base, ".g_idx")
	cols := packed * 32 / bits
	if index != nil && len(index.Shape) == 1 && index.Elems() > 0 { // which other bits a module has, "dynamic" says by patterns
		cols = index.Elems()
		if bits = packed * 32 / cols; !known(bits) || packed*32 != bits*cols {
			return fmt.Errorf("tensor %q has the shape %v, want %d columns of 2, 3, 4 or 8 bits", q.Name, q.Shape, cols)
		}
	}
	scales, err := r.matrix(base, ".scales", floats)
	if err != nil {
		return err
	}
	width := size
	if width == 0 {
		width = cols
	}
	groups := upTo(cols, width)
	if scales.Shape[0] != groups || scales.Shape[1] != rows {
		return fmt.Errorf("tensor %q has the shape %v, want [%d %d]: groups of %d of %d columns", scales.Name, scales.Shape,
			groups, rows, width, cols)
	}
	zeros, err := r.want(base, ".qzeros", words, groups, upTo(rows*bits, 32))
	if err != nil {
		return err
	}
	m := &matrix{rows: rows, cols: cols, groups: groups, width: width, most: 1<<bits - 1,
		integers: down(q, cols, bits), scales: transposed(scales)}
	if index != nil {
		if m.groupOf, err = groupsOf(index, cols, groups, width); err != nil {
			return err
		}
	}
	less := uint32(1)
	if later {
		less = 0
	}
	m.zeros = func(dst []int16, first, n uint64) error {
		from := first * bits / 32
		width := upTo((first+n)*bits, 32) - from
		all, err := stripe(zeros, from, width)
		if err != nil {
			return err
		}
		for g := range groups {
			for i := range n {
				dst[i*groups+g] = int16((unpacked(all[g*width:], i, bits, 1) + less) & (1<<bits - 1))
			}
		}
		return nil
	}
	r.views[base+".weight"], err = m.view(r.tiles)
	return err
}
