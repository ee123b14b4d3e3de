package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/sched"
)

// LoopConfig configures how a Loop shares its engine among requests.
type LoopConfig struct {
	Queue     int               // maximum number of waiting requests
	TargetITL time.Duration     // target time between two tokens of a stream; 0: 150 ms, or 1.5 times a pass of one token
	OnPass    func(PassInfo)    // called after each pass, before the next: must not block; nil: not called
	Disk      *diskcache.Store  // has cached prefixes that there is no memory for, and outlives the loop; nil: none
	Profile   string            // what decides the bits of a state beside the model: numeric profile
	OnPanic   func(*PanicError) // called with each panic that ended a request, for the log: must not block; nil: not called
}

// PassInfo describes a completed pass.
type PassInfo struct {
	Took         time.Duration
	Sequences    int
	PromptTokens int
	DecodeTokens int
}

// A Loop runs an Engine for many requests concurrently (continuous batching), on one goroutine, which is the
// only one that may use the engine until the loop is closed. The Scheduler chooses the requests of each pass;
// the loop runs it.
//
// Its methods are safe for concurrent use. They never wait for a pass: the lock is held only between passes,
// while one is assembled. The exceptions are Drain and Close, which wait, and must not be called from a Sink.
type Loop struct {
	e      *Engine
	cfg    LoopConfig
	begun  time.Time
	wake   chan struct{} // buffered, capacity 1
	closed chan struct{} // closed when the goroutine has ended
	pulse  pulse

	generated atomic.Uint64 // tokens handed out
	mu        sync.Mutex
	sched     *sched.Scheduler
	held      *mem.Reservation // memory of running requests beside their KV blocks
	heldBytes uint64           // of it, with which each slot can run a short text, unless the loop sleeps
	kept      *mem.Reservation // of the logits of late requests
	asleep    bool             // there are no weights: see Sleep
	tree      *kvcache.Tree
	jobs      map[uint64]*job
	leaders   leaders // of the jobs that share prefixes
	slots     []slot
	lastID    uint64
	counts    Counts
	draining  bool
	stopping  bool
	calls     []func() // to be run between two passes
	works     []*work  // encodings that requests wait for
	// The running pass: its tokens, those of cancelled requests, and the function that aborts it.
	passTokens, goneTokens int64
	stop                   *kernel.Stop
	spill                  *spill         // nil: none
	idle                   chan struct{}  // closed when draining and no request is left
	saving                 sync.WaitGroup // slots that are saved or restored, which use blocks of the cache

	// Used only by the loop's goroutine.
	passState
	given   *Sequence     // of Generate's caller, which its only request extends and leaves to them; nil: requests have their own
	late    []*job        // in no pass until their masks are computed
	filled  time.Duration // what it took to have memory for the items
	spent   time.Duration // what drafting took for the next pass
	offered bool          // and there are drafts for it
}

// passState is the pass, and the requests that its items belong to, with scratch memory that passes use again. It is
// dropped while there is none, so that it does not hold requests that have ended.
type passState struct {
	planned []sched.Item
	items   []Item
	batch   []*job
	steps   []step                 // of the batch
	masking *masking               // of the batch; nil: none has a constraint
	readers []*reading             // of the batch
	ids     []int32                // of the items
	streams []sched.Item           // scratch of count
	fresh   []*job                 // scratch of draft
	texts   []*modelText           // the same
	own     []*mtpText             // the same
	gens    []*generate.Generation // scratch of keepNext
	keepers []*mtpText             // the same
}

// rest drops what the last passes left in scratch memory.
func (l *Loop) rest() {
	if l.batch == nil {
		return // there was none
	}
	l.passState = passState{}
	if m := l.e.mtp; m != nil {
		m.active, m.hidden = nil, nil
	}
	if d := l.e.drafts; d != nil {
		d.items, d.owner = nil, nil
	}
}

// newLoop returns a loop that nobody runs yet.
func newLoop(e *Engine, c LoopConfig, s sched.Config) *Loop {
	s.Batch, s.Whole, s.Reads = e.batch, e.model.Config.OnePass(), e.reads()
	s.Replays, s.Branches = e.kv.Layout().Recurrent(), maxBranches
	kept, _ := e.device.budget.Reserve(requestsPurpose, 0) // nothing is always free
	return &Loop{
		e: e, cfg: c, begun: time.Now(), wake: make(chan struct{}, 1), closed: make(chan struct{}), idle: make(chan struct{}),
		kept: kept, tree: e.tree, jobs: map[uint64]*job{}, leaders: newLeaders(), slots: make([]slot, s.Running), sched: sched.New(s),
	}
}

