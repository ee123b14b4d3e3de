package engine

import "github.com/quern-llm/quern/go/model"

// Measure makes the passes that follow add to a profile that begins at nothing,
// or, if on is false, no longer do: such passes cost nothing more for it.
func (e *Engine) Measure(on bool) { e.runner.Measure(on) }

// Profile returns where the time of each operation went since Measure.
func (e *Engine) Profile() []model.OpProfile { return e.runner.Profile() }
