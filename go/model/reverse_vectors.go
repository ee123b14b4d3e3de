package model

import (
	"errors"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// outRows are rows of a buffer, and their gradients in another one.
type outRows struct {
	x, d  kernel.Buf
	width int
}

// given is what is made of given rows, in the Output of that name, and the reverse of it.
type given struct {
	reversed
	in, out outRows
}

// vectors rewrites the vectors of tokens, and what is made of pooled ones: the output named after, if any.
func (r *reversal) vectors(out nn.Output, w *rewriting, after string) (err error) {
	r.begin(w.dx)
	if w.output, w.rows, err = r.made(out); err != nil || after == "" {
		return err
	}
	at := slices.IndexFunc(r.p.Outputs, func(o nn.Output) bool { return o.Name == after && o.Given })
	if at < 0 {
		return errors.New("it has no " + after)
	}
	out = r.p.Outputs[at]
	r.begin(w.dx)
	r.now[out.In] = out.In
	w.given.in = outRows{x: out.In, d: r.gradientBeside(out.In), width: r.p.Bufs[out.In].Width}
	w.given.reversed, w.given.out, err = r.made(out)
	return err
}

// made rewrites the operations of an output, of whose rows there are gradients.
func (r *reversal) made(out nn.Output) (reversed, outRows, error) {
	for _, op := range out.Ops {
		if err := r.keep(op); err != nil {
			return reversed{}, outRows{}, err
		}
	}
	x, ok := r.now[out.Buf]
	if !ok {
		return reversed{}, outRows{}, errors.New("nothing makes them")
	}
	d := r.gradientBeside(x)
	r.has[kernel.Columns{Buf: d}] = true
	l, err := r.end(x)
	return l, outRows{x: x, d: d, width: out.Width}, err
}
