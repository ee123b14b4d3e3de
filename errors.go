package quern

import (
	"errors"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
)

// The kinds of errors. Each error of this package, but for those of a context and of the caller's own functions, is one of
// these by [errors.Is]; its text says what is wrong, and what would work.
var (
	ErrContextFull = errors.New("quern: the text does not fit in the context")
	ErrMemory      = errors.New("quern: there is not enough memory")
	ErrBusy        = errors.New("quern: too many requests are waiting")
	ErrUnsupported = errors.New("quern: not supported")
	ErrFile        = errors.New("quern: the file cannot be used")
	ErrInvalid     = errors.New("quern: not valid")
	ErrClosed      = errors.New("quern: closed")
	ErrInternal    = errors.New("quern: internal error")
)

// A failure is an error of one of the kinds.
type failure struct{ kind, cause error }

func (f *failure) Error() string        { return inOptions.Replace(f.cause.Error()) }
func (f *failure) Is(target error) bool { return target == f.kind }
func (f *failure) Unwrap() error        { return f.cause }

func invalid(text string) error     { return &failure{ErrInvalid, errors.New(text)} }
func unsupported(text string) error { return &failure{ErrUnsupported, errors.New(text)} }

var (
	errNilContext   = invalid("the context is nil; give context.Background()")
	errClosed       = &failure{ErrClosed, errors.New("the model is closed")}
	errDeviceClosed = &failure{ErrClosed, errors.New("the device is closed")}
)

// classify gives an error its kind, if it has none. usual is that of errors whose cause is nothing that is known.
func classify(err, usual error) error {
	if err == nil {
		return nil
	}
	if f := (*failure)(nil); errors.As(err, &f) {
		return err
	}
	var (
		busy  *engine.BusyError
		short *engine.MemoryError
		limit *mem.LimitError
		fit   *engine.FitError
		broke *engine.PanicError
	)
	if errors.As(err, &fit) {
		advised(fit)
	}
	kind := usual
	switch {
	case errors.Is(err, engine.ErrTooLong):
		kind = ErrContextFull
	case errors.As(err, &busy):
		kind = ErrBusy
	case errors.As(err, &short), errors.As(err, &fit), errors.As(err, &limit), errors.Is(err, kvcache.ErrFull):
		kind = ErrMemory
	case errors.Is(err, engine.ErrClosing):
		return errClosed
	case errors.Is(err, engine.ErrBothWays), errors.Is(err, engine.ErrAnswers), errors.Is(err, engine.ErrNoScores),
		errors.Is(err, engine.ErrHears):
		kind = ErrUnsupported
	case errors.Is(err, engine.ErrDamaged), errors.Is(err, engine.ErrOverflow):
		kind = ErrFile
	case errors.As(err, &broke):
		kind = ErrInternal
	}
	return &failure{kind, err}
}
