package platform

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// CreateLinkable creates a file in a folder without a name, which Link may give it. macOS has none, so that it returns false.
func CreateLinkable(_, _ string) (*os.File, bool) { return nil, false }

// Link gives a file of CreateLinkable a name, of which there are none.
func Link(*os.File, string) error { return unsupported("files without a name that get one") }

// RenameNew renames a file, unless there is another of the new name: that is an error that wraps fs.ErrExist.
func RenameNew(from, to string) error {
	switch err := unix.RenamexNp(from, to, unix.RENAME_EXCL); err {
	case nil:
		return nil
	case unix.ENOTSUP, unix.EINVAL: // a file system without
		return os.Rename(from, to)
	default:
		return linkError("rename", from, to, err)
	}
}

// MemoryFile creates a file that is gone when it is closed: macOS has none in memory, so it is in the folder of temporary files.
func MemoryFile(string) (*os.File, error) { return CreateNameless(os.TempDir()) }

// Path returns a name under which an open file can be opened once more, also one that has no name, while it is open.
func Path(f *os.File) string { return fmt.Sprintf("/dev/fd/%d", f.Fd()) }

// SyncData waits until what was written to a file is on the disk.
func SyncData(f *os.File) error { return f.Sync() }

// OpenDirect opens a file whose reads go past the page cache (F_NOCACHE); false: they go through it.
func OpenDirect(name string, align int) (f *os.File, direct bool, err error) {
	if f, err = os.Open(name); err != nil {
		return nil, false, err
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_NOCACHE, 1)
	return f, err == nil, nil
}

// Forget drops a part of a file from the page cache: macOS has no such call.
func Forget(uintptr, int64, int64) {}
