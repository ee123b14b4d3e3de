package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A mood is how a disk is.
type mood int32

const (
	diskWorks mood = iota
	diskFull       // nothing can be written
	diskFails      // nor read
	diskSlow
)

// slowness is what a slow disk takes for each piece that is read, written or flushed.
const slowness = 30 * time.Millisecond

// A disk is a folder that fails when it is told to: a file system in this process, by the kernel's FUSE protocol, whose
// files are in another folder. Requests and answers are as in linux/fuse.h, of version 7.31. Nothing is cached, so each
// read and write is asked for.
type disk struct {
	path       string // as others see it
	impossible string // why it never fails

	mood  atomic.Int32
	dev   *os.File
	mu    sync.Mutex
	nodes map[uint64]*node
	ids   map[inode]uint64
	next  uint64
	files map[uint64]*os.File
	dirs  map[uint64][]os.DirEntry
}

type inode struct{ dev, ino uint64 }

// A node is a file or folder that the kernel knows.
type node struct {
	fd      int // O_PATH
	key     inode
	lookups uint64
}

// newDisk makes what is in the folder back available at mount, or at back itself where nothing can be mounted.
func newDisk(back, mount string) (*disk, error) {
	for _, dir := range []string{back, mount} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	d := &disk{path: back, impossible: mayMount(), nodes: map[uint64]*node{}, ids: map[inode]uint64{}, next: 2, files: map[uint64]*os.File{}, dirs: map[uint64][]os.DirEntry{}}
	if d.impossible != "" {
		return d, nil
	}
	// Without the poller, which waits in a way that this device does not have.
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		d.impossible = "/dev/fuse: " + err.Error()
		return d, nil
	}
	options := fmt.Sprintf("fd=%d,rootmode=40700,user_id=0,group_id=0", fd)
	if err := unix.Mount("soak", mount, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		d.impossible = "mount: " + err.Error()
		return d, unix.Close(fd)
	}
	root, err := unix.Open(back, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d.nodes[1] = &node{fd: root, lookups: 1}
	d.dev, d.path = os.NewFile(uintptr(fd), "/dev/fuse"), mount
	for range 2 {
		go d.serve(fd)
	}
	return d, nil
}

func (d *disk) set(m mood) error { d.mood.Store(int32(m)); return nil }

func (d *disk) close() error {
	if d.dev == nil {
		return nil
	}
	err := unix.Unmount(d.path, unix.MNT_DETACH)
	return errors.Join(err, d.dev.Close())
}

// Operations of the protocol.
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opSetattr     = 4
	opMkdir       = 9
	opUnlink      = 10
	opRmdir       = 11
	opRename      = 12
	opLink        = 13
	opOpen        = 14
	opRead        = 15
	opWrite       = 16
	opStatfs      = 17
	opRelease     = 18
	opFsync       = 20
	opFlush       = 25
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opReleasedir  = 29
	opFsyncdir    = 30
	opAccess      = 34
	opCreate      = 35
	opInterrupt   = 36
	opDestroy     = 38
	opBatchForget = 42
	opRename2     = 45
)

const (
	maxWrite   = 128 << 10
	inHeader   = 40
	directIO   = 1      // of an open file: its reads and writes are not cached
	attrOfFile = 1 << 6 // of a setattr: there is a file
)

var le = binary.LittleEndian

// serve answers requests until the file system is unmounted. Each is answered by a goroutine of its own, so that a slow
// one holds up no other.
func (d *disk) serve(fd int) {
	buf := make([]byte, maxWrite+4096)
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT { // the last: it was interrupted
			continue
		}
		if err != nil || n < inHeader {
			return
		}
		in := bytes.Clone(buf[:n])
		go func() {
			op, unique, id := le.Uint32(in[4:]), le.Uint64(in[8:]), le.Uint64(in[16:])
			if op == opForget || op == opBatchForget {
				d.forget(op, id, in[inHeader:])
				return
			}
			if op == opInterrupt {
				return
			}
			out, err := d.answer(op, id, in[inHeader:])
			var errno unix.Errno
			if err != nil && !errors.As(err, &errno) {
				errno = unix.EIO
			}
			if errno != 0 {
				out = nil
			}
			head := make([]byte, 16, 16+len(out))
			le.PutUint32(head, uint32(16+len(out)))
			le.PutUint32(head[4:], uint32(-int32(errno)))
			le.PutUint64(head[8:], unique)
			unix.Write(fd, append(head, out...))
		}()
	}
}

