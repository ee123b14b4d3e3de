package engine

import "github.com/quern-llm/quern/go/model"

// Measure starts a new profile of the passes that follow. If on is false, profiling stops.
func (e *Engine) Measure(on bool) { e.runner.Measure(on) }

// Profile returns the times of each operation since Measure.
func (e *Engine) Profile() []model.OpProfile { return e.runner.Profile() }

// Tap starts new sums over the inputs of matrices, for the passes that follow. If on is false, summing stops.
func (e *Engine) Tap(on bool) { e.runner.Tap(on) }

// Tapped calls visit with the sums of each tensor since Tap.
func (e *Engine) Tapped(visit func(model.Tapped)) { e.runner.Tapped(visit) }

// TapProducts makes the sums started by Tap include products of pairs of columns, for the tensors for which
// want returns a span.
func (e *Engine) TapProducts(want func(tensor string) (span int)) { e.runner.TapProducts(want) }
