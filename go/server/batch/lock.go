package batch

import (
	"errors"
	"fmt"
	"os"

	"github.com/quern-llm/quern/go/platform"
)

// lock locks a folder for this process until the returned file is closed or the process ends. It returns nil if the
// file system does not support locks.
func lock(dir string) (*os.File, error) {
	f, err := platform.LockFolder(dir)
	switch {
	case errors.Is(err, platform.ErrUnsupported):
		return nil, nil
	case err == nil && f == nil:
		return nil, fmt.Errorf("%s is in use by another server, which has to end first", dir)
	}
	return f, err
}
