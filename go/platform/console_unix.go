//go:build unix

package platform

import (
	"os"

	"golang.org/x/sys/unix"
)

// Raise sends a signal to this process.
func Raise(s os.Signal) error { return unix.Kill(os.Getpid(), s.(unix.Signal)) }

// HideTyping keeps a terminal from showing what is typed, until restore is called. It does nothing for what is none.
func HideTyping(terminal *os.File) (restore func()) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return func() {}
	}
	quiet := *before
	quiet.Lflag &^= unix.ECHO
	_ = unix.IoctlSetTermios(fd, setTermios, &quiet) // what it was read from a moment ago
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }
}
