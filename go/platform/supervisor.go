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
}

// Tell tells the supervisor what this process does: READY=1 or STOPPING=1. Where it asks for nothing, nothing is done.
func (s Supervisor) Tell(state string) error {
	if s.tell == nil {
		return nil
	}
	return s.tell(state)
}
