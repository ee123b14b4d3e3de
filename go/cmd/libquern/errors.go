package main

// #include "libquern.h"
import "C"

import (
	"errors"
	"fmt"

	"github.com/quern-llm/quern"
)

// The codes of errors.
const (
	codeInvalid     = C.QUERN_INVALID
	codeClosed      = C.QUERN_CLOSED
	codeContextFull = C.QUERN_CONTEXT_FULL
	codeMemory      = C.QUERN_MEMORY
	codeBusy        = C.QUERN_BUSY
	codeUnsupported = C.QUERN_UNSUPPORTED
	codeFile        = C.QUERN_FILE
	codeCancelled   = C.QUERN_CANCELLED
	codeTimeout     = C.QUERN_TIMEOUT
	codeInternal    = C.QUERN_INTERNAL
)

// A failure is an error with a code.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

func invalid(format string, args ...any) error {
	return &failure{codeInvalid, fmt.Sprintf(format, args...)}
}

var (
	errCancelled = &failure{codeCancelled, "it was cancelled"}
	errClosed    = &failure{codeClosed, "the handle was closed"}
	errTimeout   = &failure{codeTimeout, "nothing came in time"}
	errReading   = &failure{codeBusy, "another thread waits for the events of this handle; one at a time may"}
)

// codeOf returns the code of an error.
func codeOf(err error) int {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f.code
	}
	for _, one := range []struct {
		kind error
		code int
	}{
		{quern.ErrInvalid, codeInvalid}, {quern.ErrClosed, codeClosed}, {quern.ErrContextFull, codeContextFull},
		{quern.ErrMemory, codeMemory}, {quern.ErrBusy, codeBusy}, {quern.ErrUnsupported, codeUnsupported},
		{quern.ErrFile, codeFile},
	} {
		if errors.Is(err, one.kind) {
			return one.code
		}
	}
	return codeInternal
}

// guarded returns the error of f, also where that panics.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a fault in the library: %v", p)
		}
	}()
	return f()
}
