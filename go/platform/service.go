package platform

import "time"

// A Service is a program that the system's service manager starts with the machine, and again when it fails.
type Service struct {
	Name    string // by which the manager and the log of events know it
	Title   string // for people
	About   string // a sentence
	Program string // an absolute path
	Args    []string
	Ending  time.Duration // what an end in order may take when the machine shuts down
}

// A ServiceState is what the service manager says of a service.
type ServiceState struct {
	Running bool
	Process int // its id; 0: there is none
	// Pending is what it is about to do, such as "starting"; empty: nothing.
	Pending string
	// Code is the exit code that it ended with, if it has ended.
	Code uint32
}

// Services is the system's service manager. Its errors are one line and say what to do.
type Services interface {
	// Install adds a service, which starts with the machine. It runs as an account of its own with few rights.
	Install(Service) error
	// Remove removes one that has ended.
	Remove(name string) error
	// Start and Stop ask for it, and return before it has happened.
	Start(name string) error
	Stop(name string) error
	State(name string) (ServiceState, error)
	// Command returns the program that a service runs, and its arguments.
	Command(name string) ([]string, error)
	Close() error
}