// fails is the error of an operation in the disk's mood, after the time that it takes.
func (d *disk) fails(op uint32) error {
	reads, writes, makes := op == opRead, op == opWrite || op == opFsync, op == opCreate || op == opMkdir || op == opLink
	switch mood(d.mood.Load()) {
	case diskFull:
		if op == opWrite || makes {
			return unix.ENOSPC
		}
	case diskFails:
		if reads || writes || makes {
			return unix.EIO
		}
	case diskSlow:
		if reads || writes {
			time.Sleep(slowness)
		}
	}
	return nil
}

// name reads a text that ends with a zero.
func name(b []byte) (string, []byte, error) {
	s, rest, ok := strings.Cut(string(b), "\x00")
	if !ok || s == "" || s == "." || s == ".." || strings.Contains(s, "/") {
		return "", nil, unix.EINVAL
	}
	return s, []byte(rest), nil
}

func through(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// answer does what a request asks.
func (d *disk) answer(op uint32, id uint64, in []byte) ([]byte, error) {
	if op == opInit {
		out := make([]byte, 64)
		le.PutUint32(out, 7)
		le.PutUint32(out[4:], 31)
		le.PutUint16(out[16:], 16)
		le.PutUint16(out[18:], 12)
		le.PutUint32(out[20:], maxWrite)
		le.PutUint32(out[24:], 1)
		return out, nil
	}
	if err := d.fails(op); err != nil {
		return nil, err
	}
	d.mu.Lock()
	n := d.nodes[id]
	d.mu.Unlock()
	if n == nil {
		return nil, unix.ESTALE
	}
	if need := map[uint32]int{opGetattr: 16, opSetattr: 88, opMkdir: 9, opRename: 8, opRename2: 16, opLink: 9, opOpen: 8, opCreate: 17, opRead: 40, opWrite: 40, opRelease: 8, opReleasedir: 8, opReaddir: 40, opFsync: 8, opFlush: 8}[op]; len(in) < need {
		return nil, unix.EINVAL
	}
	switch op {
	case opLookup:
		s, _, err := name(in)
		if err != nil {
			return nil, err
		}
		return d.entry(n, s)
	case opGetattr:
		return attributes(n.fd)
	case opSetattr:
		return d.setattr(n, in)
	case opMkdir:
		s, _, err := name(in[8:])
		if err == nil {
			err = unix.Mkdirat(n.fd, s, le.Uint32(in))
		}
		if err != nil {
			return nil, err
		}
		return d.entry(n, s)
	case opUnlink, opRmdir:
		s, _, err := name(in)
		if err != nil {
			return nil, err
		}
		flags := 0
		if op == opRmdir {
			flags = unix.AT_REMOVEDIR
		}
		return nil, unix.Unlinkat(n.fd, s, flags)
	case opRename, opRename2:
		to, flags, rest := le.Uint64(in), uint32(0), in[8:]
		if op == opRename2 {
			flags, rest = le.Uint32(in[8:]), in[16:]
		}
		return nil, d.rename(n, to, flags, rest)
	case opLink:
		s, _, err := name(in[8:])
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		old := d.nodes[le.Uint64(in)]
		d.mu.Unlock()
		if old == nil {
			return nil, unix.ESTALE
		}
		if err := unix.Linkat(unix.AT_FDCWD, through(old.fd), n.fd, s, unix.AT_SYMLINK_FOLLOW); err != nil {
			return nil, err
		}
		return d.entry(n, s)
	case opOpen:
		f, err := os.OpenFile(through(n.fd), int(le.Uint32(in))&^(unix.O_NOFOLLOW|unix.O_CREAT|unix.O_EXCL|unix.O_APPEND|unix.O_DIRECT), 0)
		if err != nil {
			return nil, err
		}
		return d.opened(f, nil), nil
	case opCreate:
		return d.create(n, in)
	case opRead, opWrite, opFsync, opFlush, opRelease:
		return d.file(op, in)
	case opStatfs:
		return d.statfs(n)
	case opOpendir:
		all, err := os.ReadDir(through(n.fd))
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.next++
		d.dirs[d.next] = all
		return le.AppendUint64(le.AppendUint64(nil, d.next), 0), nil
	case opReaddir:
		return d.readdir(in), nil
	case opReleasedir:
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.dirs, le.Uint64(in))
		return nil, nil
	case opFsyncdir, opAccess, opDestroy:
		return nil, nil
	}
	return nil, unix.ENOSYS
}

