package engine

import (
	"context"
	"time"

	"github.com/quern-llm/quern/go/kernel"
)

// A Guest uses the threads of a device beside its engines, for something that takes long and is in no hurry.
type Guest struct {
	d     *Device
	ctx   context.Context
	since time.Time // when it got the turn that it has
}

// guestPart is how much of the time a guest computes while there are requests: one of so many parts.
const guestPart = 10

// Guest runs f, which may run kernels on the device's threads, in its turn. f calls Between as often as it can: what it
// computes in between is what requests wait for at most, beside their own passes. ctx ends its waiting.
func (d *Device) Guest(ctx context.Context, f func(g *Guest) error) error {
	leave := d.enter()
	defer leave()
	return d.inTurn(func() error { return f(&Guest{d: d, ctx: ctx, since: time.Now()}) })
}

// Pool returns the threads. How many they are may change in Between and in Aside.
func (g *Guest) Pool() *kernel.Pool { return g.d.pool }

// Between lets others compute. While there are requests, it returns when the guest has been waiting 9 times as long as it has
// computed, so that they take a tenth longer, and the guest gets on however many they are; else at once.
func (g *Guest) Between() {
	quiet := g.d.quiet()
	if quiet == nil && !g.d.turn.awaited() {
		g.since = time.Now()
		return
	}
	wait := (guestPart - 1) * time.Since(g.since)
	g.Aside(func() {
		if quiet == nil {
			return
		}
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-quiet:
		case <-t.C:
		case <-g.ctx.Done():
		}
	})
}

// Aside runs f, which runs no kernels, while others compute.
func (g *Guest) Aside(f func()) {
	g.d.aside(f)
	g.since = time.Now()
}

// quiet returns a channel that is closed when no loop has requests; nil: none has.
func (d *Device) quiet() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.loads) == 0 {
		return nil
	}
	if d.hushed == nil {
		d.hushed = make(chan struct{})
	}
	return d.hushed
}

// unload removes what a loop needs. d.mu is held.
func (d *Device) unload(l *Loop) {
	if delete(d.loads, l); len(d.loads) == 0 && d.hushed != nil {
		close(d.hushed)
		d.hushed = nil
	}
}
