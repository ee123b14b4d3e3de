package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Exit codes, as shells and their users know them.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 128 + 2 // SIGINT
)

// A usageError is a mistake in the command line, not in what it names.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef returns an error for a command line that cannot be carried out as it
// is written. It names the flag, its value, and what would work.
func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// outcome maps what a command returned to an exit code and to the line to
// print, empty where there is nothing to say.
func outcome(err error) (code int, message string) {
	var usage usageError
	switch {
	case err == nil:
		return exitOK, ""
	case errors.Is(err, context.Canceled):
		return exitInterrupted, "" // who pressed Ctrl-C knows
	case errors.As(err, &usage):
		return exitUsage, oneLine(err)
	}
	return exitFailure, oneLine(err)
}

// oneLine returns the text of err on a single line, whatever the names and
// paths in it hold.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool {
		return r < ' ' || r == 0x7f
	}), " ")
}
