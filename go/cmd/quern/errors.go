package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
)

// Exit codes, by the conventions of shells.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 128 + 2 // SIGINT
)

// A usageError is a mistake in the command line itself, as opposed to what it names.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef returns an error for an invalid command line. It names the flag, its value,
// and what is valid.
func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// errDone ends a command that has done what a flag asked for in its place.
var errDone = errors.New("done")

// outcome maps a command's error to an exit code and the line to print, which may be
// empty.
func outcome(err error) (code int, message string) {
	var usage usageError
	switch {
	case err == nil || errors.Is(err, errDone):
		return exitOK, ""
	case errors.Is(err, context.Canceled):
		return exitInterrupted, "" // the user pressed Ctrl-C: no message
	case errors.As(err, &usage):
		return exitUsage, oneLine(err)
	}
	return exitFailure, oneLine(err)
}

// oneLine returns the text of err on a single line, even if names and paths in it
// contain line breaks. What only names a system call or a layer of Go's network is left out.
func oneLine(err error) string {
	text := err.Error()
	var path *fs.PathError
	if errors.As(err, &path) && strings.HasSuffix(path.Op, "stat") {
		text = strings.ReplaceAll(text, path.Error(), path.Path+": "+path.Err.Error())
	}
	var op *net.OpError
	if errors.As(err, &op) {
		text = strings.ReplaceAll(text, op.Error(), plainNetwork(op))
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return r < ' ' || r == 0x7f
	}), " ")
}

// plainNetwork returns what went wrong with a connection, without the words of dialing.
func plainNetwork(op *net.OpError) string {
	var call *os.SyscallError
	if errors.As(op.Err, &call) {
		return call.Err.Error()
	}
	return op.Err.Error()
}
