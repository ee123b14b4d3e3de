package platform

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What is used of <linux/io_uring.h>.
const (
	uringOpRead     = 22
	uringGetEvents  = 1 << 0
	uringSingleMmap = 1 << 0
	uringSQRing     = 0
	uringSQEs       = 0x10000000
)

type uringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32
	sq                                                                     struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		_                                                   uint64
	}
}

type uringSQE struct {
	op, flags uint8
	_         uint16
	fd        int32
	off       uint64
	addr      uint64
	n         uint32
	_         uint32
	data      uint64
	_         [24]byte
}

type uringCQE struct {
	data  uint64
	res   int32
	flags uint32
}

// A Ring reads files with many reads in flight (io_uring). It is used by one goroutine.
type Ring struct {
	fd     int
	rings  []byte
	sqes   []byte
	p      uringParams
	queued int // entries that the kernel was not told of yet
}

// NewRing returns a ring of so many entries, which is how many reads are in flight at most. It is an error if the kernel or a
// container's seccomp filter does not provide io_uring, or only one without plain reads.
func NewRing(entries int) (*Ring, error) {
	u := &Ring{}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(&u.p)), 0)
	if errno != 0 {
		return nil, errno
	}
	u.fd = int(fd)
	if u.p.features&uringSingleMmap == 0 { // before 5.4; reads came with 5.6
		u.Close()
		return nil, errors.ErrUnsupported
	}
	var err error
	size := max(int(u.p.sq.array)+int(u.p.sqEntries)*4, int(u.p.cq.cqes)+int(u.p.cqEntries)*int(unsafe.Sizeof(uringCQE{})))
	if u.rings, err = unix.Mmap(u.fd, uringSQRing, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err == nil {
		u.sqes, err = unix.Mmap(u.fd, uringSQEs, int(u.p.sqEntries)*int(unsafe.Sizeof(uringSQE{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	if err == nil {
		err = u.knowsReads()
	}
	if err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// knowsReads asks the kernel whether it supports the operation.
func (u *Ring) knowsReads() error {
	const register, ops = 8, 64 // IORING_REGISTER_PROBE
	var probe struct {
		last, n uint8
		_       [14]byte
		ops     [ops]struct {
			op, _ uint8
			flags uint16
			_     uint32
		}
	}
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(u.fd), register, uintptr(unsafe.Pointer(&probe)), ops, 0, 0); errno != 0 {
		return errno
	}
	if probe.last < uringOpRead || probe.ops[uringOpRead].flags&1 == 0 {
		return errors.ErrUnsupported
	}
	return nil
}

// Close ends the ring. No read is in flight.
func (u *Ring) Close() {
	for _, m := range [][]byte{u.rings, u.sqes} {
		if m != nil {
			unix.Munmap(m)
		}
	}
	unix.Close(u.fd)
}

func (u *Ring) word(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&u.rings[off])) }

// Read queues a read of p from a file at an offset. What Wait tells of it has the number.
func (u *Ring) Read(file uintptr, p []byte, off int64, number int) {
	tail, mask := u.word(u.p.sq.tail), *u.word(u.p.sq.mask)
	at := *tail & mask
	sqe := (*uringSQE)(unsafe.Pointer(&u.sqes[int(at)*int(unsafe.Sizeof(uringSQE{}))]))
	*sqe = uringSQE{
		op: uringOpRead, fd: int32(file), off: uint64(off),
		addr: uint64(uintptr(unsafe.Pointer(&p[0]))), n: uint32(len(p)), data: uint64(number),
	}
	*u.word(u.p.sq.array + 4*at) = at
	atomic.StoreUint32(tail, *tail+1)
	u.queued++
}

// Wait starts the queued reads, waits for at least one to end, and calls ended with each that has: its number, the bytes that
// were read, and its error; again is set where it was only interrupted, and is to be asked for once more. Wait's own error
// is the kernel's that it refuses.
func (u *Ring) Wait(ended func(number, n int, err error, again bool)) error {
	if err := u.enter(); err != nil {
		return err
	}
	head, tail, mask := u.word(u.p.cq.head), u.word(u.p.cq.tail), *u.word(u.p.cq.mask)
	for h := *head; h != atomic.LoadUint32(tail); h++ {
		cqe := *(*uringCQE)(unsafe.Pointer(&u.rings[u.p.cq.cqes+(h&mask)*uint32(unsafe.Sizeof(uringCQE{}))]))
		atomic.StoreUint32(head, h+1)
		n, err := max(int(cqe.res), 0), error(nil)
		if cqe.res < 0 {
			err = unix.Errno(-cqe.res)
		}
		ended(int(cqe.data), n, err, errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN))
	}
	return nil
}

// enter submits the queued reads and waits for at least one to complete.
func (u *Ring) enter() error {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(u.queued), 1, uringGetEvents, 0, 0)
		switch errno {
		case 0:
			u.queued -= int(n)
			return nil
		case unix.EINTR, unix.EAGAIN, unix.EBUSY:
		default:
			return errno
		}
	}
}
