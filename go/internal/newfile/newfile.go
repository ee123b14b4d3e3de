// Package newfile writes files atomically.
package newfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

// Write creates a file at path with the permissions perm and the content that fill
// writes, atomically, and returns its size: the content is on the disk before it has the
// name. An existing file is an error that wraps fs.ErrExist, unless replace is set, also one
// that comes meanwhile; anything other than a regular file, such as a device, is always an
// error. So is a disk with less than need bytes free.
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
	if err := CheckSpace(dir, need); err != nil {
		return 0, err
	}
	f, named, err := temporary(dir, name)
	if err != nil {
		return 0, err
	}
	n, err := fill(f)
	if err == nil {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = f.Sync()
	}
	temp := f.Name()
	if err == nil && !named {
		if temp, err = link(f, dir, name); err == nil {
			named = true
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = rename(temp, path, replace)
	}
	if err != nil {
		if named {
			os.Remove(temp)
		}
		return 0, full(path, err)
	}
	return n, nil
}

// temporary creates a file in a folder, without a name where the file system has such: it is gone when the program ends, however
// that may be. Elsewhere it has a hidden name, and what is left under such names of the file, by programs that were killed, goes after a
// while.
func temporary(dir, name string) (f *os.File, named bool, err error) {
	if f, ok := platform.CreateLinkable(dir, name); ok {
		return f, false, nil
	}
	for _, left := range leftovers(dir, name, time.Now().Add(-abandoned)) {
		platform.Sweep(left)
	}
	f, err = os.CreateTemp(dir, pattern(name))
	return f, true, err
}

// pattern is the one of the hidden names that a file has before its own.
func pattern(name string) string { return "." + name + ".*.tmp" }

// abandoned is the age from which a file under a hidden name is taken for left. A younger one may be one that another program has
// closed, and is about to rename.
const abandoned = 10 * time.Minute

// leftovers returns the paths of files under hidden names of a file that were last written before a time.
func leftovers(dir, name string, before time.Time) (paths []string) {
	begin, end, _ := strings.Cut(pattern(name), "*")
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if n := e.Name(); !e.Type().IsRegular() || !strings.HasPrefix(n, begin) || !strings.HasSuffix(n, end) {
			continue
		}
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// link gives a file without a name a hidden one, for the moment before it is renamed: a name that is given at once cannot
// replace another.
func link(f *os.File, dir, name string) (temp string, err error) {
	for range 100 {
		temp = filepath.Join(dir, strings.Replace(pattern(name), "*", rand.Text(), 1))
		if err = platform.Link(f, temp); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return "", err
	}
	return temp, nil
}

// full says what to do where a file has no room: an error of writing names a file that is gone by then.
func full(path string, err error) error {
	if no := platform.Full(err); no != nil {
		return fmt.Errorf("%s: %w; free some room there, or write it elsewhere", path, no)
	}
	return err
}

// Check returns the error that Write would, before there is anything to write.
func Check(path string, replace bool) error {
	_, err := Write(path, replace, 0o600, 0, func(io.Writer) (int64, error) { return 0, errChecked })
	if errors.Is(err, errChecked) {
		return nil
	}
	return err
}

var errChecked = errors.New("checked")

// rename gives a file its final name. File systems that cannot refuse to replace another replace it.
func rename(from, to string, replace bool) error {
	if replace {
		return platform.Replace(from, to)
	}
	return platform.RenameNew(from, to)
}

// Nameless creates a file without a name in a folder, with the content that fill writes: it takes space until it is closed,
// or the program ends, however that may be. A disk with less than need bytes free is an error.
func Nameless(dir string, need uint64, fill func(io.Writer) (int64, error)) (*os.File, error) {
	if err := CheckSpace(dir, need); err != nil {
		return nil, err
	}
	f, err := platform.CreateNameless(dir)
	if err != nil {
		return nil, err
	}
	if _, err = fill(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// CheckSpace returns an error if fewer than need bytes are free in dir's file system.
func CheckSpace(dir string, need uint64) error {
	free, err := platform.FreeSpace(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	const mb = 1e6
	if free < need {
		return fmt.Errorf("%s: %.1f MB free, the file takes %.1f MB", dir, float64(free)/mb, float64(need)/mb)
	}
	return nil
}
