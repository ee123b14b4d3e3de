package constrain

import "errors"

// Bounds of the work for one text. A step, such as a head followed by a byte, takes 20 to 100 ns. Grammars
// that people write take some 10,000 steps for a mask at first, and a few once it is known.
//
// Masks are computed beside a pass, and only their text waits for them. Other texts wait while one accepts a token,
// and for its forecast.
const (
	maxMask     = 1 << 23  // steps of a mask
	maxAccept   = 1 << 20  // steps of accepting a token
	maxForecast = 1 << 18  // steps of a forecast
	maxGraph    = 32 << 20 // bytes of the stacks of a text
	maxCompile  = 1 << 26  // instructions looked at to find what rules begin with, while a grammar is compiled
)

// An allowance is the steps that a text may still take.
type allowance struct {
	left int
	most int
	more int // that each token adds, up to the most
}

var (
	forMasks  = allowance{1 << 25, 1 << 25, 1 << 17}
	forTokens = allowance{1 << 22, 1 << 22, 1 << 14}
)

// ErrLimit reports a text for which the grammar exceeds the limits.
var ErrLimit = errors.New("the grammar is too ambiguous or too deep for this text")

// ErrStopped reports a text whose work was stopped.
var ErrStopped = errors.New("the grammar was stopped")

// A meter bounds the work of a call.
type meter struct {
	left int         // steps
	next int         // stop is asked when left is below that
	stop func() bool // whether nobody waits for the result; nil: somebody does
}

func newMeter(steps int, stop func() bool) meter {
	return meter{left: steps, next: max(steps-interval, 0), stop: stop}
}

// interval is the number of steps between two questions to stop: about a millisecond.
const interval = 1 << 14

// An exceeded is the panic of a meter.
type exceeded struct{ error }

// spend counts n steps. It panics with exceeded if there are none left, or the work is stopped.
func (m *meter) spend(n int) {
	if m.left -= n; m.left < m.next {
		m.ask()
	}
}

func (m *meter) ask() {
	if m.left < 0 {
		panic(exceeded{ErrLimit})
	}
	if m.stop != nil && m.stop() {
		panic(exceeded{ErrStopped})
	}
	m.next = max(m.left-interval, 0)
}
