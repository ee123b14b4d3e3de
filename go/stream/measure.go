package stream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
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
	buf, err := mem.Alloc(window, "a measurement")
	if err != nil {
		r.Close()
		return 0, "", err
	}
	perSecond, left, err := r.measure(buf.Bytes())
	end := func() { r.Close(); buf.Close() }
	if left == nil {
		end()
	} else {
		go func() { <-left; end() }() // once nothing is read into the memory any more
	}
	return perSecond, r.How(), err
}

// Bounds of the time of a measurement: it begins no read after the one, and waits for none after the other.
const (
	measureTime = 500 * time.Millisecond
	measureMost = 3 * time.Second
)

// measure reads the first file into a buffer, again and again. left, if it is not nil, is closed when the last read has
// ended: the disk is too slow to wait for it.
func (r *Reader) measure(buf []byte) (perSecond float64, left <-chan struct{}, err error) {
	size := r.files[0].was.Size()
	if size < Align {
		return 0, nil, errors.New("too small a file to measure its disk")
	}
	late := time.NewTimer(measureMost)
	defer late.Stop()
	off, read, start := rand.Int64N(size)/Align*Align, int64(0), time.Now()
	for time.Since(start) < measureTime {
		n := min(int64(len(buf)), size-off) / Align * Align
		if n == 0 {
			off = 0
			continue
		}
		type part struct {
			n   int64
			err error
		}
		parts := make(chan part, n/chunkBytes+1)
		var all sync.WaitGroup
		for at := int64(0); at < n; at += chunkBytes {
			m := min(chunkBytes, n-at)
			all.Add(1)
			r.Read(0, off+at, buf[at:at+m:at+m], int(m), func(err error) {
				parts <- part{m, err}
				all.Done()
			})
		}
		for came := int64(0); came < n; {
			select {
			case p := <-parts:
				came += p.n
				if err == nil {
					err = p.err
				}
				if p.err == nil {
					read += p.n
				}
			case <-late.C:
				ended := make(chan struct{})
				go func() { all.Wait(); close(ended) }()
				if read == 0 {
					err = fmt.Errorf("the disk gave nothing in %v", measureMost)
				}
				return float64(read) / time.Since(start).Seconds(), ended, err
			}
		}
		if err != nil {
			return 0, nil, err
		}
		off += n
	}
	return float64(read) / time.Since(start).Seconds(), nil, nil
}
