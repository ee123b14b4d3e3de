// Package usage tells mistakes in settings from all other errors: what was asked for cannot be, whatever
// files or the machine are like. The program ends with another code for them.
package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
)

// An Error is a mistake in the settings themselves, as opposed to what they name. Its text names a setting
// by its flag.
type Error struct{ error }

func (e Error) Unwrap() error { return e.error }

// Errorf returns an Error with a text that names the flag, its value, and what is valid.
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }

// OneLine returns the text of err on a single line, even if names and paths in it contain line breaks. What
// only names a system call or a layer of Go's network is left out.
func OneLine(err error) string {
	text := err.Error()
	var path *fs.PathError
	if errors.As(err, &path) && (strings.HasSuffix(path.Op, "stat") || path.Op == "open") {
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
