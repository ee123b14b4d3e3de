// Package stream streams weights that are larger than memory: it keeps as many parts of a file in memory as a
// limit allows, and reads the others from disk as they are needed, ahead of use if the order is known. Reads
// bypass the page cache where the file system supports it.
package stream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/platform"
)

// Align is the alignment of file offsets and memory addresses of direct reads.
const Align = 4096

const (
	chunkBytes = 1 << 20 // of one read
	inFlight   = 16      // reads at a time
)

// ErrChanged reports that a file was modified after it was opened.
var ErrChanged = errors.New("the file was changed while it was in use; load it again (a file that is renamed over another replaces it safely)")

// A ReadFunc reads bytes of a file, like io.ReaderAt. It is safe for concurrent use.
type ReadFunc func(file int, p []byte, off int64) (int, error)

// A Reader reads parts of files into memory outside the Go heap: many concurrently, in the order in which
// they were requested. It is safe for concurrent use.
type Reader struct {
	files  []source
	how    string
	cached bool // reads go through the page cache, in which nothing stays
	piece  int  // most bytes of one read
	align  int  // of file offsets and memory addresses
	queue  *queue
	ended  sync.WaitGroup
}

// A source is an open file and its state when it was opened.
type source struct {
	f   *os.File
	fd  uintptr
	was os.FileInfo
}

// A request is a read of a chunk. It is complete when the first `need` bytes of buf were read.
type request struct {
	file int
	off  int64
	buf  []byte
	need int
	done func(error)
}

// Open opens files for reading: by io_uring with direct I/O if the kernel and the file system support it,
// else by threads, else through the page cache.
func Open(paths []string) (*Reader, error) {
	r := &Reader{queue: newQueue(), piece: chunkBytes, align: Align}
	for _, p := range paths {
		s, ok, err := open(p)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.files = append(r.files, s)
		r.cached = r.cached || !ok
	}
	if u, err := newURing(inFlight); err == nil {
		r.how = "io_uring"
		r.ended.Go(func() {
			if u.run(r) != nil {
				r.serve(r.pread, inFlight)
			}
		})
	} else {
		r.how = "threads"
		r.serve(r.pread, inFlight)
	}
	if r.cached {
		r.how += ", through the page cache"
	}
	return r, nil
}

// NewReader returns a Reader that reads with a function.
func NewReader(f ReadFunc) *Reader {
	r := &Reader{queue: newQueue(), how: "memory", piece: chunkBytes, align: Align}
	r.serve(f, inFlight)
	return r
}

// NewFetcher returns a Reader of files that are elsewhere. f reads the whole of p, or fails. So many reads are in flight at
// a time, each of up to `piece` bytes. They need no alignment.
func NewFetcher(f func(file int, p []byte, off int64) error, piece, reads int) *Reader {
	r := &Reader{queue: newQueue(), how: "ranges", piece: piece, align: 1}
	r.serve(func(file int, p []byte, off int64) (int, error) {
		if err := f(file, p, off); err != nil {
			return 0, err
		}
		return len(p), nil
	}, reads)
	return r
}

// open opens a file with direct I/O if its file system supports that.
func open(path string) (s source, direct bool, err error) {
	if s.f, direct, err = platform.OpenDirect(path, Align); err != nil {
		return source{}, false, err
	}
	fi, err := s.f.Stat()
	if err != nil {
		s.f.Close()
		return source{}, false, err
	}
	s.fd, s.was = s.f.Fd(), fi
	return s, direct, nil
}

// serve starts threads that carry out requests.
func (r *Reader) serve(f ReadFunc, threads int) {
	for range threads {
		r.ended.Go(func() {
			for {
				q, ok := r.queue.pop(true)
				if !ok {
					return
				}
				q.done(panics.Catch(func() error { return read(f, q) }))
			}
		})
	}
}

// How describes in words how the files are read.
func (r *Reader) How() string { return r.how }

