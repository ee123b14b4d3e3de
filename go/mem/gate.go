package mem

import (
	"context"
	"slices"
	"sync"
)

// A Gate bounds the memory of work that is done at the same time: it admits as much as 1/part of a Budget holds,
// and reserves what is admitted. Who comes waits, in the order of arrival, until what was admitted before has
// released enough. Small work has a share of its own, so that it does not wait for large, and is admitted even if the
// budget has no memory left. Work larger than its share is admitted alone, if the budget has the memory. A nil Gate
// admits everything. It is safe for concurrent use.
type Gate struct {
	budget *Budget
	part   uint64
	spare  func(n uint64) (freed uint64)

	mu    sync.Mutex
	taken *Reservation
	small lane
	large lane
}

// A lane is the work of a Gate that shares a part of it.
type lane struct {
	used  uint64
	queue []*entrant // in the order of arrival
}

// An entrant waits to be admitted.
type entrant struct {
	bytes uint64
	told  chan error // of capacity 1: nil is that it is admitted
}

// share returns how many bytes are for small work and for large at a time, and up to how many bytes work is small.
func (g *Gate) share() (small, large, smallest uint64) {
	limit, _ := g.budget.Limit()
	all := limit / g.part
	small = max(all/4, leastShare)
	return small, all - min(all, small), small / 16
}

// leastShare is the least share of small work.
const leastShare = 4 << 20

// NewGate returns a Gate to 1/part of a budget, whose reservations have the purpose. spare, unless nil, frees about n
// bytes of the budget that nobody needs now; it is called when nothing is admitted and the next one does not fit.
func NewGate(b *Budget, purpose string, part uint64, spare func(n uint64) (freed uint64)) *Gate {
	taken, _ := b.Reserve(purpose, 0) // nothing is always free
	return &Gate{budget: b, part: part, spare: spare, taken: taken}
}

// A Pass is the memory of work that was admitted.
type Pass struct {
	gate  *Gate
	lane  *lane
	bytes uint64
}

// Enter waits until work of n bytes is admitted. It returns the cause of ctx if that ends first, and a *LimitError
// if the work can never be admitted, or if the budget has no memory for it although nothing else is admitted.
func (g *Gate) Enter(ctx context.Context, n uint64) (*Pass, error) {
	if g == nil {
		return nil, nil
	}
	g.mu.Lock()
	limit, reason := g.budget.Limit()
	if n > limit {
		g.mu.Unlock()
		return nil, &LimitError{Purpose: g.taken.purpose, Need: n, Free: limit, Limit: limit, Reason: reason}
	}
	l := &g.large
	if _, _, smallest := g.share(); n <= smallest {
		l = &g.small
	}
	e := &entrant{bytes: n, told: make(chan error, 1)}
	l.queue = append(l.queue, e)
	g.admit()
	g.mu.Unlock()
	p := &Pass{g, l, n}
	select {
	case err := <-e.told: // as a rule at once
		return p.unless(err)
	default:
	}
	select {
	case err := <-e.told:
		return p.unless(err)
	case <-ctx.Done():
	}
	g.mu.Lock()
	if i := slices.Index(l.queue, e); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		g.admit()
		g.mu.Unlock()
		return nil, context.Cause(ctx)
	}
	g.mu.Unlock()
	if err := <-e.told; err == nil {
		p.Release()
	}
	return nil, context.Cause(ctx)
}

// unless returns the pass, or the error that there is in its place.
func (p *Pass) unless(err error) (*Pass, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

// admit admits the first of each lane as long as they fit.
func (g *Gate) admit() {
	for _, l := range []*lane{&g.small, &g.large} {
		for len(l.queue) > 0 {
			e := l.queue[0]
			fits, err := g.take(l, e.bytes)
			if !fits && err == nil {
				break
			}
			l.queue = slices.Delete(l.queue, 0, 1)
			e.told <- err
		}
	}
}

// take reserves n bytes for a lane, unless others have to release some first. It is an error if there are no others.
func (g *Gate) take(l *lane, n uint64) (fits bool, err error) {
	share, large, _ := g.share()
	if l == &g.large {
		share = large
	}
	if l.used > 0 && l.used+n > share {
		return false, nil
	}
	total := g.small.used + g.large.used
	if err = g.taken.Resize(total + n); err != nil && l == &g.small {
		g.taken.Set(total + n)
		err = nil
	}
	if err != nil && total > 0 {
		return false, nil
	}
	if short, ok := err.(*LimitError); ok && g.spare != nil {
		g.spare(short.Missing())
		err = g.taken.Resize(n)
	}
	if err != nil {
		return false, err
	}
	l.used += n
	return true, nil
}

// Shrink changes the memory of a pass to n bytes, if it has more.
func (p *Pass) Shrink(n uint64) {
	if p == nil || n >= p.bytes {
		return
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	p.lane.used -= p.bytes - n
	p.bytes = n
	_ = g.taken.Resize(g.small.used + g.large.used) // shrinking cannot fail
	g.admit()
}

// Release ends the work. Releasing again, and releasing nil, is a no-op.
func (p *Pass) Release() { p.Shrink(0) }
