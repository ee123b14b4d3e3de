package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// A table is a small tensor that Go reads: embeddings of positions that pictures of other sizes interpolate.
type table struct {
	columns, rows int
	v             []float32
}

// maxTable bounds the numbers of a table.
const maxTable = 1 << 26

// table reads a tensor as rows of so many columns.
func (e *Encoder) table(k *Keys, name string, columns int) table {
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
	made := table{columns, int(n) / columns, make([]float32, n)}
	k.Check(typ.Check(int(n)))
	if t.Data != nil { // else the file is an outline
		if want := kernel.RowBytes(typ, int(n)); len(t.Data) < want {
			k.Check(fmt.Errorf("tensor %q: %d bytes, want %d", name, len(t.Data), want))
		}
		if err := kernel.Dequantize(typ, made.v, t.Data[:kernel.RowBytes(typ, int(n))]); err != nil {
			k.Check(fmt.Errorf("tensor %q: %w", name, err))
		}
	}
	e.tables[name] = made
	return made
}

// row returns a row of the table.
func (t table) row(i int) []float32 { return t.v[i*t.columns:][:t.columns] }

// add adds a row to dst, times a factor. The conversion keeps it from being fused with the sum, as some CPUs would.
func (t table) add(dst []float32, i int, by float32) {
	for j, v := range t.row(i) {
		dst[j] += float32(v * by)
	}
}
