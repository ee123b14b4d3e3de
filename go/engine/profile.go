package engine

import "github.com/quern-llm/quern/go/model"

// Measure starts a new profile, to which the passes that follow add. If on is false,
// profiling stops and has no cost.
func (e *Engine) Measure(on bool) { e.runner.Measure(on) }

// Profile returns the times of each operation since Measure.
func (e *Engine) Profile() []model.OpProfile { return e.runner.Profile() }
