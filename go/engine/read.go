package engine

import (
	"fmt"

	"github.com/quern-llm/quern/go/model/arch"
)

// A Reader takes rows of an output of the model for tokens of a prompt, while the prompt is
// evaluated. It belongs to one request.
type Reader interface {
	// Reads returns the output, arch.Logits or arch.Vectors, and the range of tokens of the
	// prompt that its rows are wanted of. Tokens before it may be found in the cache.
	Reads() (output string, from, to int)
	// Read is given these rows in order, each once. A row is valid during the call.
	Read(i int, row []float32)
	// End is called after the last. What apply returns is valid until it is called again.
	End(apply func(output string, given []float32) []float32)
}

// A reading is how far a Reader has come.
type reading struct {
	Reader
	output   string
	next, to int
}

// newReading returns nil for no Reader.
func newReading(r Reader, tokens int) (*reading, error) {
	if r == nil {
		return nil, nil
	}
	output, from, to := r.Reads()
	if from < 0 || from >= to || to > tokens {
		return nil, fmt.Errorf("rows of tokens %d to %d are wanted, of a prompt of %d", from, to, tokens)
	}
	return &reading{r, output, from, to}, nil
}

func (r *reading) take(row []float32) {
	r.Read(r.next, row)
	r.next++
}

// A readCall calls f for item i, which may stop f from being called again for it.
type readCall func(i int, f func())

// read gives the readers of items, nil for those that have none, the rows that they want of the
// tokens of the last pass.
func (e *Engine) read(items []Item, readers []*reading, call readCall) {
	for _, output := range [...]string{arch.Logits, arch.Vectors} {
		e.readOutput(output, items, readers, call)
	}
	for k, r := range readers {
		if r == nil || r.next != r.to || items[k].Seq.Len() < r.to || items[k].Seq.Len()-len(items[k].IDs) >= r.to {
			continue // not complete, or complete before
		}
		call(k, func() {
			r.End(func(output string, given []float32) []float32 {
				e.runner.Apply(output, [][]float32{given})
				return e.runner.Row(0)
			})
		})
	}
}

func (e *Engine) readOutput(output string, items []Item, readers []*reading, call readCall) {
	rows, owners := e.rows[:0], e.owners[:0]
	flush := func() {
		if len(rows) > 0 {
			e.runner.Compute(output, rows)
		}
		for at, k := range owners {
			call(k, func() { readers[k].take(e.runner.Row(at)) })
		}
		rows, owners = rows[:0], owners[:0]
	}
	first := 0 // of the item's tokens in the pass
	for k, it := range items {
		if r := readers[k]; r != nil && r.output == output {
			before := it.Seq.Len() - len(it.IDs)
			for i, end := max(r.next-before, 0), min(r.to-before, len(it.IDs)); i < end; i++ {
				rows, owners = append(rows, int32(first+i)), append(owners, k)
				if len(rows) == cap(e.rows) {
					flush()
				}
			}
		}
		first += len(it.IDs)
		for _, b := range it.Branches {
			first += len(b.IDs)
		}
	}
	flush()
}
