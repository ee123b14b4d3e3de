// Package newfile writes files atomically.
package newfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Write creates a file at path with the permissions perm and the content that fill
// writes, atomically, and returns its size. An existing file is an error that wraps
// fs.ErrExist, unless replace is set; anything other than a regular file, such as a
// device, is always an error. So is a disk with less than need bytes free.
func Write(path string, replace bool, perm fs.FileMode, need uint64, fill func(io.Writer) (int64, error)) (int64, error) {
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s is no file", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return 0, err
	}
	if _, err := os.Lstat(path); err == nil && !replace {
		return 0, fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	if err := checkSpace(dir, need); err != nil {
		return 0, err
	}
	f, err := os.CreateTemp(dir, "."+name+".*.tmp")
	if err != nil {
		return 0, err
	}
	n, err := fill(f)
	if err == nil {
		err = f.Chmod(perm)
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

// checkSpace returns an error if fewer than need bytes are free in dir's file system.
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
