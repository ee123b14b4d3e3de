package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/quant"
)

// pieceElems is how many numbers a thread computes at a time: 8 MB of them.
const pieceElems = 2 << 20

// A pipe computes tensors in pieces, several at a time, and writes them in order.
type pipe struct {
	ctx      context.Context
	threads  int
	done     uint64
	total    uint64
	progress func(done, total uint64)
	losses   losses
	free     chan *piece // pieces that are not in use
}

// A piece is a part of a tensor between reading and writing.
type piece struct {
	numbers []float32
	bytes   []byte
	ready   chan error

	squares, errors float64 // of the numbers, if the loss is measured
}

// write writes the bytes of a tensor.
func (p *pipe) write(to io.Writer, t *lang.Target) error {
	if p.free == nil {
		p.free = make(chan *piece, p.threads+1)
		for range p.threads + 1 {
			p.free <- &piece{ready: make(chan error, 1)}
		}
	}
	row := t.Dims[0]
	step := row // whole rows, unless a row is longer than a piece
	if block := uint64(t.Type.BlockElems()); row > pieceElems {
		step = pieceElems / block * block
	} else {
		step = max(pieceElems/row, 1) * row
	}
	total, lost := t.Elems(), p.losses.begin(t)
	queue := make(chan *piece, p.threads)
	work := make(chan struct{}, p.threads)
	stop := make(chan struct{})
	go func() {
		defer close(queue)
		for at := uint64(0); at < total; {
			n := min(step, total-at)
			if row > pieceElems { // a piece does not cross the end of a row
				n = min(n, row-at%row)
			}
			var x *piece
			select {
			case x = <-p.free:
			case <-stop:
				return
			}
			work <- struct{}{}
			go func(at uint64) {
				x.ready <- panics.Catch(func() error { return x.compute(t, at, n, lost != nil) })
				<-work
			}(at)
			select {
			case queue <- x:
			case <-stop:
				<-x.ready
				p.free <- x
				return
			}
			at += n
		}
	}()
	var err error
	for x := range queue {
		failed := <-x.ready
		if err == nil {
			if err = failed; err == nil {
				err = context.Cause(p.ctx)
			}
			if err == nil {
				_, err = to.Write(x.bytes)
				p.done += uint64(len(x.bytes))
			}
			if lost != nil {
				lost.squares += x.squares
				lost.errors += x.errors
			}
			if err != nil {
				close(stop)
			} else if p.progress != nil {
				p.progress(p.done, p.total)
			}
		}
		p.free <- x
	}
	return err
}

// compute makes the bytes of n elements of a tensor, and measures how far they are from its numbers.
func (x *piece) compute(t *lang.Target, at, n uint64, measured bool) error {
	block := uint64(t.Type.BlockElems())
	size := n / block * uint64(t.Type.BlockBytes())
	if uint64(cap(x.bytes)) < size {
		x.bytes = make([]byte, size)
	}
	x.bytes = x.bytes[:size]
	if t.Bytes != nil {
		if err := t.Bytes(x.bytes, at); err != nil || !measured {
			return err
		}
	}
	if uint64(cap(x.numbers)) < n {
		x.numbers = make([]float32, n)
	}
	x.numbers = x.numbers[:n]
	if err := t.Read(x.numbers, at); err != nil {
		return err
	}
	if err := checkFinite(x.numbers); err != nil {
		return err
	}
	if t.Bytes == nil {
		if !fits(t.Type, x.numbers) {
			return fmt.Errorf("numbers beyond what F16 holds; want --outtype %s", gguf.BF16)
		}
		if err := quant.Encode(t.Type, x.bytes, x.numbers, int(min(n, t.Dims[0])), nil); err != nil {
			return err
		}
	}
	if !measured {
		return nil
	}
	var err error
	x.squares, x.errors, err = measure(t.Type, x.numbers, x.bytes, int(min(n, t.Dims[0])))
	return err
}

var errNotFinite = errors.New("a value that is not finite")

// checkFinite returns an error if a number is infinite or NaN.
func checkFinite(v []float32) error {
	for _, x := range v {
		if math.Float32bits(x)&0x7f800000 == 0x7f800000 {
			return errNotFinite
		}
	}
	return nil
}
