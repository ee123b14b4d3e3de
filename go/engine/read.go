package engine

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/model/nn"
)

// A Reader receives rows of an output of the model for tokens of a prompt, while the prompt is evaluated. It
// belongs to one request.
type Reader interface {
	// Reads returns the output, one that has rows of tokens, and the range of prompt tokens whose rows are
	// requested. Tokens before it may come from the prefix cache. Of a source, only nn.Aligned has rows.
	Reads() (output string, from, to int)
	// Read receives each of these rows once, in order. A row is valid during the call.
	Read(i int, row []float32)
	// End is called once, after the last row. The result of apply is valid until its next call.
	End(apply func(output string, given []float32) []float32)
}

// A reading is the progress of a Reader.
type reading struct {
	Reader
	output   string
	next, to int
	last     int32 // the token of the pass whose row was read last
	ended    bool
}

// newReading returns nil if there is no Reader. Of the tokens, those of a source have no rows.
func newReading(r Reader, source, tokens int) (*reading, error) {
	if r == nil {
		return nil, nil
	}
	output, from, to := r.Reads()
	if output == nn.Aligned {
		source = 0
	}
	if from < source || from >= to || to > tokens {
		return nil, fmt.Errorf("rows of tokens %d to %d are wanted, of %d to %d of a prompt", from, to, source, tokens)
	}
	return &reading{Reader: r, output: output, next: from, to: to}, nil
}

func (r *reading) take(row []float32) {
	r.Read(r.next, row)
	r.next++
}

// A readCall calls f for item i, and may decide that f is not called again for it.
type readCall func(i int, f func())

// read passes the requested rows of the last pass to the items' readers; nil for items without one.
func (e *Engine) read(items []Item, readers []*reading, call readCall) {
	for _, output := range [...]string{nn.Logits, nn.Vectors, nn.TokenScores} {
		e.readOutput(output, items, readers, call)
	}
	if slices.ContainsFunc(readers, func(r *reading) bool { return r != nil && r.output == nn.Aligned }) {
		e.readAligned(items, readers, call)
	}
	for k, r := range readers {
		if r == nil || r.next != r.to || r.ended {
			continue // not complete, or complete before
		}
		r.ended = true
		call(k, func() {
			r.End(func(output string, given []float32) []float32 {
				e.runner.Apply(output, [][]float32{given}, []int32{r.last})
				return e.runner.Row(0)
			})
		})
	}
}

// readAligned passes the rows of nn.Aligned, which tokens of sources have too: these come first in a pass.
func (e *Engine) readAligned(items []Item, readers []*reading, call readCall) {
	source, behind := 0, 0 // where the item's tokens are in the pass
	for _, it := range items {
		behind += it.read
	}
	for k, it := range items {
		if r := readers[k]; r != nil && r.output == nn.Aligned {
			before := it.Seq.Len() - len(it.IDs)
			call(k, func() {
				for i, end := max(r.next-before, 0), min(r.to-before, len(it.IDs)); i < end; i++ {
					at := source + i
					if i >= it.read {
						at = behind + i - it.read
					}
					r.take(e.runner.Aligned(at))
				}
			})
		}
		source += it.read
		behind += len(it.IDs) - it.read
		for _, b := range it.Branches {
			behind += len(b.IDs)
		}
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
	first := 0 // of the item's tokens in the pass, without those that encoders read
	for k, it := range items {
		if r := readers[k]; r != nil && r.output == output {
			before := it.Seq.Len() - len(it.IDs)
			for i, end := max(r.next-before, 0), min(r.to-before, len(it.IDs)); i < end; i++ {
				r.last = int32(first + i - it.read)
				rows, owners = append(rows, r.last), append(owners, k)
				if len(rows) == cap(e.rows) {
					flush()
				}
			}
		}
		first += len(it.IDs) - it.read
		for _, b := range it.Branches {
			first += len(b.IDs)
		}
	}
	flush()
}
