//go:build unix

package platform

import (
	"errors"

	"golang.org/x/sys/unix"
)

// SharePort lets several processes listen on a port of this socket (SO_REUSEPORT).
func SharePort(socket uintptr) error {
	return unix.SetsockoptInt(int(socket), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}

// What listening fails with.
const (
	AddressInUse   = unix.EADDRINUSE
	AddressUnknown = unix.EADDRNOTAVAIL
	PortForbidden  = unix.EACCES
)

// IsReset reports whether the other side's process of a connection has ended.
func IsReset(err error) bool { return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) }
