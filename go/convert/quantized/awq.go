package quantized

import "fmt"

// interleaved is the order in which AWQ packs eight neighbours into a word.
var interleaved = [8]uint64{0, 2, 4, 6, 1, 3, 5, 7}

// awq reads what AutoAWQ writes, in its layouts GEMM, where eight rows of a column are in a word, and GEMV, where eight
// columns of a row are.
func (r *reader) awq() error {
	if bits := r.config.CountOr("bits w_bit", 4); bits != 4 {
		r.config.Fail("AWQ's weights of %d bits are not read, want 4", bits)
	}
	size := r.groupSize("group_size q_group_size")
	read := r.awqMatrix
	switch version := r.config.Text("version"); version {
	case "", "gemm", "GEMM":
	case "gemv", "GEMV":
		read = r.awqRows
	default:
		r.config.Fail("version is %.40s, want gemm or gemv", version)
	}
	if err := r.each(".qweight", func(base string) error { return read(base, size) }); err != nil {
		return err
	}
	return r.alone(".scales", ".qweight")
}

func (r *reader) awqMatrix(base string, size uint64) error {
	q, err := r.matrix(base, ".qweight", words)
	if err != nil {
		return err
	}
	m := &matrix{rows: 8 * q.Shape[1], cols: q.Shape[0], most: 15}
	if err := m.divide(base, size); err != nil {
		return err
	}
	zeros, err := r.want(base, ".qzeros", words, m.groups, q.Shape[1])
	if err != nil {
		return err
	}
	scales, err := r.want(base, ".scales", floats, m.groups, m.rows)
	if err != nil {
		return err
	}
	// eights spreads words, of which one has eight rows of a column.
	eights := func(put func(row, col uint64, x uint32), buf []uint32, n uint64) {
		for i, w := range buf {
			for k, row := range interleaved {
				put(uint64(i)%n*8+row, uint64(i)/n, w>>(4*k)&15)
			}
		}
	}
	m.scales = transposed(scales)
	m.integers = func(dst []uint8, first, n uint64) error {
		buf, err := stripe(q, first/8, n/8)
		eights(func(row, col uint64, x uint32) { dst[row*m.cols+col] = uint8(x) }, buf, n/8)
		return err
	}
	m.zeros = func(dst []int16, first, n uint64) error {
		buf, err := stripe(zeros, first/8, n/8)
		eights(func(row, col uint64, x uint32) { dst[row*m.groups+col] = int16(x) }, buf, n/8)
		return err
	}
	r.views[base+".weight"], err = m.view(r.tiles)
	return err
}

func (r *reader) awqRows(base string, size uint64) error {
	q, err := r.matrix(base, ".qweight", words)
	if err != nil {
		return err
	}
	m := &matrix{rows: q.Shape[0], cols: 8 * q.Shape[1], most: 15, integers: across(q, 8*q.Shape[1], 4)}
	if err := m.divide(base, size); err != nil {
		return err
	}
	zeros, err := r.matrix(base, ".qzeros", words)
	if err != nil {
		return err
	}
	scales, err := r.matrix(base, ".scales", floats)
	if err != nil {
		return err
	}
	// Lines have as many words as the kernel reads at a time.
	if zeros.Shape[0] != m.rows || 8*zeros.Shape[1] < m.groups || scales.Shape[0] != m.rows || scales.Shape[1] < m.groups {
		return fmt.Errorf("tensors %q and %q have the shapes %v and %v, want %d groups in %d rows", zeros.Name, scales.Name,
			zeros.Shape, scales.Shape, m.groups, m.rows)
	}
	m.scales = byRow(scales, m.groups)
	unpack := across(zeros, m.groups, 4)
	m.zeros = func(dst []int16, first, n uint64) error {
		buf := make([]uint8, len(dst))
		err := unpack(buf, first, n)
		for i, x := range buf {
			dst[i] = int16(x)
		}
		return err
	}
	r.views[base+".weight"], err = m.view(r.tiles)
	return err
}

// divide divides the columns into groups of a size, 0 for one group.
func (m *matrix) divide(base string, size uint64) error {
	if m.width = size; size == 0 {
		m.width = m.cols
	}
	if m.cols%m.width != 0 {
		return fmt.Errorf("%q has %d columns, which are not of groups of %d", base, m.cols, m.width)
	}
	m.groups = m.cols / m.width
	return nil
}
