package platform

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// Start prepares this process: its console, if it has one, takes the sequences of terminals. Its code page stays: Go reads and
// writes consoles in UTF-16, and who comes after this program has the page that was there before.
func Start() {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		var mode uint32
		if h := windows.Handle(f.Fd()); windows.GetConsoleMode(h, &mode) == nil {
			_ = windows.SetConsoleMode(h, mode|windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
		}
	}
}

// Raise ends this process as a signal does; Windows has no others that a process could send itself.
func Raise(s os.Signal) error {
	code := 1
	if n, ok := s.(syscall.Signal); ok {
		code = 128 + int(n)
	}
	os.Exit(code)
	return nil
}

// HideTyping keeps a terminal from showing what is typed, until restore is called. It does nothing for what is none.
func HideTyping(terminal *os.File) (restore func()) {
	h := windows.Handle(terminal.Fd())
	var before uint32
	if windows.GetConsoleMode(h, &before) != nil {
		return func() {}
	}
	_ = windows.SetConsoleMode(h, before&^windows.ENABLE_ECHO_INPUT)
	return func() { _ = windows.SetConsoleMode(h, before) }
}