// entry answers with the node of a name in a folder.
func (d *disk) entry(dir *node, s string) ([]byte, error) {
	fd, err := unix.Openat(dir.fd, s, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := inode{st.Dev, st.Ino}
	id, ok := d.ids[key]
	if ok {
		unix.Close(fd)
		d.nodes[id].lookups++
	} else {
		d.next++
		id = d.next
		d.ids[key], d.nodes[id] = id, &node{fd, key, 1}
	}
	out := le.AppendUint64(nil, id)
	out = append(out, make([]byte, 32)...) // nothing stays true for any time
	return appendAttributes(out, &st), nil
}

func (d *disk) forget(op uint32, id uint64, in []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	drop := func(id, lookups uint64) {
		n := d.nodes[id]
		if n == nil || id == 1 {
			return
		}
		if n.lookups -= min(lookups, n.lookups); n.lookups == 0 {
			unix.Close(n.fd)
			delete(d.nodes, id)
			delete(d.ids, n.key)
		}
	}
	if op == opForget {
		drop(id, le.Uint64(in))
		return
	}
	for in = in[8:]; len(in) >= 16; in = in[16:] {
		drop(le.Uint64(in), le.Uint64(in[8:]))
	}
}

func attributes(fd int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	return appendAttributes(make([]byte, 16), &st), nil
}

func appendAttributes(out []byte, st *unix.Stat_t) []byte {
	for _, v := range []uint64{st.Ino, uint64(st.Size), uint64(st.Blocks), uint64(st.Atim.Sec), uint64(st.Mtim.Sec), uint64(st.Ctim.Sec)} {
		out = le.AppendUint64(out, v)
	}
	for _, v := range []uint32{uint32(st.Atim.Nsec), uint32(st.Mtim.Nsec), uint32(st.Ctim.Nsec), st.Mode, uint32(st.Nlink), st.Uid, st.Gid, 0, uint32(st.Blksize), 0} {
		out = le.AppendUint32(out, v)
	}
	return out
}

func (d *disk) setattr(n *node, in []byte) ([]byte, error) {
	valid := le.Uint32(in)
	path := through(n.fd)
	var err error
	if valid&1 != 0 {
		err = unix.Chmod(path, le.Uint32(in[68:])&0o7777)
	}
	if err == nil && valid&8 != 0 {
		err = unix.Truncate(path, int64(le.Uint64(in[16:])))
		if valid&attrOfFile != 0 {
			d.mu.Lock()
			f := d.files[le.Uint64(in[8:])]
			d.mu.Unlock()
			if f != nil {
				err = f.Truncate(int64(le.Uint64(in[16:])))
			}
		}
	}
	if err == nil && valid&(16|32|128|256) != 0 {
		times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
		for i, at := range []struct{ set, now, sec, nsec int }{{16, 128, 32, 56}, {32, 256, 40, 60}} {
			switch {
			case valid&uint32(at.now) != 0:
				times[i].Nsec = unix.UTIME_NOW
			case valid&uint32(at.set) != 0:
				times[i] = unix.Timespec{Sec: int64(le.Uint64(in[at.sec:])), Nsec: int64(le.Uint32(in[at.nsec:]))}
			}
		}
		err = unix.UtimesNanoAt(unix.AT_FDCWD, path, times, 0)
	}
	if err != nil {
		return nil, err
	}
	return attributes(n.fd)
}

func (d *disk) rename(from *node, to uint64, flags uint32, names []byte) error {
	old, rest, err := name(names)
	if err != nil {
		return err
	}
	fresh, _, err := name(rest)
	if err != nil {
		return err
	}
	d.mu.Lock()
	dir := d.nodes[to]
	d.mu.Unlock()
	if dir == nil {
		return unix.ESTALE
	}
	return unix.Renameat2(from.fd, old, dir.fd, fresh, uint(flags))
}

func (d *disk) create(n *node, in []byte) ([]byte, error) {
	s, _, err := name(in[16:])
	if err != nil {
		return nil, err
	}
	fd, err := unix.Openat(n.fd, s, int(le.Uint32(in))&^unix.O_APPEND|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, le.Uint32(in[4:])&0o7777)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), s)
	out, err := d.entry(n, s)
	if err != nil {
		f.Close()
		return nil, err
	}
	return d.opened(f, out), nil
}

