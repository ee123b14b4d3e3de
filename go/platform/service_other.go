//go:build !windows

package platform

import "io"

// OpenServices connects to the service manager: on this system others than this program look after it.
func OpenServices() (Services, error) { return nil, unsupported("services of this kind") }

// RunService runs a program as the service of a name.
func RunService(string, func(io.Writer) int) error { return unsupported("services of this kind") }
