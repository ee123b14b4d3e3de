package quant

import (
	"context"
	"fmt"
	"io"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
)

// sampledWeights is of how many weights of a tensor, about, the error is measured: rows from all over it.
const sampledWeights = 1 << 19

// pieceWeights is how many of them are encoded at a time.
const pieceWeights = 1 << 16

// measure finds the errors of the types of one tensor, a type to a thread.
func (j *Job) measure(ctx context.Context, types []Sized) error {
	importance, err := j.Importance.of(types[0].Tensor)
	if err != nil {
		return err
	}
	err = panics.Share(j.Threads, len(types), func(i int) (err error) {
		types[i].Error, err = newEncoder(&types[i].Choice, importance).loss(ctx)
		return err
	})
	if j.Release != nil {
		j.Release(types[0].Tensor, 0, len(types[0].Data))
	}
	return err
}

// loss returns the error of a type, in the unit of Sized.
func (e *encoder) loss(ctx context.Context) (float64, error) {
	if e.To == e.Type {
		return 0, nil
	}
	matrices := e.rows / e.perMatrix
	each := min(max(sampledWeights/(e.n*matrices), 1), e.perMatrix) // rows of a matrix
	piece := min(max(pieceWeights/e.n, 1), each)
	var spoiled, whole float64
	var p part
	decoded := make([]float32, e.n)
	for m := range matrices {
		var columns []float32
		if e.importance != nil {
			columns = e.importance[m*e.n%len(e.importance):][:e.n]
		}
		for at := 0; at < each; at += piece {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			p.rows = min(piece, each-at)
			if err := e.round(&p, columns, func(r int) int { return m*e.perMatrix + (at+r)*e.perMatrix/each }); err != nil {
				return 0, err
			}
			to := RowBytes(e.To, e.n)
			for r := range p.rows {
				if err := Decode(e.To, decoded, p.out[r*to:][:to]); err != nil {
					return 0, err
				}
				x, y := distance(p.weights[r*e.n:][:e.n], decoded, columns)
				spoiled, whole = spoiled+x, whole+y
			}
		}
	}
	if whole == 0 {
		return 0, nil
	}
	return spoiled / whole, nil
}

// round encodes p.rows rows of one matrix, those that row returns.
func (e *encoder) round(p *part, columns []float32, row func(r int) int) error {
	from := RowBytes(e.Type, e.n)
	p.weights = grow(p.weights, p.rows*e.n)
	p.out = grow(p.out, p.rows*RowBytes(e.To, e.n))
	for r := range p.rows {
		if err := Decode(e.Type, p.weights[r*e.n:][:e.n], e.Data[row(r)*from:][:from]); err != nil {
			return err
		}
	}
	return Encode(e.To, p.out, p.weights, e.n, columns)
}

// distance returns the squares of w - v and of w, each times the importance of its column.
func distance(w, v, columns []float32) (spoiled, whole float64) {
	for i, x := range w {
		c := 1.0
		if columns != nil {
			c = float64(columns[i])
		}
		d := float64(x) - float64(v[i])
		spoiled += c * d * d
		whole += c * float64(x) * float64(x)
	}
	return spoiled, whole
}

// Round writes a tensor in the type that it has, of the values that the chosen type makes of its weights.
func (j *Job) Round(ctx context.Context, out io.Writer, c *Choice) error {
	if !CanEncode(c.Type, int(c.Dims[0])) {
		return fmt.Errorf("it is %v, in which rounded weights cannot be kept", c.Type)
	}
	back := &rounder{out: out, from: c.To, to: c.Type, n: int(c.Dims[0])}
	return j.tensor(ctx, back, c, Fast)
}

// A rounder is written whole rows of one type and writes them as another.
type rounder struct {
	out      io.Writer
	from, to gguf.Type
	n        int
	weights  []float32
	rows     []byte
}

func (r *rounder) Write(p []byte) (int, error) {
	size := RowBytes(r.from, r.n)
	rows := len(p) / size
	r.weights, r.rows = grow(r.weights, rows*r.n), grow(r.rows, rows*RowBytes(r.to, r.n))
	for i := range rows {
		if err := Decode(r.from, r.weights[i*r.n:][:r.n], p[i*size:][:size]); err != nil {
			return 0, err
		}
	}
	if err := Encode(r.to, r.rows, r.weights, r.n, nil); err != nil {
		return 0, err
	}
	if _, err := r.out.Write(r.rows); err != nil {
		return 0, err
	}
	return len(p), nil
}
