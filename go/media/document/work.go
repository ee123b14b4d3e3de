package document

import (
	"context"
	"io"
	"time"
)

// A work is the reading of one document: what it may still take.
type work struct {
	ctx      context.Context // of who asked
	until    time.Time
	unpacked int64 // bytes that may still be
	limits   Limits
	reserved int64
	free     []func()
	failed   error // of take
}

func newWork(ctx context.Context, l Limits) *work {
	if l.Unpacked == 0 {
		l.Unpacked = MaxUnpacked
	}
	if l.Text == 0 {
		l.Text = MaxText
	}
	if l.Pages == 0 {
		l.Pages = MaxPages
	}
	if l.Time == 0 {
		l.Time = MaxTime
	}
	return &work{ctx: ctx, until: time.Now().Add(l.Time), unpacked: l.Unpacked, limits: l}
}

// release gives back the memory that was asked for.
func (w *work) release() {
	for _, free := range w.free {
		free()
	}
}

// goOn returns an error once nobody waits or the time is over.
func (w *work) goOn() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if time.Now().After(w.until) {
		return tooLarge("it takes more than %v to read; send a part of it", w.limits.Time)
	}
	return nil
}

// mostKept is how much of what is unpacked is there at a time: contents of pages are read and left.
const mostKept = 128 << 20

// step is how much memory is asked for at a time.
const step = 4 << 20

// take counts bytes that are unpacked.
func (w *work) take(n int) error {
	if w.failed == nil {
		w.failed = w.count(n)
	}
	return w.failed
}

func (w *work) count(n int) error {
	if w.unpacked -= int64(n); w.unpacked < 0 {
		return tooLarge("more than %d MiB when it is unpacked", w.limits.Unpacked>>20)
	}
	for w.limits.Reserve != nil && min(w.limits.Unpacked-w.unpacked, mostKept) > w.reserved {
		free, err := w.limits.Reserve(step)
		if err != nil {
			return err
		}
		w.free = append(w.free, free)
		w.reserved += step
	}
	return w.goOn()
}

// counted is a reader of what is unpacked.
func (w *work) counted(r io.Reader) io.Reader { return countedReader{w, r} }

type countedReader struct {
	w *work
	r io.Reader
}

func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if short := c.w.take(n); short != nil {
		return 0, short
	}
	return n, err
}

// A pen writes a text of bounded length.
type pen struct {
	w    *work
	text []byte
}

func (p *pen) write(s string) error {
	if len(p.text)+len(s) > p.w.limits.Text {
		return tooLarge("more than %d MiB of text", p.w.limits.Text>>20)
	}
	p.text = append(p.text, s...)
	return nil
}
