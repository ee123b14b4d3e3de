//go:build cgo && !ucx

package kernel

// HasUCX says whether this program was built with UCX.
const HasUCX = false

// UCX is a process that others join by its address.
type UCX struct{}

// OpenUCX reports that this program was built without UCX.
func OpenUCX([]string) (*UCX, error) { return nil, ErrNoUCX }

// Address has no address to return.
func (u *UCX) Address() []byte { return nil }

// Join reports that this program was built without UCX.
func (u *UCX) Join(int, [][]byte, []bool) (*Ranks, error) { return nil, ErrNoUCX }

// Close does nothing.
func (u *UCX) Close() {}
