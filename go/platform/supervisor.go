package platform

import "os"

// A Supervisor is the program that has started this one, as far as it wants to know of it.
type Supervisor struct {
	// Sockets are those that it has handed over: each is a TCP or Unix socket that listens, and has its name. They are
	// this process's alone: its children do not inherit them.
	Sockets []*os.File

	// Asked is closed when it asks this process to end in order; nil: it does so by SIGTERM.
	Asked <-chan struct{}

	tell func(state string) error // nil: it asks for nothing
	exit func(code int)           // nil: it sees by itself that a process ends
}

// Tell tells the supervisor what this process does: READY=1 or STOPPING=1. Where it asks for nothing, nothing is done.
func (s Supervisor) Tell(state string) error {
	if s.tell == nil {
		return nil
	}
	return s.tell(state)
}

// Exit ends this process at once with an exit code. A supervisor that starts again what fails, and has asked for this end, sees no
// failure in it.
func (s Supervisor) Exit(code int) {
	if s.exit != nil {
		s.exit(code)
	}
	os.Exit(code)
}
