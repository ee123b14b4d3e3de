//go:build unix

package platform

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Supervised returns what the environment says of a supervisor, as systemd does: the sockets of LISTEN_FDS, LISTEN_PID
// and LISTEN_FDNAMES (sd_listen_fds(3)), and where it is told (NOTIFY_SOCKET, sd_notify(3)). It removes these variables:
// they are not for children. What was handed over and is no such socket is an error.
func Supervised() (s Supervisor, err error) {
	if notify := os.Getenv("NOTIFY_SOCKET"); notify != "" {
		s.tell = func(state string) error {
			if err := send(notify, state); err != nil {
				return fmt.Errorf("NOTIFY_SOCKET: %w", err)
			}
			return nil
		}
	}
	os.Unsetenv("NOTIFY_SOCKET")
	s.Sockets, err = handed()
	return s, err
}

// send sends a text to a socket of datagrams.
func send(to, text string) error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: to, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second)) // one that does not read holds up nothing
	_, err = c.Write([]byte(text))
	return err
}

// Sockets are handed over as the descriptors from firstHanded on, mostHanded of them at most.
const (
	firstHanded = 3
	mostHanded  = 1024
)

// handed returns the sockets that were handed over to this process, and closes what was handed over with one that
// cannot be served.
func handed() (all []*os.File, err error) {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"} {
		os.Unsetenv(name)
	}
	if pid == "" || pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // they were for another process, which has started this one
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > mostHanded {
		return nil, fmt.Errorf("LISTEN_FDS is %.40q, want how many sockets are handed over, %d at most", count, mostHanded)
	}
	named := strings.Split(names, ":")
	for i := range n {
		fd, name := firstHanded+i, "descriptor "+strconv.Itoa(firstHanded+i)
		if i < len(named) && named[i] != "" {
			name += fmt.Sprintf(" (%.255s)", named[i])
		}
		if why := listens(fd); why != nil {
			err = errors.Join(err, fmt.Errorf("%s was handed over to be served and %w", name, why))
			continue
		}
		// Before it is a File: a File that makes its descriptor non-blocking makes it blocking again when it is asked
		// for it, for all processes that share the socket, and accept would hold them.
		unix.CloseOnExec(fd)
		if why := unix.SetNonblock(fd, true); why != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, why))
			continue
		}
		all = append(all, os.NewFile(uintptr(fd), name))
	}
	if err != nil {
		for _, f := range all {
			f.Close()
		}
		return nil, err
	}
	return all, nil
}

// listens returns why a descriptor is no TCP or Unix socket that listens.
func listens(fd int) error {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	switch {
	case errors.Is(err, unix.EBADF):
		return errors.New("is not open")
	case errors.Is(err, unix.ENOTSOCK):
		return errors.New("is no socket")
	case err != nil:
		return fmt.Errorf("cannot be used: %w", err)
	case kind != unix.SOCK_STREAM:
		return errors.New("is no stream socket")
	}
	at, err := unix.Getsockname(fd)
	if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) {
		return fmt.Errorf("cannot be used: %w", err)
	}
	switch at.(type) {
	case *unix.SockaddrInet4, *unix.SockaddrInet6, *unix.SockaddrUnix:
	default:
		return errors.New("is neither a TCP nor a Unix socket")
	}
	// A system that cannot say so refuses to accept later.
	if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && on == 0 {
		return errors.New("does not listen")
	}
	return nil
}
