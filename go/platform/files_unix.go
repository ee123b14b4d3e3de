//go:build unix

package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// NoWait is a flag of opening, with which the opening of a pipe does not wait for its other end.
const NoWait = unix.O_NONBLOCK

// Open opens a file to be read. A pipe does not wait for a writer, and others may rename, replace and remove what is open.
func Open(name string) (*os.File, error) { return OpenFile(name, os.O_RDONLY, 0) }

// OpenFile is os.OpenFile, as Open opens.
func OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag|NoWait, perm)
}

// OpenItself is OpenFile, with an error of which IsLink is true where the name is a symbolic link's.
func OpenItself(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return OpenFile(name, flag|unix.O_NOFOLLOW, perm)
}

// IsLink reports whether OpenItself failed because of a symbolic link.
func IsLink(err error) bool { return errors.Is(err, unix.ELOOP) }

// Lock locks an open file for this process, until Unlock, the file's closing or the process's end. It waits for nobody: false
// is another's lock. An error is a file system's without locks.
func Lock(f *os.File) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}

// Unlock ends a lock.
func Unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// LinkFile gives a file that stays where it is one more name. The target is a path, seen from the folder of the name.
func LinkFile(target, name string) error { return os.Symlink(target, name) }

// Replace renames a file, in the place of another of the new name, also of one that is open.
func Replace(from, to string) error { return os.Rename(from, to) }

// Guarded reports whether the permissions of a file let nobody but its owner read it.
func Guarded(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }

// LockFolder locks a folder as Lock does a file, until the returned file is closed; nil is another's lock. Where the file system
// has no locks the error wraps ErrUnsupported.
func LockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ok, err := Lock(f)
	if ok {
		return f, nil
	}
	f.Close()
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return nil, err
}

// Sweep removes a file, unless a program has it open. Here none is removed: what is left has no name, or the system does not say
// who has it open.
func Sweep(string) {}

// CreateNameless creates a file in a folder that is gone when it is closed, or the program ends, however that may be.
func CreateNameless(dir string) (*os.File, error) {
	if f, ok := CreateLinkable(dir, "(no name)"); ok {
		return f, nil
	}
	f, err := os.CreateTemp(dir, ".quern.*.tmp")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Full returns the error of the file system for want of room, by any of its limits, that err wraps; nil: it is another.
func Full(err error) error {
	for _, no := range []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG} {
		if errors.Is(err, no) {
			return no
		}
	}
	return nil
}

// TooLarge reports whether a file may not be as large, by a limit of the process or of its file system.
func TooLarge(err error) bool { return errors.Is(err, unix.EFBIG) }

// NotFolder reports whether a path goes through a file that is no folder.
func NotFolder(err error) bool { return errors.Is(err, unix.ENOTDIR) }

// FreeSpace returns how many bytes this user may still write in a folder's file system.
func FreeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// Taken returns how many bytes of the disk a file takes, which are fewer than its size where it has holes.
func Taken(f *os.File) (int64, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return 0, err
	}
	return int64(s.Blocks) * 512, nil
}

// Inode returns the number of a file in its file system, by which a file that replaced it is told apart; 0: the system does
// not say.
func Inode(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

// ReadAt reads from a file at an offset, in one call of the system. It returns 0 and no error at the end.
func ReadAt(f uintptr, p []byte, off int64) (int, error) {
	for {
		if n, err := unix.Pread(int(f), p, off); !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// linkError is an error of two names.
func linkError(op, from, to string, err error) error {
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%s: %w", to, fs.ErrExist)
	}
	return &os.LinkError{Op: op, Old: from, New: to, Err: err}
}
