package stream

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/quern-llm/quern/go/mem"
)

// Slow is the rate, in bytes per second, below which a disk is too slow for streaming weights: a layer of a
// small model takes longer than a second.
const Slow = 150e6

// Measure returns the sequential read rate of a file in bytes per second, as a Store reads it, and the
// method. It reads for half a second, each time from another part of the file: the host of a virtual machine
// may have cached what was read before.
func Measure(path string) (perSecond float64, how string, err error) {
	const window = 64 << 20
	r, err := Open([]string{path})
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	size := r.files[0].was.Size()
	if size < Align {
		return 0, "", errors.New("too small a file to measure its disk")
	}
	buf, err := mem.Alloc(window, "a measurement")
	if err != nil {
		return 0, "", err
	}
	defer buf.Close()
	off, read, start := rand.Int64N(size)/Align*Align, int64(0), time.Now()
	for took := time.Duration(0); took < 500*time.Millisecond; took = time.Since(start) {
		n := min(window, size-off) / Align * Align
		if n == 0 {
			off = 0
			continue
		}
		done := make(chan error)
		r.Read(0, off, buf.Bytes()[:n:n], int(n), func(err error) { done <- err })
		if err := <-done; err != nil {
			return 0, "", err
		}
		read, off = read+n, off+n
	}
	return float64(read) / time.Since(start).Seconds(), r.How(), nil
}
