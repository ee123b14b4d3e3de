package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/sched"
)

// LoopConfig says how a Loop shares its engine out.
type LoopConfig struct {
	Queue     int            // requests that may wait
	TargetITL time.Duration  // between two tokens of a stream; 0: 150 ms, or half as much again as a pass of one token
	OnPass    func(PassInfo) // called after each pass, between passes: it must not block; nil: nobody cares
}

// PassInfo is what there was to see of a pass.
type PassInfo struct {
	Took         time.Duration
	Sequences    int
	PromptTokens int
	DecodeTokens int
}

// A Loop runs an Engine for many requests at a time: it is the one goroutine
// that does, and the only one that may use the engine until it is closed. Which
// requests are in a pass is the Scheduler's decision; the loop carries it out.
//
// Its methods may be called from any goroutine. They never wait for a pass: the lock
// is held between passes only, while one is put together. Drain and Close do wait,
// and are not for a Sink.
type Loop struct {
	e      *Engine
	cfg    LoopConfig
	begun  time.Time
	wake   chan struct{} // has room for one
	closed chan struct{} // when the goroutine has ended

	generated atomic.Uint64 // tokens handed out
	// Of the pass that runs: its tokens, and those whose requests were cancelled.
	passTokens, goneTokens atomic.Int64

	mu       sync.Mutex
	sched    *sched.Scheduler
	tree     *kvcache.Tree
	jobs     map[uint64]*job
	slots    []slot
	lastID   uint64
	counts   Counts
	draining bool
	stopping bool
	idle     chan struct{} // closed when draining and no request is left

	// Of the goroutine.
	items []Item
	batch []*job
}

// job is a request on its way.
type job struct {
	*Request
	id       uint64
	seq      *Sequence // nil while it waits
	pending  []int32   // tokens that follow those of seq: to be evaluated
	smp      *sample.Sampler
	slot     int
	progress Progress
	usage    Usage
	ended    error // set when it is to end: why
	inPass   int64 // tokens in the pass that runs

	submitted, started, first time.Time
}

// slot is a number for a request that runs, for those who watch.
type slot struct {
	job *job    // nil when free
	ids []int32 // of the one that ran last
	was SlotStatus
}

// A Ticket is a request that was taken in.
type Ticket struct {
	l *Loop
	j *job
}

