package batch

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks a folder for this process until the returned file is closed or the process ends. It returns nil if the
// file system does not support locks.
func lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s is in use by another server, which has to end first", dir)
	}
	return nil, nil
}
