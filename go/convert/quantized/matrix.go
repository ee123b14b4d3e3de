package quantized

import (
	"runtime"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/convert/lang"
)

// A matrix is of integers with scales. Columns are in groups, and each group of a row has a scale and a zero. The number in
// column c of group g is
//
//	(integer[c] - zero[g]) * scale[g] * factor
//
// where the difference is exact, and each product is rounded to F32, from the left to the right.
type matrix struct {
	rows, cols, groups uint64
	width              uint64   // of a group, in columns; the last one may be narrower
	groupOf            []uint32 // the group of each column, if not all of its columns are neighbours
	most               int      // the largest integer
	factor             float32  // 0: 1

	// Each reads n rows from row first on, where first is a multiple of tileRows.
	integers func(dst []uint8, first, n uint64) error   // cols in a row
	scales   func(dst []float32, first, n uint64) error // groups in a row
	zeros    func(dst []int16, first, n uint64) error   // groups in a row
}

// always returns the reader of zeros that are all the same.
func always(zero int16) func(dst []int16, first, n uint64) error {
	return func(dst []int16, _, _ uint64) error {
		for i := range dst {
			dst[i] = zero
		}
		return nil
	}
}

// group returns the group of a column.
func (m *matrix) group(col uint64) uint64 {
	if m.groupOf != nil {
		return uint64(m.groupOf[col])
	}
	return col / m.width
}

// view returns the matrix as numbers, and as the blocks that hold them.
func (m *matrix) view(cache *tiles) (lang.View, error) {
	held, err := m.held(cache)
	return lang.View{Shape: []uint64{m.rows, m.cols}, Held: held, Read: func(dst []float32, at uint64) error {
		for len(dst) > 0 {
			row, col := at/m.cols, at%m.cols
			n := min(uint64(len(dst)), m.cols-col)
			t, err := cache.of(m, row)
			if err != nil {
				return err
			}
			m.line(dst[:n], t, row, col)
			dst, at = dst[n:], at+n
		}
		return nil
	}}, err
}

// line computes the numbers of a row from column col on.
func (m *matrix) line(dst []float32, t *tile, row, col uint64) {
	line := t.integers[(row-t.first)*m.cols+col:]
	scale := t.scales[(row-t.first)*m.groups:][:m.groups]
	for i := range dst {
		dst[i] = float32(line[i]) * scale[m.group(col+uint64(i))]
		if m.factor != 0 {
			dst[i] *= m.factor
		}
	}
}

// tileRows is what the number of a tile's first row is a multiple of, so that rows which are packed together are in one
// tile.
const tileRows = 32

// tileElems is about how many numbers a tile has.
const tileElems = 1 << 19

// height returns the rows of a tile. Many methods store columns, so a tile has as many rows as there is room for: each of
// its columns is a read of its own.
func (m *matrix) height() uint64 { return max(tileElems/m.cols/tileRows, 1) * tileRows }

// A tile is some rows of a matrix.
type tile struct {
	of       *matrix
	first    uint64
	integers []int16 // less their zeros
	scales   []float32
	zeros    []int16
	once     sync.Once
	err      error
}

// read reads a tile.
func (t *tile) read() {
	m := t.of
	n := min(m.height(), m.rows-t.first)
	raw := make([]uint8, n*m.cols)
	t.integers, t.scales, t.zeros = make([]int16, n*m.cols), make([]float32, n*m.groups), make([]int16, n*m.groups)
	if t.err = m.integers(raw, t.first, n); t.err != nil {
		return
	}
	if t.err = m.scales(t.scales, t.first, n); t.err != nil {
		return
	}
	if t.err = m.zeros(t.zeros, t.first, n); t.err != nil {
		return
	}
	for r := range n {
		zeros := t.zeros[r*m.groups:][:m.groups]
		to := t.integers[r*m.cols:][:m.cols]
		for c, x := range raw[r*m.cols:][:m.cols] {
			to[c] = int16(x) - zeros[m.group(uint64(c))]
		}
	}
}

// tiles are those that were used last, of all matrices of a checkpoint. Rows that a family takes in another order are in
// few tiles at a time, which are read once.
type tiles struct {
	mu   sync.Mutex
	last []*tile // the latest at the end
	most int
}

// newTiles returns no tiles yet. There is room for two of each thread, and of a matrix that is read with another.
func newTiles() *tiles { return &tiles{most: 4 * runtime.GOMAXPROCS(0)} }

// of returns the tile of a matrix that has a row.
func (c *tiles) of(m *matrix, row uint64) (*tile, error) {
	first := row / m.height() * m.height()
	c.mu.Lock()
	at := slices.IndexFunc(c.last, func(t *tile) bool { return t.of == m && t.first == first })
	t := &tile{of: m, first: first}
	if at >= 0 {
		t = c.last[at]
		c.last = slices.Delete(c.last, at, at+1)
	} else if len(c.last) == c.most {
		c.last = slices.Delete(c.last, 0, 1)
	}
	c.last = append(c.last, t)
	c.mu.Unlock()
	t.once.Do(t.read)
	return t, t.err
}
