package form

import (
	"context"
	"errors"
	"runtime"

	"github.com/quern-llm/quern/go/grammar"
)

// Bounds of the work of compiling a form, in steps. Most take some 1,000 to 100,000.
const (
	someWork = 1 << 20 // some 30 ms
	mostWork = 1 << 28
)

// Forms are compiled by as many goroutines as there are CPUs. One that takes more than someWork is given up, waits for
// those like it, and begins anew: so others do not wait for it, and what waits has no memory.
var (
	some = make(chan struct{}, runtime.GOMAXPROCS(0))
	most = make(chan struct{}, 1)
)

// inTurn calls f with the work that it may do, perhaps twice.
func inTurn(ctx context.Context, f func(*grammar.Work) error) error {
	err := within(ctx, some, someWork, f)
	if errors.Is(err, grammar.ErrLarge) {
		err = within(ctx, most, mostWork, f)
	}
	return err
}

func within(ctx context.Context, turn chan struct{}, steps int, f func(*grammar.Work) error) (err error) {
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer grammar.Catch(&err)
	return f(grammar.NewWork(ctx, steps))
}
