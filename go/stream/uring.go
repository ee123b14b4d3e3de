package stream

import (
	"errors"
	"io"
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

// A uring is an io_uring used by one goroutine. Its entries limit the reads in flight.
type uring struct {
	fd     int
	rings  []byte
	sqes   []byte
	p      uringParams
	inAir  []flight // by entry
	free   []int
	queued int // entries that the kernel was not told of yet
}

// A flight is a request in flight, of which the first `at` bytes were read.
type flight struct {
	request
	at int
}

// newURing returns an error if the kernel or a container's seccomp filter does not provide io_uring, or only
// one without plain reads.
func newURing(entries int) (*uring, error) {
	u := &uring{inAir: make([]flight, entries)}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(&u.p)), 0)
	if errno != 0 {
		return nil, errno
	}
	u.fd = int(fd)
	if u.p.features&uringSingleMmap == 0 { // before 5.4; reads came with 5.6
		u.close()
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
		u.close()
		return nil, err
	}
	for i := range entries {
		u.free = append(u.free, i)
	}
	return u, nil
}

// knowsReads asks the kernel whether it supports the operation.
func (u *uring) knowsReads() error {
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

func (u *uring) close() {
	for _, m := range [][]byte{u.rings, u.sqes} {
		if m != nil {
			unix.Munmap(m)
		}
	}
	unix.Close(u.fd)
}

func (u *uring) word(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&u.rings[off])) }

// run serves the requests of r until its queue is closed and none is in flight, or until the kernel refuses.
func (u *uring) run(r *Reader) error {
	defer u.close()
	for {
		for len(u.free) > 0 {
			q, ok := r.queue.pop(len(u.free) == len(u.inAir))
			if !ok {
				break
			}
			if q.need <= 0 {
				q.done(nil)
				continue
			}
			i := u.free[len(u.free)-1]
			u.free = u.free[:len(u.free)-1]
			u.inAir[i] = flight{request: q}
			u.submit(r, i)
		}
		if len(u.free) == len(u.inAir) {
			return nil
		}
		if err := u.enter(); err != nil {
			u.fail(err)
			return err
		}
		u.reap(r)
	}
}

// submit queues a read of the missing bytes of entry i.
func (u *uring) submit(r *Reader, i int) {
	f := &u.inAir[i]
	tail, mask := u.word(u.p.sq.tail), *u.word(u.p.sq.mask)
	at := *tail & mask
	sqe := (*uringSQE)(unsafe.Pointer(&u.sqes[int(at)*int(unsafe.Sizeof(uringSQE{}))]))
	*sqe = uringSQE{
		op: uringOpRead, fd: int32(r.files[f.file].fd), off: uint64(f.off) + uint64(f.at),
		addr: uint64(uintptr(unsafe.Pointer(&f.buf[f.at]))), n: uint32(len(f.buf) - f.at), data: uint64(i),
	}
	*u.word(u.p.sq.array + 4*at) = at
	atomic.StoreUint32(tail, *tail+1)
	u.queued++
}

// enter submits the queued reads and waits for at least one to complete.
func (u *uring) enter() error {
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

// reap completes the requests whose reads are done, and continues short ones.
func (u *uring) reap(r *Reader) {
	head, tail, mask := u.word(u.p.cq.head), u.word(u.p.cq.tail), *u.word(u.p.cq.mask)
	for h := *head; h != atomic.LoadUint32(tail); h++ {
		cqe := *(*uringCQE)(unsafe.Pointer(&u.rings[u.p.cq.cqes+(h&mask)*uint32(unsafe.Sizeof(uringCQE{}))]))
		atomic.StoreUint32(head, h+1)
		i := int(cqe.data)
		f := &u.inAir[i]
		n, err := max(int(cqe.res), 0), error(nil)
		if cqe.res < 0 {
			err = unix.Errno(-cqe.res)
		}
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			u.submit(r, i)
			continue
		case err == nil && f.at+n < f.need && n < Align:
			err = io.ErrUnexpectedEOF
		case err == nil && f.at+n < f.need:
			f.at = (f.at + n) / Align * Align
			u.submit(r, i)
			continue
		}
		r.forget(f.file, f.off, len(f.buf))
		q := f.request
		*f = flight{}
		u.free = append(u.free, i)
		q.done(err)
	}
}

// fail completes everything in flight with an error.
func (u *uring) fail(err error) {
	for i := range u.inAir {
		if q := u.inAir[i].request; q.done != nil {
			q.done(err)
		}
	}
}
