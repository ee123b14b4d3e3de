package tools

import "syscall"

// anyMode has files be made with the modes that are asked for, until what it returns is called. It is for all of this process,
// which does one thing.
func anyMode() func() {
	old := syscall.Umask(0)
	return func() { syscall.Umask(old) }
}
