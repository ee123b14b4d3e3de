package platform

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// NoWait is a flag of opening, with which the opening of a pipe does not wait for its other end: on Windows none does.
const NoWait = 0

// shared is what others may do with a file that is open: all that they may on other systems.
const shared = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE

// Open opens a file to be read. A pipe does not wait for a writer, and others may rename, replace and remove what is open.
func Open(name string) (*os.File, error) { return OpenFile(name, os.O_RDONLY, 0) }

// OpenFile is os.OpenFile, as Open opens.
func OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return open(name, flag, shared, 0)
}

// open opens a file with what others may do meanwhile, and flags of CreateFile. Go's own lets nobody rename or remove it.
func open(name string, flag int, share, more uint32) (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, &fs.PathError{Op: "open", Path: name, Err: err} }
	if name == "" {
		return fail(windows.ERROR_FILE_NOT_FOUND)
	}
	at, err := windows.UTF16PtrFromString(long(name))
	if err != nil {
		return fail(err)
	}
	var access uint32
	switch flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) {
	case os.O_RDONLY:
		access = windows.GENERIC_READ
		more |= windows.FILE_FLAG_BACKUP_SEMANTICS // folders too
	case os.O_WRONLY:
		access = windows.GENERIC_WRITE
	case os.O_RDWR:
		access = windows.GENERIC_READ | windows.GENERIC_WRITE
	}
	if flag&os.O_APPEND != 0 {
		access = access&^windows.GENERIC_WRITE | windows.FILE_APPEND_DATA | windows.FILE_WRITE_ATTRIBUTES | windows.SYNCHRONIZE
	}
	if more&windows.FILE_FLAG_DELETE_ON_CLOSE != 0 {
		access |= windows.DELETE
	}
	mode := uint32(windows.OPEN_EXISTING)
	switch {
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		mode = windows.CREATE_NEW
	case flag&os.O_CREATE != 0:
		mode = windows.OPEN_ALWAYS
	}
	h, err := windows.CreateFile(at, access, share, nil, mode, windows.FILE_ATTRIBUTE_NORMAL|more, 0)
	if err != nil {
		return fail(err)
	}
	f := os.NewFile(uintptr(h), name)
	if flag&os.O_TRUNC != 0 {
		if err := f.Truncate(0); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// long returns a path that may be longer than the 259 characters that Windows takes without being asked.
func long(name string) string {
	const most = 248 // of a folder's, which has room for a short name of a file
	if len(name) < most || len(name) > 3 && name[:4] == `\\?\` {
		return name
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	if full[:2] == `\\` {
		return `\\?\UNC\` + full[2:]
	}
	return `\\?\` + full
}

var errLink = errors.New("it is a symbolic link")

// OpenItself is OpenFile, with an error of which IsLink is true where the name is a symbolic link's.
func OpenItself(name string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := open(name, flag, shared, windows.FILE_FLAG_OPEN_REPARSE_POINT)
	if err != nil {
		return nil, err
	}
	var info windows.ByHandleFileInformation
	if err = windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err == nil && info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		if link, lerr := os.Lstat(name); lerr == nil && link.Mode()&os.ModeSymlink != 0 {
			err = &fs.PathError{Op: "open", Path: name, Err: errLink}
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// IsLink reports whether OpenItself failed because of a symbolic link.
func IsLink(err error) bool { return errors.Is(err, errLink) }

// lockedByte is past what any file has: on Windows a lock keeps others from the bytes that it is of.
var lockedByte = windows.Overlapped{Offset: 0xfffffffe, OffsetHigh: 0x7fffffff}

// Lock locks an open file for this process, until Unlock, the file's closing or the process's end. It waits for nobody: false
// is another's lock. An error is a file system's without locks.
func Lock(f *os.File) (bool, error) {
	at := lockedByte
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	}
	return false, err
}

// Unlock ends a lock.
func Unlock(f *os.File) error {
	at := lockedByte
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &at)
}

// LinkFile gives a file that stays where it is one more name. The target is a path, seen from the folder of the name. Symbolic
// links are for administrators and developers, so that others get a hard link.
func LinkFile(target, name string) error {
	if os.Symlink(target, name) == nil {
		return nil
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(name), target)
	}
	return os.Link(target, name)
}

// Replace renames a file, in the place of another of the new name, also of one that is open, on NTFS of Windows 10 from 1809;
// elsewhere an open one is an error.
func Replace(from, to string) error {
	const renameEx, replace, posix = 22, 1, 2
	full, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	name, err := windows.UTF16FromString(long(full))
	if err != nil {
		return err
	}
	at, err := windows.UTF16PtrFromString(long(from))
	if err != nil {
		return err
	}
	h, err := windows.CreateFile(at, windows.DELETE|windows.SYNCHRONIZE, shared, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_OPEN_REPARSE_POINT|windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	// FILE_RENAME_INFO: flags, the folder's handle, the bytes of the name, and the name with its zero.
	b := make([]byte, 20+2*len(name))
	b[0] = replace | posix
	*(*uint32)(unsafe.Pointer(&b[16])) = uint32(2 * (len(name) - 1))
	copy(unsafe.Slice((*uint16)(unsafe.Pointer(&b[20])), len(name)), name)
	err = windows.SetFileInformationByHandle(h, renameEx, &b[0], uint32(len(b)))
	_ = windows.CloseHandle(h)
	if err != nil { // a file system without
		return os.Rename(from, to)
	}
	return nil
}

// Guarded reports whether the permissions of a file let nobody but its owner read it: on Windows they are those of its folder,
// and not in the mode.
func Guarded(fs.FileInfo) bool { return true }

// LockFolder locks a folder as Lock does a file, until the returned file is closed; nil is another's lock. On Windows it is a
// file ".lock" in it, which goes with the process.
func LockFolder(dir string) (*os.File, error) {
	f, err := open(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0, windows.FILE_FLAG_DELETE_ON_CLOSE)
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_DELETE_PENDING) {
		return nil, nil
	}
	return f, err
}

// CreateNameless creates a file in a folder that is gone when it is closed, or the program ends, however that may be.
func CreateNameless(dir string) (*os.File, error) {
	name := filepath.Join(dir, ".quern."+rand.Text()+".tmp")
	return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, shared, windows.FILE_FLAG_DELETE_ON_CLOSE)
}

// Sweep removes a file, unless a program has it open: one that ended before it could remove its own has left it.
func Sweep(name string) {
	const nobody = 0 // may have it open, or else this fails
	if f, err := open(name, os.O_RDONLY, nobody, windows.FILE_FLAG_DELETE_ON_CLOSE); err == nil {
		f.Close()
	}
}

// CreateLinkable creates a file in a folder without a name, which Link may give it. Windows has none, so that it returns false.
func CreateLinkable(_, _ string) (*os.File, bool) { return nil, false }

// Link gives a file of CreateLinkable a name, of which there are none.
func Link(*os.File, string) error { return unsupported("files without a name that get one") }

// RenameNew renames a file, unless there is another of the new name: that is an error that wraps fs.ErrExist.
func RenameNew(from, to string) error {
	a, err := windows.UTF16PtrFromString(long(from))
	if err != nil {
		return err
	}
	b, err := windows.UTF16PtrFromString(long(to))
	if err != nil {
		return err
	}
	switch err := windows.MoveFileEx(a, b, windows.MOVEFILE_WRITE_THROUGH); {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s: %w", to, fs.ErrExist)
	default:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
}

// MemoryFile creates a file that is gone when it is closed: Windows has none in memory with a name, so it is in the folder of
// temporary files, and written to the disk only when memory is short.
func MemoryFile(string) (*os.File, error) { return CreateNameless(os.TempDir()) }

// Path returns a name under which an open file can be opened once more by Open, while it is open.
func Path(f *os.File) string { return f.Name() }

// SyncData waits until what was written to a file is on the disk.
func SyncData(f *os.File) error { return f.Sync() }

// Full returns the error of the file system for want of room, by any of its limits, that err wraps; nil: it is another.
func Full(err error) error {
	for _, no := range []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED, windows.ERROR_FILE_TOO_LARGE} {
		if errors.Is(err, no) {
			return no
		}
	}
	return nil
}

// TooLarge reports whether a file may not be as large, by a limit of the process or of its file system.
func TooLarge(err error) bool { return errors.Is(err, windows.ERROR_FILE_TOO_LARGE) }

// NotFolder reports whether a path goes through a file that is no folder.
func NotFolder(err error) bool {
	return errors.Is(err, windows.ERROR_DIRECTORY) || errors.Is(err, windows.ERROR_PATH_NOT_FOUND) || errors.Is(err, syscall.ENOTDIR)
}

// FreeSpace returns how many bytes this user may still write in a folder's file system.
func FreeSpace(dir string) (uint64, error) {
	at, err := windows.UTF16PtrFromString(long(dir))
	if err != nil {
		return 0, err
	}
	var free, all, total uint64
	err = windows.GetDiskFreeSpaceEx(at, &free, &all, &total)
	return free, err
}

// Taken returns how many bytes of the disk a file takes, which are fewer than its size where it has holes.
func Taken(f *os.File) (int64, error) {
	var info struct {
		allocated, end int64
		links          uint32
		deleted, dir   bool
		_              [2]byte
	}
	err := windows.GetFileInformationByHandleEx(windows.Handle(f.Fd()), windows.FileStandardInfo, (*byte)(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return info.allocated, err
}

// Inode returns the number of a file in its file system, by which a file that replaced it is told apart; 0: the system does
// not say.
func Inode(fs.FileInfo) uint64 { return 0 }

// ReadAt reads from a file at an offset, in one call of the system. It returns 0 and no error at the end.
func ReadAt(f uintptr, p []byte, off int64) (int, error) {
	at := windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
	var n uint32
	err := windows.ReadFile(windows.Handle(f), p[:min(len(p), 1<<30)], &n, &at)
	if errors.Is(err, windows.ERROR_HANDLE_EOF) {
		err = nil
	}
	return int(n), err
}

// OpenDirect opens a file whose reads go past the page cache, at offsets and to addresses that are multiples of align; false:
// they go through it, since its file system has no others.
func OpenDirect(name string, align int) (f *os.File, direct bool, err error) {
	if f, err = open(name, os.O_RDONLY, shared, windows.FILE_FLAG_NO_BUFFERING); err == nil {
		if probe(f, align) == nil {
			return f, true, nil
		}
		f.Close()
	}
	f, err = Open(name)
	return f, false, err
}

// Forget drops a part of a file from the page cache: Windows has no such call.
func Forget(uintptr, int64, int64) {}
