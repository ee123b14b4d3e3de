package main

import (
	"context"
	"errors"

	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/kernel"
)

// Exit codes, by the conventions of shells.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitLost        = 70      // EX_SOFTWARE: a rank of a divided model is lost; a supervisor starts all anew
	exitInterrupted = 128 + 2 // SIGINT
)

// usagef returns an error for an invalid command line. It names the flag, its value,
// and what is valid.
func usagef(format string, args ...any) error { return usage.Errorf(format, args...) }

// errDone ends a command that has done what a flag asked for in its place.
var errDone = errors.New("done")

// errSecond ends a rank that has got a second signal. The others cannot go on.
var errSecond = errors.New("it was ended by a second signal")

// outcome maps a command's error to an exit code and the line to print, which may be
// empty.
func outcome(err error) (code int, message string) {
	var wrong usage.Error
	switch {
	case err == nil || errors.Is(err, errDone):
		return exitOK, ""
	case errors.Is(err, context.Canceled):
		return exitInterrupted, "" // the user pressed Ctrl-C: no message
	case errors.Is(err, errSecond):
		return exitInterrupted, usage.OneLine(err)
	case errors.As(err, &wrong):
		return exitUsage, usage.OneLine(err)
	case errors.Is(err, kernel.ErrRanks):
		return exitLost, usage.OneLine(err)
	}
	return exitFailure, usage.OneLine(err)
}
