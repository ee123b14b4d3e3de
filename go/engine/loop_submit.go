package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sched"
)

// A Ticket is an accepted request.
type Ticket struct {
	l *Loop
	j *job
}

// Embedding returns a Reader that computes the embedding of a text. It refuses a pooling that the model does
// not support.
func (l *Loop) Embedding(tokens int, pooling nn.Pooling) (*Embedding, error) {
	return l.e.Embedding(tokens, pooling)
}

// Submit queues a request, or refuses it with a *TooLongError, a *BusyError, a *MemoryError,
// ErrClosing, ErrDamaged, or an error about its parameters. When the queue is full, the newest waiting request of the
// flow with the most of it may end with a *BusyError in favour of one of a flow with less.
func (l *Loop) Submit(r *Request) (t *Ticket, err error) {
	j, s, err := l.prepareJob(r)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.e.mediaIDs.release(j.held)
		}
	}()
	var trail *trail
	if !j.NoCache {
		if l.spill != nil {
			trail = l.spill.follow(j.namespace, l.skippable(j))
		}
		j.marks = l.leaders.marks(j.namespace, j.Prompt)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.accepts(j, &s); err != nil {
		return nil, err
	}
	if err := l.queue(j, s, trail); err != nil {
		return nil, err
	}
	return &Ticket{l, j}, nil
}

// prepareJob returns the job of a request, and what the scheduler is to know of it, except its number, its deadline and
// its leader. It refuses what no loop of this engine could run.
func (l *Loop) prepareJob(r *Request) (j *job, s sched.Request, err error) {
	prompt, source := len(r.Prompt), 0
	if c := l.e.model.Config; c.OnePass() {
		begun, n, err := l.e.begun(r.Params, r.Frames)
		if err != nil {
			return nil, s, err
		}
		source = n
		own := *r
		own.NoCache = true // what is after a token decides its state as well
		own.Params = begun
		r = &own
		switch {
		case len(r.Media) > 0:
			return nil, s, fmt.Errorf("%s reads texts as a whole, without pictures and sounds", c.Arch)
		case c.BothWays && r.Reader == nil:
			return nil, s, fmt.Errorf("%s %w", c.Arch, ErrBothWays)
		case !c.BothWays && r.Reader != nil && c.Sound.Bands == 0:
			return nil, s, fmt.Errorf("%s %w", c.Arch, ErrAnswers)
		}
	}
	media, err := l.e.look(r.Prompt, r.Media)
	if err != nil {
		return nil, s, err
	}
	named, held := l.e.name(r.Prompt, media)
	defer func() {
		if j == nil {
			l.e.mediaIDs.release(held)
		}
	}()
	if len(held) > 0 {
		own := *r
		own.Prompt = named
		r = &own
	}
	params := r.Params
	params.NoShift = params.NoShift || r.Reader != nil
	gen, err := l.e.generation(params, media)
	if err != nil {
		return nil, s, err
	}
	reading, err := newReading(r.Reader, source, len(r.Prompt))
	if err != nil {
		return nil, s, err
	}
	if reading != nil && reading.output == nn.Aligned && !l.e.model.Has(nn.Aligned) {
		return nil, s, fmt.Errorf("%s has no heads of attention that are known to follow what is said", l.e.model.Config.Arch)
	}
	adapters, err := settled(r.Adapters)
	if err != nil {
		return nil, s, err
	}
	room := gen.Shift.Room(0, l.e.ctx) - len(r.Prompt)
	if room < 0 || room == 0 && (r.Reader == nil || gen.MaxTokens != 0) {
		return nil, s, &TooLongError{Prompt: len(r.Prompt), Ctx: l.e.ctx}
	}
	j = &job{Request: r, gen: gen, reading: reading, source: source, media: media, held: held, slot: -1, submitted: time.Now(), adapters: adapters, namespace: r.Namespace + adapterSpace(adapters)}
	j.usage = Usage{PromptTokens: prompt, Slot: -1}
	j.progress = Progress{Total: len(r.Prompt)}
	s = sched.Request{Flow: r.Flow, Weight: r.Weight, Priority: r.Priority, Prompt: len(r.Prompt), MaxTokens: room}
	s.Spans = l.e.spansOf(media, len(r.Prompt))
	if gen.Shift.Limit > 0 {
		s.MaxTokens, s.Most = math.MaxInt32, gen.Shift.Limit
	}
	if gen.MaxTokens >= 0 {
		s.MaxTokens = min(gen.MaxTokens, s.MaxTokens)
	}
	return j, s, nil
}

