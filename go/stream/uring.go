package stream

import (
	"io"

	"github.com/quern-llm/quern/go/platform"
)

// A uring is requests on a ring. Its entries limit the reads in flight.
type uring struct {
	ring  *platform.Ring
	inAir []flight // by entry
	free  []int
}

// A flight is a request in flight, of which the first `at` bytes were read.
type flight struct {
	request
	at int
}

func newURing(entries int) (*uring, error) {
	ring, err := platform.NewRing(entries)
	if err != nil {
		return nil, err
	}
	u := &uring{ring: ring, inAir: make([]flight, entries)}
	for i := range entries {
		u.free = append(u.free, i)
	}
	return u, nil
}

// run serves the requests of r until its queue is closed and none is in flight, or until the kernel refuses.
func (u *uring) run(r *Reader) error {
	defer u.ring.Close()
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
		if err := u.ring.Wait(func(i, n int, err error, again bool) { u.landed(r, i, n, err, again) }); err != nil {
			u.fail(err)
			return err
		}
	}
}

// submit queues a read of the missing bytes of entry i.
func (u *uring) submit(r *Reader, i int) {
	f := &u.inAir[i]
	u.ring.Read(r.files[f.file].fd, f.buf[f.at:], f.off+int64(f.at), i)
}

// landed completes the request of entry i, of which n more bytes were read, or continues it.
func (u *uring) landed(r *Reader, i, n int, err error, again bool) {
	f := &u.inAir[i]
	switch {
	case again:
		u.submit(r, i)
		return
	case err == nil && f.at+n < f.need && n < Align:
		err = io.ErrUnexpectedEOF
	case err == nil && f.at+n < f.need:
		f.at = (f.at + n) / Align * Align
		u.submit(r, i)
		return
	}
	r.forget(f.file, f.off, len(f.buf))
	q := f.request
	*f = flight{}
	u.free = append(u.free, i)
	q.done(err)
}

// fail completes everything in flight with an error.
func (u *uring) fail(err error) {
	for i := range u.inAir {
		if q := u.inAir[i].request; q.done != nil {
			q.done(err)
		}
	}
}
