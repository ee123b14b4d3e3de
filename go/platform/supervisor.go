package platform

import (
	"fmt"
	"net"
	"os"
	"time"
)

// A Supervisor is the program that has started this one, as far as it wants to know of it.
type Supervisor struct {
	// Sockets are those that it has handed over: each is a TCP or Unix socket that listens, and has its name. They are
	// this process's alone: its children do not inherit them.
	Sockets []*os.File

	notify string // the socket at which it is told; empty: it asks for nothing
}

// Supervised returns what the environment says of a supervisor, as systemd does: the sockets of LISTEN_FDS, LISTEN_PID
// and LISTEN_FDNAMES (sd_listen_fds(3)), and where it is told (NOTIFY_SOCKET, sd_notify(3)). It removes these variables:
// they are not for children. What was handed over and is no such socket is an error. Windows has no such sockets.
func Supervised() (s Supervisor, err error) {
	s.notify = os.Getenv("NOTIFY_SOCKET")
	os.Unsetenv("NOTIFY_SOCKET")
	s.Sockets, err = handed()
	return s, err
}

// Tell tells the supervisor what this process does: READY=1 or STOPPING=1. Where it asks for nothing, nothing is done.
func (s Supervisor) Tell(state string) error {
	if s.notify == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.notify, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second)) // one that does not read holds up nothing
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return nil
}
