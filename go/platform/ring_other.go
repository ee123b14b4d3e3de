//go:build !linux

package platform

// A Ring reads files with many reads in flight. Linux alone has them in a form of use here; elsewhere threads read.
type Ring struct{}

// NewRing returns a ring of so many entries, which there is not.
func NewRing(int) (*Ring, error) { return nil, unsupported("io_uring") }

// Close ends the ring.
func (u *Ring) Close() {}

// Read queues a read.
func (u *Ring) Read(uintptr, []byte, int64, int) {}

// Wait starts reads and waits for one.
func (u *Ring) Wait(func(int, int, error, bool)) error { return ErrUnsupported }
