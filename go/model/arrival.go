package model

import (
	"context"
	"fmt"
	"sync"

	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
)

// An arrival packs matrices in order of use while the first passes run; a pass waits for those of each layer.
type arrival struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	place  map[*matrix]int // 1 for the first

	mu   sync.Mutex
	more *sync.Cond
	here int   // so many are packed
	err  error // why no more will be
}

// canWait reports whether a matrix may be packed after the program was built: nothing is computed from its
// values, which need not fit a layout, and no other matrix depends on it.
func (x *matrix) canWait() bool {
	return x.anonymous() && x.squares == nil && x.shared == nil && x.remade == nil && (x.panels != nil || together(x.parts[0]) == 1 && x.Layout == kernel.X16)
}

// arrive packs the remaining matrices in the background. It takes over the reading and its feed.
func (m *Model) arrive(of *reading) {
	if len(of.later) == 0 {
		return
	}
	a := &arrival{place: map[*matrix]int{}}
	a.more = sync.NewCond(&a.mu)
	for i, x := range of.later {
		a.place[x] = i + 1
	}
	r := *of
	of.feed = nil
	until := r.Until
	if until == nil {
		until = context.Background()
	}
	r.Until, a.cancel = context.WithCancel(until)
	r.Lent, r.spare = 0, nil // of the time before
	if r.feed == nil || !r.feed.later {
		r.feed.close()
		r.feed = m.newFeed(r.later, nil, r.Options)
	}
	m.arriving = a
	a.ended.Go(func() {
		defer r.feed.close()
		leave := r.Early()
		defer leave()
		for _, x := range r.later {
			err := panics.Catch(func() error { return r.matrix(x) })
			if a.came(err); err != nil {
				r.progress(r.total)
				return
			}
		}
	})
}

// came records that the next matrix is packed, or the error.
func (a *arrival) came(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err = err; err == nil {
		a.here++
	}
	a.more.Broadcast()
}

// isHere reports whether the first n matrices are packed.
func (a *arrival) isHere(n int) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.here >= n
}

// wait waits for the first n matrices.
func (a *arrival) wait(n int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.here < n && a.err == nil {
		a.more.Wait()
	}
	if a.here >= n {
		return nil
	}
	return a.err
}

// all returns the number of matrices to wait for.
func (a *arrival) all() int {
	if a == nil {
		return 0
	}
	return len(a.place)
}

// needed returns how many matrices must be packed before these operations run.
func (a *arrival) needed(w *weights, ops []kernel.Op) (n int) {
	for _, op := range ops {
		if mm, ok := op.(kernel.Matmul); ok {
			for _, p := range mm.Parts {
				n = max(n, a.place[w.byName[p.Name]])
			}
		}
	}
	return n
}

func (a *arrival) end() {
	if a != nil {
		a.cancel()
		a.ended.Wait()
	}
}

// early runs some tokens of the batch layer by layer, waiting for weights that are still being packed.
func (r *Runner) early(from, to int, ps *plans, stop *kernel.Stop, between func()) error {
	if from == to {
		return nil
	}
	a := r.model.arriving
	if err := r.await(a.needed(r.weights, r.program.Begin)); err != nil {
		return err
	}
	err := r.stepwise(from, to, ps, stop, between, func(i int) error {
		if err := r.await(a.needed(r.weights, ps.steps[i].ops)); err != nil {
			return err
		}
		ps.layers[i].Run(r.pool, r.bufs, r.batch, r.work.Bytes())
		return nil
	})
	if err != nil {
		return err
	}
	return r.await(a.all()) // for the outputs
}

// await waits for n matrices; others may use the pool meanwhile.
func (r *Runner) await(n int) (err error) {
	a := r.model.arriving
	if a.isHere(n) {
		return nil
	}
	wait := func() { err = a.wait(n) }
	if r.config.Wait != nil {
		r.config.Wait(wait)
	} else {
		wait()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.model.file.Paths[0], err)
	}
	return nil
}
