package platform

import (
	"errors"

	"golang.org/x/sys/windows"
)

// SharePort lets several processes listen on a port of this socket: Windows has nothing that divides connections among them.
func SharePort(uintptr) error { return unsupported("port of several processes") }

// What listening fails with.
const (
	AddressInUse   = windows.WSAEADDRINUSE
	AddressUnknown = windows.WSAEADDRNOTAVAIL
	PortForbidden  = windows.WSAEACCES
)

// IsReset reports whether the other side's process of a connection has ended.
func IsReset(err error) bool {
	return errors.Is(err, windows.WSAECONNRESET) || errors.Is(err, windows.WSAECONNABORTED)
}
