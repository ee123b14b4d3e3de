package kernel

/*
#include "quern.h"
#cgo noescape qn_ranks_send
#cgo noescape qn_ranks_recv
#cgo nocallback qn_ranks_send
#cgo nocallback qn_ranks_recv
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// MaxRanks is the maximum number of ranks of a group.
const MaxRanks = C.QN_RANKS_MAX

var (
	// ErrRanks reports that ranks can no longer run plans together. The others wrap it.
	ErrRanks = errors.New("kernel: another rank has ended or cannot be reached")
	// ErrStep reports that ranks were not at the same operation.
	ErrStep = fmt.Errorf("%w: it is not at the same operation of a pass", ErrRanks)
	// ErrSilent reports that no message came in time.
	ErrSilent = fmt.Errorf("%w: nothing has come in time", ErrRanks)
	// ErrLong reports a message that is longer than it may be.
	ErrLong = fmt.Errorf("%w: a message of it is too long", ErrRanks)
)

// Ranks is this process's place in a group of processes that run plans together, each with a slice of the model. It is
// not safe for concurrent use, except for Rank, Count, Load, Shares and Break.
type Ranks struct {
	c           *C.struct_qn_ranks
	rank, count int
	pin         runtime.Pinner // of the Stop of a pass
	closing     sync.Mutex     // Break may come at any time

	heard [MaxRanks]struct{ computed, waited atomic.Int64 } // by messages
}

// ThreadRanks returns n ranks that are goroutines of this process. The caller closes each.
func ThreadRanks(n int) ([]*Ranks, error) {
	if n < 1 || n > MaxRanks {
		return nil, fmt.Errorf("%d ranks, want 1 to %d", n, MaxRanks)
	}
	c := (*[MaxRanks]*C.struct_qn_ranks)(calloc(MaxRanks, int(unsafe.Sizeof(uintptr(0)))))
	defer free(unsafe.Pointer(c))
	if err := status(C.qn_ranks_self(&c[0], C.int32_t(n)), fmt.Sprintf("%d ranks", n)); err != nil {
		return nil, err
	}
	all := make([]*Ranks, n)
	for i := range all {
		all[i] = newRanks(c[i])
	}
	return all, nil
}

func newRanks(c *C.struct_qn_ranks) *Ranks {
	return &Ranks{c: c, rank: int(C.qn_ranks_rank(c)), count: int(C.qn_ranks_count(c))}
}

// Rank returns the number of this rank. Rank 0 decides, and has the results.
func (g *Ranks) Rank() int { return g.rank }

// Count returns how many ranks there are.
func (g *Ranks) Count() int { return g.count }

// Begin begins a pass. Once rank 0's stop, which may be nil, is set, the pass ends behind the same plan on all ranks. What it
// returns is the stop of the runs of this pass.
func (g *Ranks) Begin(stop *Stop) *Stop {
	g.pin.Unpin()
	var ask *C.uint32_t
	if stop != nil {
		g.pin.Pin(stop)
		ask = (*C.uint32_t)(unsafe.Pointer(stop))
	}
	return (*Stop)(unsafe.Pointer(C.qn_ranks_begin(g.c, ask)))
}

// Failed returns why exchanges have failed, or nil. What the pass computed is then garbage, and no other can run. A nil
// Ranks never fails.
func (g *Ranks) Failed() error {
	if g == nil {
		return nil
	}
	return ranksStatus(C.qn_ranks_failed(g.c))
}

func ranksStatus(rc C.int) error {
	switch rc {
	case C.QN_EBROKEN:
		return ErrRanks
	case C.QN_EDESYNC:
		return ErrStep
	case C.QN_ETIMEOUT:
		return ErrSilent
	case C.QN_ETOOLONG:
		return ErrLong
	}
	return status(rc, "ranks")
}

// A RankLoad is what a rank has done in passes since the ranks were opened.
type RankLoad struct {
	Computed time.Duration // between exchanges
	Waited   time.Duration // in exchanges, most of it for others
	Bytes    int64         // that it has sent to each other
}

// Load returns what a rank has done; of another its times up to the last exchange in which this one has heard of it. It is
// safe for concurrent use until Close.
func (g *Ranks) Load(rank int) RankLoad {
	l := C.qn_ranks_load(g.c, C.int32_t(rank))
	h := &g.heard[rank]
	return RankLoad{
		Computed: time.Duration(max(int64(l.computed_ns), h.computed.Load())),
		Waited:   time.Duration(max(int64(l.waited_ns), h.waited.Load())),
		Bytes:    int64(l.bytes),
	}
}

// Heard records the times that another rank has told by a message, for those whose pieces this one does not receive.
func (g *Ranks) Heard(rank int, l RankLoad) {
	g.heard[rank].computed.Store(int64(l.Computed))
	g.heard[rank].waited.Store(int64(l.Waited))
}

// End ends a pass: the rank has computed since its last exchange.
func (g *Ranks) End() { C.qn_ranks_end(g.c) }

// Patience is how long this rank waits for others in an exchange, at least.
func (g *Ranks) Patience(least time.Duration) { C.qn_ranks_patience(g.c, C.int64_t(least)) }

// Shares returns how often this rank has exchanged something with others. It is safe for concurrent use until Close.
func (g *Ranks) Shares() int64 { return int64(C.qn_ranks_shares(g.c)) }

// Send sends a message to a rank, or to Everyone else.
func (g *Ranks) Send(to int, msg []byte) error {
	return ranksStatus(C.qn_ranks_send(g.c, C.int32_t(to), unsafe.Pointer(unsafe.SliceData(msg)), C.size_t(len(msg))))
}

// Recv waits for the next message of a rank, for at most this long unless it is 0, and returns the part of room that it
// is in.
func (g *Ranks) Recv(from int, room []byte, timeout time.Duration) ([]byte, error) {
	n := C.size_t(0)
	rc := C.qn_ranks_recv(g.c, C.int32_t(from), unsafe.Pointer(unsafe.SliceData(room)), C.size_t(len(room)), &n, C.int64_t(timeout))
	if err := ranksStatus(rc); err != nil {
		return nil, err
	}
	return room[:n], nil
}

// Break ends all that waits for other ranks, here and where they notice, with ErrRanks. After Close it is a no-op.
func (g *Ranks) Break() {
	g.closing.Lock()
	defer g.closing.Unlock()
	if g.c != nil {
		C.qn_ranks_break(g.c)
	}
}

// Close leaves the group, which cannot go on without this rank. Closing again is a no-op.
func (g *Ranks) Close() {
	g.closing.Lock()
	defer g.closing.Unlock()
	if g.c != nil {
		C.qn_ranks_close(g.c)
		g.pin.Unpin()
		g.c = nil
	}
}

// Exchanges measures how long ranks need to exchange so many bytes, of all together: the median of some rounds. All ranks
// call it at the same time, with the same numbers.
func (g *Ranks) Exchanges(bytes, rounds int) (time.Duration, error) {
	const warm = 3
	p := NewPieces(g, bytes/g.Count())
	defer p.Close()
	sizes := slices.Repeat([]int{p.Most()}, g.Count())
	g.Begin(nil)
	defer g.End()
	var took []time.Duration
	for i := range warm + rounds {
		start := time.Now()
		if err := p.Exchange(sizes, 0); err != nil {
			return 0, err
		}
		if i >= warm {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// ErrNoUCX says which program has what UCX does, where this one has not.
var ErrNoUCX = errors.New("this program does not reach other machines; bin/quern-cluster does, which \"make cluster\" builds")
