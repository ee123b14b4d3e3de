package engine

import "github.com/quern-llm/quern/go/model"

// Measure starts a new profile, to which the passes that follow add. If on is false,
// profiling stops and has no cost.
func (e *Engine) Measure(on bool) { e.runner.Measure(on) }

// Profile returns the times of each operation since Measure.
func (e *Engine) Profile() []model.OpProfile { return e.runner.Profile() }

// Tap starts new sums of what products multiply by, to which the passes that follow add. If on is false, they end, and
// have no cost.
func (e *Engine) Tap(on bool) { e.runner.Tap(on) }

// Tapped calls visit with the sums since Tap of each tensor.
func (e *Engine) Tapped(visit func(model.Tapped)) { e.runner.Tapped(visit) }

// TapProducts has the sums that Tap started count products of columns too, of the tensors that want returns a span for.
func (e *Engine) TapProducts(want func(tensor string) (span int)) { e.runner.TapProducts(want) }
