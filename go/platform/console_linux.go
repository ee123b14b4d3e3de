package platform

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

const getTermios, setTermios = unix.TCGETS, unix.TCSETS

// Start prepares this process: a limit on the size of files is an error of writing, which has a line, and not a signal.
func Start() { signal.Ignore(syscall.SIGXFSZ) }
