package projector

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// A table is a small tensor that Go reads: embeddings of positions that pictures of other sizes interpolate.
type table struct {
	columns, rows int
	quantized     bool // it may be
	v             []float32
}

// maxTable bounds the numbers of a table.
const maxTable = 1 << 26

// table reads a tensor that the program does not use, as rows of so many columns.
func (e *Encoder) table(k *Keys, name string, columns int) table {
	e.tables[name] = e.read(k, name, columns)
	return e.tables[name]
}

// read reads a tensor as rows of so many columns.
func (e *Encoder) read(k *Keys, name string, columns int) table {
	t, ok := e.file.Tensor(name)
	if !ok {
		k.Check(fmt.Errorf("tensor %q is missing", name))
	}
	n := uint64(1)
	for _, d := range t.Dims {
		if n *= d; n > maxTable {
			break
		}
	}
	if n == 0 || n > maxTable || n%uint64(columns) != 0 {
		k.Check(fmt.Errorf("tensor %q: shape %v, want rows of %d numbers, and at most %d", name, t.Dims, columns, maxTable))
	}
	typ := kernel.Type(t.Type)
	made := table{columns: columns, rows: int(n) / columns, v: make([]float32, n)}
	k.Check(typ.Check(int(n)))
	if t.Data != nil { // else the file is an outline
		if want := kernel.RowBytes(typ, int(n)); len(t.Data) < want {
			k.Check(fmt.Errorf("tensor %q: %d bytes, want %d", name, len(t.Data), want))
		}
		if err := kernel.Dequantize(typ, made.v, t.Data[:kernel.RowBytes(typ, int(n))]); err != nil {
			k.Check(fmt.Errorf("tensor %q: %w", name, err))
		}
	}
	return made
}

// product reads a matrix for products as a table, which may be quantized.
func (e *Encoder) product(k *Keys, name string, columns int) table {
	t := e.table(k, name, columns)
	t.quantized = true
	e.tables[name] = t
	return t
}

// row returns a row of the table.
func (t table) row(i int) []float32 { return t.v[i*t.columns:][:t.columns] }

// side returns the side of the square of rows that the table is; 0: it is none.
func (t table) side() int {
	n := int(math.Sqrt(float64(t.rows)))
	if n*n != t.rows {
		return 0
	}
	return n
}

// between writes what is at a place of a grid of columns and rows, the corners of which are those of the square that the table
// is: bilinear.
func (t table) between(dst []float32, x, y, columns, rows int) {
	side := t.side()
	at := func(i, n int) (int, float32) {
		if n < 2 || side < 2 {
			return 0, 0
		}
		s := float64(i) * float64(side-1) / float64(n-1)
		low := min(int(s), side-2)
		return low, float32(s - float64(low))
	}
	left, fx := at(x, columns)
	top, fy := at(y, rows)
	clear(dst)
	for _, corner := range [4]struct {
		x, y int
		by   float32
	}{{0, 0, (1 - fx) * (1 - fy)}, {1, 0, fx * (1 - fy)}, {0, 1, (1 - fx) * fy}, {1, 1, fx * fy}} {
		if corner.by != 0 {
			t.add(dst, (top+corner.y)*side+left+corner.x, corner.by)
		}
	}
}

// add adds a row to dst, times a factor. The conversion keeps it from being fused with the sum, as some CPUs would.
func (t table) add(dst []float32, i int, by float32) {
	for j, v := range t.row(i) {
		dst[j] += float32(v * by)
	}
}