// NewLoop starts a Loop. It first calibrates the cost model with a few passes.
func NewLoop(e *Engine, c LoopConfig) (*Loop, error) {
	l := newLoop(e, c, sched.Config{Running: e.seqs, Memory: e.kv.Layout(), Queue: c.Queue, TargetITL: c.TargetITL})
	var err error
	l.heldBytes = uint64(l.slotBytes() * e.seqs)
	if l.held, err = e.device.budget.Reserve(requestsPurpose, l.heldBytes); err != nil {
		return nil, err
	}
	if err := l.calibrate(); err != nil {
		l.held.Release()
		return nil, err
	}
	if err := e.notByLayers("a prefix cache that extends to disk is"); c.Disk != nil && err != nil {
		l.held.Release()
		return nil, err
	}
	if c.Disk != nil && !e.model.Config.OnePass() {
		if l.spill, err = newSpill(l, c.Disk, c.Profile); err != nil {
			l.held.Release()
			return nil, err
		}
	}
	l.seeDrafts()
	e.device.begin(l)
	go l.run()
	return l, nil
}

// Drain stops accepting requests and waits for the current ones to finish. If ctx ends first, they end with
// ErrClosing.
func (l *Loop) Drain(ctx context.Context) {
	l.mu.Lock()
	l.draining = true
	l.nudge()
	l.mu.Unlock()
	select {
	case <-l.idle:
		return
	case <-ctx.Done():
	}
	l.mu.Lock()
	var rest []*job
	for _, j := range l.jobs {
		rest = append(rest, j)
	}
	l.mu.Unlock()
	for _, j := range rest {
		l.end(j, ErrClosing)
	}
	<-l.idle
}

// Close ends all requests with ErrClosing, waits for slots that are being saved or restored, and stops the loop. The
// engine stays open.
func (l *Loop) Close() {
	l.e.device.end(l)
	done, cancel := context.WithCancel(context.Background())
	cancel()
	l.Drain(done)
	l.mu.Lock()
	l.stopping = true
	l.nudge()
	l.mu.Unlock()
	<-l.closed
	l.saving.Wait()
	if l.spill != nil {
		l.spill.close()
	}
	l.mu.Lock()
	l.tree.Clear()
	l.mu.Unlock()
	l.held.Release()
}

func (l *Loop) now() time.Duration { return time.Since(l.begun) }

// nudge wakes the loop.
func (l *Loop) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run is the loop's goroutine.
func (l *Loop) run() {
	defer close(l.closed)
	leave := l.e.device.enter()
	defer leave()
	for l.turn() {
	}
}

// turn runs a pass, or waits until there is something to do. It reports whether the loop goes on.
func (l *Loop) turn() bool {
	now := l.now()
	l.pulse.beat.Store(int64(now))
	select {
	case <-l.wake: // what it was woken for is done below
	default:
	}
	resumed := l.resumeLate()
	l.mu.Lock()
	l.runCalls()
	ended := l.sweep()
	work := l.plan(now, &ended)
	if l.draining && len(l.jobs) == 0 {
		select {
		case <-l.idle:
		default:
			close(l.idle)
		}
	}
	stop := l.stopping
	l.mu.Unlock()
	for _, j := range ended {
		l.done(j, Result{Err: j.ended, Usage: j.usage})
	}
	switch {
	case work:
		l.pass()
		l.encode()
	case l.encode():
	case stop:
		return false
	case len(ended) == 0 && !resumed: // else the last request may have ended
		l.sleep()
	}
	return true
}

// sleep waits until the loop is woken or a request's deadline passes.
func (l *Loop) sleep() {
	l.rest()
	l.pulse.beat.Store(0)
	l.mu.Lock()
	deadline := l.deadline()
	l.mu.Unlock()
	if deadline.IsZero() {
		<-l.wake
		return
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-l.wake:
	case <-t.C:
	}
}
