package diskcache

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

// A count is what the processes that share a folder know together.
type count struct {
	bytes  uint64 // of all files, or more
	writes uint64 // ever
}

// usage is a count in a file, which processes change under a lock.
type usage struct {
	f  *os.File
	mu sync.Mutex // a lock of the file is of the process
}

// patience is how long another process may hold the lock.
const patience = 2 * time.Second

var errLocked = errors.New("another process holds the lock of the folder")

func openUsage(path string) (*usage, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &usage{f: f}, nil
}

func (u *usage) close() error { return u.f.Close() }

// read returns the count; of a new file, 0.
func (u *usage) read() (c count, err error) {
	var b [16]byte
	n, err := u.f.ReadAt(b[:], 0)
	if n < len(b) && !errors.Is(err, io.EOF) {
		return c, err
	}
	return count{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}, nil
}

// update changes the count, unless f fails.
func (u *usage) update(f func(*count) error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.lock(); err != nil {
		return err
	}
	defer platform.Unlock(u.f)
	c, err := u.read()
	if err != nil {
		return err
	}
	if err := f(&c); err != nil {
		return err
	}
	b := binary.LittleEndian.AppendUint64(nil, c.bytes)
	_, err = u.f.WriteAt(binary.LittleEndian.AppendUint64(b, c.writes), 0)
	return err
}

// lock takes the lock. It does not wait for ever, since the process that has it may be stopped.
func (u *usage) lock() error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if ok, err := platform.Lock(u.f); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return errLocked
		}
	}
}