// accepts returns why the loop cannot take a request now, nil if it can. It sets the deadline that the scheduler is to
// know. The caller holds the lock.
func (l *Loop) accepts(j *job, s *sched.Request) error {
	if l.draining {
		return ErrClosing
	}
	if l.asleep {
		return ErrAsleep
	}
	if err := l.e.model.Damaged(); err != nil {
		return err
	}
	if !j.Deadline.IsZero() {
		if s.Deadline = j.Deadline.Sub(l.begun); s.Deadline <= l.now() {
			return ErrDeadline
		}
	}
	if err := l.makeRoom(*s); err != nil {
		l.counts.RejectedRequests++
		return err
	}
	return nil
}

// queue gives a request to the scheduler. trail is what the disk may have of its prompt, or nil. The caller holds the
// lock.
func (l *Loop) queue(j *job, s sched.Request, trail *trail) error {
	if err := l.use(j.adapters); err != nil {
		return err
	}
	l.lastID++
	s.ID, j.id = l.lastID, l.lastID
	s.Leader, s.Shared = l.leader(j)
	if leader := l.jobs[s.Leader]; leader != nil {
		leader.cut(s.Shared) // j continues from there
	}
	s.Held = trail != nil && l.spill.pays(trail)
	dropped, err := l.sched.Add(s, l.now())
	if busy := (*sched.BusyError)(nil); errors.As(err, &busy) {
		l.counts.RejectedRequests++
		l.unuse(j.adapters)
		return &BusyError{busy.Queued, busy.RetryAfter}
	}
	if other := l.jobs[dropped]; other != nil && other.ended == nil { // a request of another flow left its place to j
		busy := l.sched.Busy()
		l.counts.RejectedRequests++
		other.end(&BusyError{busy.Queued, busy.RetryAfter})
	}
	l.take(j)
	l.leaders.add(j)
	if s.Held {
		l.spill.restore(j, trail)
	}
	l.nudge()
	return nil
}

// take adds a request that the scheduler has.
func (l *Loop) take(j *job) {
	if s, ok := j.Constraint.(constrain.Stopper); ok {
		s.StopWhen(j.over)
	}
	l.jobs[j.id] = j
	l.sweepMedia()
	l.pulse.work.Store(int64(len(l.jobs)))
}

// leader returns the request that will compute the longest prefix of r that is not cached yet, and the length
// of that prefix, a whole number of blocks. Waiting for it costs r nothing: r would have to compute the same.
func (l *Loop) leader(r *job) (id uint64, shared int) {
	if r.NoCache {
		return 0, 0
	}
	skippable := l.reusable(r)
	return l.leaders.find(r, skippable, l.tree.Len(r.namespace, skippable)+kvcache.BlockTokens)
}

// ID returns the request's number. Numbers ascend in the order of submission.
func (t *Ticket) ID() uint64 { return t.j.id }

// Cancel ends the request: its Sink's Done follows, with context.Canceled. A pass mostly for cancelled
// requests is aborted between two layers.
func (t *Ticket) Cancel() { t.l.end(t.j, context.Canceled) }

func (l *Loop) end(j *job, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.ended == nil && l.jobs[j.id] == j {
		j.end(why)
		if l.goneTokens += j.inPass; j.inPass > 0 && l.goneTokens*2 >= l.passTokens {
			l.stop.Set()
		}
		l.nudge()
	}
}