// opened answers with a file that was opened.
func (d *disk) opened(f *os.File, out []byte) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	d.files[d.next] = f
	out = le.AppendUint64(out, d.next)
	return le.AppendUint64(out, directIO)
}

// file does what is asked of an open file.
func (d *disk) file(op uint32, in []byte) ([]byte, error) {
	d.mu.Lock()
	f := d.files[le.Uint64(in)]
	if op == opRelease {
		delete(d.files, le.Uint64(in))
	}
	d.mu.Unlock()
	if f == nil {
		return nil, unix.EBADF
	}
	switch op {
	case opRelease:
		return nil, f.Close()
	case opFlush:
		return nil, nil
	case opFsync:
		return nil, f.Sync()
	case opRead:
		b := make([]byte, min(le.Uint32(in[16:]), 1<<20))
		n, err := f.ReadAt(b, int64(le.Uint64(in[8:])))
		if err != nil && err != io.EOF {
			return nil, err
		}
		return b[:n], nil
	}
	data := in[40:]
	if uint32(len(data)) < le.Uint32(in[16:]) {
		return nil, unix.EINVAL
	}
	n, err := f.WriteAt(data[:le.Uint32(in[16:])], int64(le.Uint64(in[8:])))
	if n == 0 && err != nil {
		return nil, err
	}
	return le.AppendUint64(nil, uint64(n)), nil
}

func (d *disk) statfs(n *node) ([]byte, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(n.fd, &st); err != nil {
		return nil, err
	}
	if mood(d.mood.Load()) == diskFull {
		st.Bfree, st.Bavail = 0, 0
	}
	var out []byte
	for _, v := range []uint64{st.Blocks, st.Bfree, st.Bavail, st.Files, st.Ffree} {
		out = le.AppendUint64(out, v)
	}
	for _, v := range []uint32{uint32(st.Bsize), uint32(st.Namelen), uint32(st.Frsize), 0, 0, 0, 0, 0, 0, 0} {
		out = le.AppendUint32(out, v)
	}
	return out, nil
}

func (d *disk) readdir(in []byte) (out []byte) {
	d.mu.Lock()
	all := d.dirs[le.Uint64(in)]
	d.mu.Unlock()
	for i := int(le.Uint64(in[8:])); i < len(all); i++ {
		s := all[i].Name()
		size := (24 + len(s) + 7) &^ 7
		if len(out)+size > int(le.Uint32(in[16:])) {
			break
		}
		b := make([]byte, size)
		le.PutUint64(b, uint64(i)+1)
		le.PutUint64(b[8:], uint64(i)+1)
		le.PutUint32(b[16:], uint32(len(s)))
		kind := uint32(unix.DT_REG)
		if all[i].IsDir() {
			kind = unix.DT_DIR
		}
		le.PutUint32(b[20:], kind)
		copy(b[24:], s)
		out = append(out, b...)
	}
	return out
}
