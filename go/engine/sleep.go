package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// ErrAsleep reports a request to a sleeping model.
var ErrAsleep = errors.New("the model sleeps")

// errUsed reports that a model cannot sleep because it has requests.
var errUsed = errors.New("the model is in use")

// bytes returns the memory of weights and activations.
func (e *Engine) bytes() uint64 {
	n := e.model.WeightBytes() + e.runner.Bytes()
	if e.hot != nil {
		n += e.hot.Bytes()
	}
	for _, enc := range e.encoders.loaded {
		if enc != nil {
			n += enc.WeightBytes()
		}
	}
	return n
}

// sleep releases the weights and the activations, on all ranks. The pages of the file become the first that the kernel
// reclaims.
func (e *Engine) sleep() {
	e.sleepOthers()
	e.device.leave(e)
	e.runner.Close()
	if e.mover != nil {
		e.mover.Close()
		e.mover = nil
	}
	e.model.Close()
	e.mediaRows.trim(0)
	e.encoders.close()
	if e.hot != nil {
		e.hot.Release()
	}
	e.file.Cold()
	e.taken.Store(0)
}

// sleepOthers has the other ranks release their weights. The engine may be closed before the watch finds out that one is gone.
func (e *Engine) sleepOthers() {
	if err := e.asked(func() error { return e.lead.Sleep(context.Background()) }); errors.Is(err, ErrRanks) {
		e.lost(err)
	}
}

// waking returns what the engine takes when it wakes with so many bytes free, as far as that is reserved
// before weights are read.
func (e *Engine) waking(free uint64) (s *model.Survey, p Plan, err error) {
	c := e.config
	if s, err = c.survey(e.file); err != nil {
		return nil, p, err
	}
	if p, err = c.place(s, free, e.device.Threads()); err != nil {
		return nil, p, err
	}
	// As large as when it was opened; only the residency may differ.
	p.Use.Ctx, p.Use.Batch = e.ctx, e.batch
	p.Need, err = c.estimate(s, p.Use)
	one := e.oneContext()
	p.Need.KV = one - min(e.kv.Reserved(), one)
	return s, p, err
}

// oneContext returns the KV memory of one request with a full context, at most the size of the pool.
func (e *Engine) oneContext() uint64 { return min(least(e.kv.Layout(), e.ctx), e.kv.Most()) }

// wake loads the weights again, unless ctx ends. The caller takes over the model and the runner.
func (e *Engine) wake(ctx context.Context, progress func(done, total uint64)) (*model.Model, *model.Runner, error) {
	if err := e.file.Unchanged(); err != nil {
		return nil, nil, err
	}
	s, p, err := e.waking(e.device.budget.Free())
	if err != nil {
		return nil, nil, err
	}
	if e.lead == nil {
		return e.wakeAlone(ctx, s, p, progress)
	}
	e.talk.Lock()
	defer e.talk.Unlock()
	if err := e.device.inTurn(func() error { return e.lead.Wake(p.Use) }); err != nil {
		return nil, nil, err
	}
	m, r, err := e.wakeAlone(ctx, s, p, progress)
	if others := e.lead.Woken(context.Background()); err == nil && others != nil {
		err = others
		r.Close()
		m.Close()
	}
	if err != nil {
		_ = e.device.inTurn(func() error { return e.lead.Sleep(context.Background()) })
		return nil, nil, err
	}
	r.LedBy(e.lead)
	return m, r, nil
}

// wakeAlone loads this process's weights.
func (e *Engine) wakeAlone(ctx context.Context, s *model.Survey, p Plan, progress func(done, total uint64)) (*model.Model, *model.Runner, error) {
	m, leave, err := e.loadWeights(ctx, s, p, progress)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	r, err := e.newRunner(m)
	if err == nil && len(e.adapters) > 0 {
		if err = r.SetAdapters(e.adapters); err != nil {
			r.Close()
		}
	}
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	return m, r, nil
}

// draftPurpose is the budget purpose of memory kept free for a draft model while another model is loaded.
const draftPurpose = "a draft model"

// engines returns the loop's engine and its draft model's.
func (l *Loop) engines() []*Engine {
	if d := l.e.drafts; d != nil {
		return []*Engine{l.e, d.e}
	}
	return []*Engine{l.e}
}

// Sleep releases the weights of a loop without requests, and those of its draft model. Only the prefix caches
// stay, for when it wakes. Requests are refused until then.
func (l *Loop) Sleep() error {
	if err := l.e.notByLayers("sleep is"); err != nil {
		return err
	}
	return l.Between(func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.jobs) > 0 {
			return errUsed
		}
		if l.asleep {
			return nil
		}
		l.asleep = true
		for _, e := range l.engines() {
			e.sleep()
			_ = e.kv.Resize(e.kv.Used()) // shrinking cannot fail
		}
		l.held.Release()
		l.seeDrafts()
		return nil
	})
}

