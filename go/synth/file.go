package synth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// metadataBytes is more than any of the shapes' metadata takes.
const metadataBytes = 16 << 20

// WriteFile writes the file called path and returns its bytes. It appears
// whole, or not at all. A file that is already there is an error, unless
// replace is set; so is a disk with too little room.
func (m Model) WriteFile(ctx context.Context, path string, replace bool) (int64, error) {
	if _, err := os.Lstat(path); err == nil && !replace {
		return 0, fmt.Errorf("%s: %w", path, fs.ErrExist)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	data, err := m.DataBytes()
	if err != nil {
		return 0, err
	}
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	if err := checkSpace(dir, data+metadataBytes); err != nil {
		return 0, err
	}
	f, err := os.CreateTemp(dir, "."+name+".*.tmp")
	if err != nil {
		return 0, err
	}
	n, err := m.Write(ctx, f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return 0, err
	}
	return n, nil
}

// checkSpace returns an error if fewer than need bytes are free where dir is.
func checkSpace(dir string, need uint64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	const gb = 1e9
	if free := s.Bavail * uint64(s.Bsize); free < need {
		return fmt.Errorf("%s: %.1f GB free, the file takes %.1f GB", dir, float64(free)/gb, float64(need)/gb)
	}
	return nil
}
