package platform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CreateLinkable creates a file in a folder without a name, which Link may give it; errors call it by the one given here. Where
// that cannot be it returns false.
func CreateLinkable(dir, name string) (*os.File, bool) {
	if unix.Access("/proc/self/fd", unix.X_OK) != nil { // which Link needs
		return nil, false
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, false
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir, name)), true
}

// Link gives a file of CreateLinkable a name. One that there is already is an error that wraps fs.ErrExist.
func Link(f *os.File, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, Path(f), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return linkError("link", f.Name(), name, err)
	}
	return nil
}

// RenameNew renames a file, unless there is another of the new name: that is an error that wraps fs.ErrExist. File systems
// that cannot refuse to replace another replace it.
func RenameNew(from, to string) error {
	var err error = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err = unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	}
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP):
		return os.Rename(from, to)
	case err != nil:
		return linkError("rename", from, to, err)
	}
	return nil
}

// MemoryFile creates a file in memory, which is gone when it is closed.
func MemoryFile(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate("quern", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Path returns a name under which an open file can be opened once more, also one that has no name, while it is open.
func Path(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// SyncData waits until what was written to a file is on the disk.
func SyncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// OpenDirect opens a file whose reads go past the page cache, at offsets and to addresses that are multiples of align; false:
// they go through it, since its file system has no others. Some refuse on open, some on read.
func OpenDirect(name string, align int) (f *os.File, direct bool, err error) {
	for _, flag := range []int{unix.O_DIRECT, 0} {
		if f, err = os.OpenFile(name, os.O_RDONLY|flag, 0); err != nil {
			if flag != 0 && errors.Is(err, unix.EINVAL) {
				continue
			}
			return nil, false, err
		}
		if err = probe(f, align); err == nil || flag == 0 {
			break
		}
		f.Close()
	}
	got, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return f, err == nil && got&unix.O_DIRECT != 0, nil
}

// Forget drops a part of a file from the page cache. A failure costs memory, not correctness.
func Forget(f uintptr, off, n int64) { _ = unix.Fadvise(int(f), off, n, unix.FADV_DONTNEED) }
