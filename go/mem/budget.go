package mem

import (
	"fmt"
	"maps"
	"sync"
)

// A Budget is a limit on bytes. Every large allocation reserves its bytes first, so that one that does not
// fit is refused with an error instead of the kernel killing the process later. The limit may change: if it
// falls below what is reserved, nothing is free until enough is released. It is safe for concurrent use.
type Budget struct {
	mu     sync.Mutex
	limit  uint64
	reason string
	used   uint64
	peak   uint64
	by     map[string]uint64 // in use, by purpose
}

// NewBudget returns a budget of limit bytes. The reason names the source of the limit in a few words, such as
// "cgroup memory.max", and is part of every refusal.
func NewBudget(limit uint64, reason string) *Budget {
	return &Budget{limit: limit, reason: reason, by: map[string]uint64{}}
}

// A LimitError reports a reservation that a Budget refused.
type LimitError struct {
	Purpose string
	Need    uint64
	Free    uint64
	Limit   uint64
	Reason  string // what set the limit
}

// Error returns one sentence with the numbers.
func (e *LimitError) Error() string {
	need, free := FormatBytes(e.Need), FormatBytes(e.Free)
	if need == free { // a refusal has to show the difference
		need, free = fmt.Sprintf("%d bytes", e.Need), fmt.Sprintf("%d", e.Free)
	}
	return fmt.Sprintf("no memory for %s: want %s, %s of the %s limit are free (%s); use a smaller model or context, or raise the limit",
		e.Purpose, need, free, FormatBytes(e.Limit), e.Reason)
}

// Missing returns how many more bytes were needed. Callers use the method to recognize errors caused by a
// lack of memory.
func (e *LimitError) Missing() uint64 { return e.Need - min(e.Need, e.Free) }

// A Reservation is a number of bytes reserved from a Budget.
type Reservation struct {
	budget  *Budget
	purpose string
	bytes   uint64 // under the budget's lock
}

// Reserve reserves n bytes, or returns a *LimitError if fewer are free. The bytes are counted under the
// purpose, a few words such as "packed weights".
func (b *Budget) Reserve(purpose string, n uint64) (*Reservation, error) {
	r := &Reservation{budget: b, purpose: purpose}
	if err := r.Resize(n); err != nil {
		return nil, err
	}
	return r, nil
}

// Lender returns a function that reserves bytes for a purpose, and returns what releases them: as decoders ask for memory. That
// of a nil budget is nil: nothing is counted.
func (b *Budget) Lender(purpose string) func(n uint64) (free func(), err error) {
	if b == nil {
		return nil
	}
	return func(n uint64) (func(), error) {
		r, err := b.Reserve(purpose, n)
		if err != nil {
			return nil, err
		}
		return r.Release, nil
	}
}

// Bytes returns the number of reserved bytes.
func (r *Reservation) Bytes() uint64 {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	return r.bytes
}

// Resize changes the reservation to n bytes. If too few are free, it returns a
// *LimitError and changes nothing.
func (r *Reservation) Resize(n uint64) error {
	b := r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	others := b.used - r.bytes
	if free := b.limit - min(b.limit, others); n > free && n > r.bytes {
		return &LimitError{r.purpose, n, free, b.limit, b.reason}
	}
	r.set(n)
	return nil
}

// Set changes the reservation to n bytes even if they are not free: for memory that is already in use and was
// measured.
func (r *Reservation) Set(n uint64) {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	r.set(n)
}

// set requires the budget's lock.
func (r *Reservation) set(n uint64) {
	b := r.budget
	b.used += n - r.bytes
	b.peak = max(b.peak, b.used)
	if b.by[r.purpose] += n - r.bytes; b.by[r.purpose] == 0 {
		delete(b.by, r.purpose)
	}
	r.bytes = n
}

// Release releases the bytes. Releasing again is a no-op.
func (r *Reservation) Release() { _ = r.Resize(0) } // shrinking cannot fail

// Alloc reserves n bytes and allocates them. Closing the region releases the reservation.
func (b *Budget) Alloc(purpose string, n uint64) (*Region, error) {
	res, err := b.Reserve(purpose, n)
	if err != nil {
		return nil, err
	}
	r, err := Alloc(n, purpose)
	if err != nil {
		res.Release()
		return nil, err
	}
	r.freed = res.Release
	return r, nil
}

// Limit returns the budget's size in bytes and its reason.
func (b *Budget) Limit() (bytes uint64, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit, b.reason
}

// SetLimit changes the limit and its reason.
func (b *Budget) SetLimit(limit uint64, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit, b.reason = limit, reason
}

// Over returns by how many bytes the reservations exceed the limit.
func (b *Budget) Over() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used - min(b.used, b.limit)
}

// Used returns how many bytes are reserved now.
func (b *Budget) Used() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Peak returns the maximum of Used so far.
func (b *Budget) Peak() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

// Free returns how many bytes are left.
func (b *Budget) Free() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit - min(b.limit, b.used)
}

// ByPurpose returns the reserved bytes by purpose. The map is a copy.
func (b *Budget) ByPurpose() map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.by)
}

// Appended returns the most memory of a slice that has grown by append to n bytes: append leaves up to a quarter of it
// unused, up to half of a short one, and the allocator rounds to pages.
func Appended(n int) int { return n + n/4 + min(n, 8<<10) }