// NewLoop starts a Loop. It measures the engine first: some passes.
func NewLoop(e *Engine, c LoopConfig) (*Loop, error) {
	l := &Loop{
		e: e, cfg: c, begun: time.Now(), wake: make(chan struct{}, 1), closed: make(chan struct{}), idle: make(chan struct{}),
		tree: kvcache.NewTree(e.kv), jobs: map[uint64]*job{}, slots: make([]slot, e.seqs),
		sched: sched.New(sched.Config{
			Running: e.seqs, Batch: e.batch, Memory: e.kv.Layout(), Queue: c.Queue, TargetITL: c.TargetITL,
		}),
	}
	if err := l.calibrate(); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

// Submit takes a request in, or refuses it: with a *TooLongError, a *BusyError,
// ErrClosing, or what is wrong with its parameters.
func (l *Loop) Submit(r *Request) (*Ticket, error) {
	if len(r.Prompt) == 0 {
		return nil, errors.New("the prompt is empty, want one token at least")
	}
	if err := l.e.known(r.Prompt); err != nil {
		return nil, err
	}
	if len(r.Prompt) >= l.e.ctx {
		return nil, &TooLongError{len(r.Prompt), l.e.ctx}
	}
	if err := r.Sampling.Validate(); err != nil {
		return nil, err
	}
	j := &job{Request: r, slot: -1, pending: r.Prompt, submitted: time.Now()}
	j.usage = Usage{PromptTokens: len(r.Prompt), Slot: -1}
	j.progress = Progress{Total: len(r.Prompt)}
	j.smp = sample.New(r.Sampling, l.e.model.Config.NVocab)
	for _, id := range r.Prompt {
		j.smp.Accept(id)
	}
	room := l.e.ctx - len(r.Prompt)
	s := sched.Request{Flow: r.Flow, Weight: r.Weight, Priority: r.Priority, Prompt: len(r.Prompt), MaxTokens: room}
	if r.MaxTokens >= 0 {
		s.MaxTokens = min(r.MaxTokens, room)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining {
		return nil, ErrClosing
	}
	if !r.Deadline.IsZero() {
		if s.Deadline = r.Deadline.Sub(l.begun); s.Deadline <= l.now() {
			return nil, ErrDeadline
		}
	}
	l.lastID++
	s.ID, j.id = l.lastID, l.lastID
	s.Leader, s.Shared = l.leader(r)
	var busy *sched.BusyError
	if err := l.sched.Add(s, l.now()); errors.As(err, &busy) {
		l.counts.RejectedRequests++
		return nil, &BusyError{busy.Queued, busy.RetryAfter}
	}
	l.jobs[j.id] = j
	l.nudge()
	return &Ticket{l, j}, nil
}

// leader returns the request that is to compute most of the beginning of r that
// nobody has computed yet, and how much that is, in whole blocks. To wait for it
// costs r nothing: it would have to compute the same.
func (l *Loop) leader(r *Request) (id uint64, shared int) {
	if r.NoCache {
		return 0, 0
	}
	cached := l.tree.Len("", r.Prompt[:len(r.Prompt)-1])
	for _, j := range l.jobs {
		if j.NoCache || j.Priority < r.Priority {
			continue
		}
		n := 0
		for n < min(len(j.Prompt), len(r.Prompt)-1) && j.Prompt[n] == r.Prompt[n] {
			n++
		}
		n -= n % kvcache.BlockTokens
		if n >= cached+kvcache.BlockTokens && (n > shared || n == shared && j.id < id) {
			id, shared = j.id, n
		}
	}
	return id, shared
}

// ID returns the request's number: those that came later have higher ones.
func (t *Ticket) ID() uint64 { return t.j.id }

// Cancel ends the request: its Sink's Done follows, with context.Canceled. A pass
// that is mostly for requests that are gone is given up between two layers.
func (t *Ticket) Cancel() { t.l.end(t.j, context.Canceled) }

func (l *Loop) end(j *job, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.ended == nil && l.jobs[j.id] == j {
		j.ended = why
		l.goneTokens.Add(j.inPass)
		l.nudge()
	}
}

// Drain takes no more requests in, and waits for those that are there: until ctx
// ends, and then ends them with ErrClosing.
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

// Close ends all requests with ErrClosing, and the loop. The engine stays open.
func (l *Loop) Close() {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	l.Drain(done)
	l.mu.Lock()
	l.stopping = true
	l.nudge()
	l.mu.Unlock()
	<-l.closed
	l.mu.Lock()
	l.tree.Clear()
	l.mu.Unlock()
}

func (l *Loop) now() time.Duration { return time.Since(l.begun) }

// nudge has the loop look again.
func (l *Loop) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run is the goroutine.
func (l *Loop) run() {
	defer close(l.closed)
	leave := l.e.enter()
	defer leave()
	for {
		l.mu.Lock()
		ended := l.sweep()
		work := l.plan(&ended)
		if l.draining && len(l.jobs) == 0 {
			select {
			case <-l.idle:
			default:
				close(l.idle)
			}
		}
		stop, deadline := l.stopping, l.deadline()
		l.mu.Unlock()
		for _, j := range ended {
			j.Sink.Done(Result{Err: j.ended, Usage: j.usage})
		}
		switch {
		case work:
			l.pass()
		case stop:
			return
		case len(ended) == 0:
			l.sleep(deadline)
		}
	}
}

// sleep waits until something has changed, or the deadline of a request.
func (l *Loop) sleep(deadline time.Time) {
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

// deadline returns the first of those who wait with nobody running.
func (l *Loop) deadline() (first time.Time) {
	for _, j := range l.jobs {
		if !j.Deadline.IsZero() && (first.IsZero() || j.Deadline.Before(first)) {
			first = j.Deadline
		}
	}
	return first
}

// sweep takes out the requests that are to end.
func (l *Loop) sweep() (ended []*job) {
	for _, j := range l.jobs {
		if j.ended != nil {
			l.remove(j)
			ended = append(ended, j)
		}
	}
	return ended
}

// remove takes a request out, and leaves what it computed to the cache.
func (l *Loop) remove(j *job) {
	if errors.Is(j.ended, context.Canceled) {
		l.counts.Cancellations++
	}
	l.sched.Remove(j.id)
	l.park(j, false)
	l.freeSlot(j)
	delete(l.jobs, j.id)
}

// park gives the blocks of a request to the cache.
func (l *Loop) park(j *job, awaited bool) {
	if j.seq == nil {
		return
	}
	if !j.NoCache {
		l.tree.Keep("", j.seq.table, j.seq.ids, kvcache.How{Awaited: awaited, End: true})
	}
	if j.slot >= 0 {
		l.slots[j.slot].ids = j.seq.ids
	}
	j.pending = append(j.seq.ids[:len(j.seq.ids):len(j.seq.ids)], j.pending...)
	j.seq.table.Free()
	j.seq = nil
}

// resume gives a request the blocks that the cache has of its tokens.
func (l *Loop) resume(j *job) {
	table := l.e.kv.NewTable()
	if !j.NoCache {
		table = l.tree.Find("", j.pending[:len(j.pending)-1]) // the last is evaluated in any case: its logits are wanted
	}
	n := table.Len()
	j.seq = &Sequence{e: l.e, table: table, ids: append(make([]int32, 0, len(j.pending)+1), j.pending[:n]...)}
	j.pending = j.pending[n:]
	l.sched.Found(j.id, n)
	if j.started.IsZero() {
		j.started = time.Now()
		j.usage.Queued = j.started.Sub(j.submitted)
		j.usage.CachedTokens, j.progress.Cached, j.progress.Done = n, n, n
		l.counts.CachedTokens += uint64(n)
	}
	l.takeSlot(j)
}

// plan puts the next pass together. It tells whether there is one.
func (l *Loop) plan(ended *[]*job) bool {
	now := l.now()
	a := l.sched.Admit(now, l.e.kv.Available(), func(id uint64) sched.Prefix {
		j := l.jobs[id]
		if j.NoCache {
			return sched.Prefix{}
		}
		tokens, held := l.tree.Held("", j.pending[:len(j.pending)-1])
		return sched.Prefix{Tokens: tokens, Held: held}
	})
	for _, id := range a.Expired {
		j := l.jobs[id]
		j.ended = ErrDeadline
		l.remove(j)
		*ended = append(*ended, j)
	}
	for _, id := range a.Preempted {
		l.yield(l.jobs[id])
	}
	for _, id := range a.Admitted {
		l.resume(l.jobs[id])
	}
	for {
		plan := l.sched.Next(now, l.e.kv.Available())
		l.items, l.batch = l.items[:0], l.batch[:0]
		l.goneTokens.Store(0)
		total := int64(0)
		for _, p := range plan {
			j := l.jobs[p.ID]
			j.inPass = int64(p.Tokens)
			total += j.inPass
			l.items = append(l.items, Item{Seq: j.seq, IDs: j.pending[:p.Tokens]})
			l.batch = append(l.batch, j)
		}
		l.passTokens.Store(total)
		if len(plan) == 0 {
			return false
		}
		_, err := l.e.fill(l.items)
		if err == nil {
			return true
		}
		// The Scheduler knows blocks by their number only, not who shares them.
		// One makes room then: there are fewer each time.
		last := l.batch[len(l.batch)-1]
		l.sched.Yield(last.id)
		l.yield(last)
	}
}

// yield has a request make room.
func (l *Loop) yield(j *job) {
	if j.seq == nil {
		return
	}
	l.park(j, true)
	l.freeSlot(j)
	j.usage.Preempted++
	l.counts.Preemptions++
}