// Read requests the first `need` bytes of buf from a file at offset off. It calls done from another goroutine
// when they were read or the read failed. off, and the address and length of buf, are multiples of Align, but for those of
// a fetcher.
func (r *Reader) Read(file int, off int64, buf []byte, need int, done func(error)) {
	r.ask(file, off, buf, need, false, done)
}

// ask is Read with a priority: `later` requests are served after all others.
func (r *Reader) ask(file int, off int64, buf []byte, need int, later bool, done func(error)) {
	chunks := (len(buf) + r.piece - 1) / r.piece
	var mu sync.Mutex
	var first error
	one := func(err error) {
		mu.Lock()
		if first == nil {
			first = err
		}
		chunks--
		last := chunks == 0
		mu.Unlock()
		if last {
			done(first)
		}
	}
	for at := 0; at < len(buf); at += r.piece {
		end := min(at+r.piece, len(buf))
		r.queue.push(request{file, off + int64(at), buf[at:end:end], max(min(end, need)-at, 0), one}, later)
	}
}

// Info returns a file's metadata from when it was opened.
func (r *Reader) Info(file int) os.FileInfo { return r.files[file].was }

// Unchanged returns ErrChanged if a file was written or truncated since it was opened.
func (r *Reader) Unchanged() error {
	for _, s := range r.files {
		if fi, err := s.f.Stat(); err != nil || fi.Size() != s.was.Size() || !fi.ModTime().Equal(s.was.ModTime()) {
			return ErrChanged
		}
	}
	return nil
}

// Close waits for the reads in flight and closes the files. Requests that have not started are dropped.
func (r *Reader) Close() {
	r.queue.close()
	r.ended.Wait()
	for _, s := range r.files {
		s.f.Close()
	}
}

func (r *Reader) pread(file int, p []byte, off int64) (int, error) {
	n, err := platform.ReadAt(r.files[file].fd, p, off)
	switch {
	case err == nil && n == 0:
		err = io.EOF
	case err == nil:
		r.forget(file, off, n)
	}
	return n, err
}

// forget drops from the page cache what a read left there.
func (r *Reader) forget(file int, off int64, n int) {
	if r.cached {
		platform.Forget(r.files[file].fd, off, int64(n))
	}
}

// read serves a request, with several reads if one is short.
func read(f ReadFunc, q request) error {
	for at := 0; at < q.need; {
		n, err := f(q.file, q.buf[at:], q.off+int64(at))
		if n < 0 || n > len(q.buf)-at {
			return fmt.Errorf("a read of %d bytes returned %d", len(q.buf)-at, n)
		}
		if at+n >= q.need {
			return nil
		}
		if err == nil && n < Align {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return unexpected(err)
		}
		at = (at + n) / Align * Align
	}
	return nil
}

// unexpected returns the error for a file that ends too early.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// A queue is a list of requests in order, and one of requests with lower priority.
type queue struct {
	mu     sync.Mutex
	more   *sync.Cond
	list   []request
	later  []request
	closed bool
}

func newQueue() *queue {
	q := &queue{}
	q.more = sync.NewCond(&q.mu)
	return q
}

func (q *queue) push(r request, later bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if later {
		q.later = append(q.later, r)
	} else {
		q.list = append(q.list, r)
	}
	q.more.Signal()
}

// pop returns the next request. If `wait` is set it waits for one. It returns none once the queue is closed.
func (q *queue) pop(wait bool) (r request, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 && len(q.later) == 0 && !q.closed && wait {
		q.more.Wait()
	}
	from := &q.list
	if len(q.list) == 0 {
		from = &q.later
	}
	if q.closed || len(*from) == 0 {
		return r, false
	}
	r = (*from)[0]
	(*from)[0] = request{}
	*from = (*from)[1:]
	return r, true
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.list, q.later = true, nil, nil
	q.more.Broadcast()
}