// A woken is an engine and what it has loaded to wake.
type woken struct {
	*Engine
	m    *model.Model
	r    *model.Runner
	room *mem.Reservation // what its keys and values will need: streamed weights of another would take all that is left
}

func (w *woken) close() {
	if w.room != nil {
		w.room.Release()
	}
	w.r.Close()
	w.m.Close()
	w.sleepOthers()
}

// Wake undoes Sleep. Only one goroutine may call it. If there is too little memory, a file cannot be read, or
// ctx ends, the loop stays asleep.
func (l *Loop) Wake(ctx context.Context, progress func(done, total uint64)) error {
	l.mu.Lock()
	asleep := l.asleep
	l.mu.Unlock()
	if !asleep {
		return nil
	}
	if err := l.held.Resize(l.heldBytes); err != nil {
		return fmt.Errorf("%s: %w", l.e.file.Name(), err)
	}
	all, err := l.wakeAll(ctx, progress)
	if err == nil {
		err = l.Between(func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			for i, w := range all {
				if err := w.install(); err != nil {
					for _, w := range all[:i] {
						w.uninstall()
					}
					return fmt.Errorf("%s: %w", w.file.Name(), err)
				}
			}
			for _, w := range all {
				w.keepHot()
			}
			l.asleep = false
			l.seeDrafts()
			return nil
		})
	}
	if err != nil {
		for _, w := range all {
			w.close()
		}
		l.held.Release()
		return err
	}
	for _, e := range l.engines() {
		if err := l.e.device.join(e); err != nil { // there are more threads by now, and no memory for their scratch
			_ = l.Sleep() // it has no requests yet
			return err
		}
	}
	return nil
}

// wakeAll loads the weights of the loop's engines again. The memory that the draft model needs is kept free
// for it meanwhile.
func (l *Loop) wakeAll(ctx context.Context, progress func(done, total uint64)) (all []*woken, err error) {
	budget, aside := l.e.device.budget, (*mem.Reservation)(nil)
	release := func() {
		if aside != nil {
			aside.Release()
		}
		aside = nil
	}
	defer release()
	for i, e := range l.engines() {
		switch {
		case i > 0:
			release()
			progress = nil
		case e.drafts != nil:
			var p Plan
			if _, p, err = e.drafts.e.waking(budget.Free()); err == nil {
				aside, err = budget.Reserve(draftPurpose, p.Need.Total())
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.drafts.e.file.Name(), err)
			}
		}
		w := &woken{Engine: e}
		if w.m, w.r, err = e.wake(ctx, progress); err == nil {
			one := e.oneContext()
			if w.room, err = budget.Reserve("keys and values", one-min(e.kv.Reserved(), one)); err != nil {
				w.close()
			}
		}
		if err != nil {
			for _, w := range all {
				w.close()
			}
			return nil, fmt.Errorf("%s: %w", e.file.Name(), err)
		}
		all = append(all, w)
	}
	return all, nil
}

// install makes the engine use what was loaded.
func (w *woken) install() error {
	e := w.Engine
	mover, err := e.newMover(w.m)
	w.room.Release()
	if err == nil {
		err = e.kv.Resize(max(e.kv.Limit(), e.oneContext()))
	}
	if err != nil {
		if mover != nil {
			mover.Close()
		}
		return err
	}
	e.mover = mover
	e.model, e.runner, e.hot, e.streamed = w.m, w.r, nil, 0
	if st, ok := w.m.Stream(); ok {
		e.streamed = st.Limit
	}
	e.taken.Store(e.bytes())
	return nil
}

// keepHot reserves room for pages of a mapped file, from what is left after all required memory.
func (w *woken) keepHot() {
	if budget := w.device.budget; w.m.Residency == model.Mapped {
		w.hot, _ = budget.Reserve(hotPurpose, min(w.file.Size(), budget.Free()/2)) // none if that is gone by now
		w.taken.Store(w.bytes())
	}
}

// uninstall releases what install took, because another engine could not be installed.
func (w *woken) uninstall() {
	if w.mover != nil {
		w.mover.Close()
		w.mover = nil
	}
	_ = w.kv.Resize(w.kv.Used()) // shrinking cannot fail
	w.taken.Store(0)
}

// Bytes returns the memory of the engines and the loop. It is safe for concurrent use.
func (l *Loop) Bytes() uint64 {
	n := l.held.Bytes()
	for _, e := range l.engines() {
		n += e.taken.Load() + e.kv.Reserved()
	}
	return n
}

// Need returns the memory that waking takes if so many bytes are free, including one full context of KV
// memory. It is less if the weights cannot be packed.
func (l *Loop) Need(free uint64) (need uint64, err error) {
	all := l.engines()
	slices.Reverse(all) // the draft model has what it needs, and the other the rest
	for _, e := range all {
		_, p, err := e.waking(free - min(free, need))
		if err != nil {
			return need, err
		}
		need += p.Need.Total()
	}
	return need + l.heldBytes, nil
}
