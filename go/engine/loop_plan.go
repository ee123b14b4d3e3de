package engine

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/sched"
)

// job is a request that has not ended.
type job struct {
	*Request
	id        uint64
	adapters  []ScaledAdapter // settled
	namespace string          // of the request, and of its adapters
	seq       *Sequence       // nil while the request waits
	gen       *generate.Generation
	reading   *reading // nil: there is no Reader
	source    int      // tokens of the prompt that an encoder reads
	media     []placed // of the prompt
	held      []*mediaID
	slot      int
	progress  Progress
	usage     Usage
	announced bool        // the Sink was told that evaluation has begun
	ended     error       // reason to end, once there is one
	gone      atomic.Bool // there is one, or it is removed
	inPass    int64       // tokens in the running pass
	late      *postponed  // nil: it is sampled
	cuts      cuts        // of the prompt
	marks     []mark      // of its prefixes; nil: it shares none
	left      bool        // it was removed
	restored  bool        // a prefix was read from disk for it, and not found yet
	fresh     bool        // the last pass gave it tokens, and what may follow is to be drafted
	text      *modelText  // nil: the draft model is not asked
	own       *mtpText    // nil: nor is the model's own layer that drafts
	room      uint64      // reserved for its text, beside what a slot has
	parked    *Sequence   // while the request waits: a shifted one, which the tree cannot keep

	submitted, started, first time.Time
	prompted                  time.Time // when the last pass had evaluated tokens of the prompt, before logits
}

// end sets the reason for which a request ends.
func (j *job) end(why error) {
	j.ended = why
	j.gone.Store(true)
}

// over reports whether nobody waits for a request any more. It may be called without the lock.
func (j *job) over() bool {
	return j.gone.Load() || !j.Deadline.IsZero() && time.Now().After(j.Deadline)
}

// shelf names the group of recent texts that drafts may come from.
func (j *job) shelf() string { return strconv.Quote(j.Owner) + j.namespace }

// deadline returns the earliest deadline of the waiting requests when none runs.
func (l *Loop) deadline() (first time.Time) {
	for _, j := range l.jobs {
		if !j.Deadline.IsZero() && (first.IsZero() || j.Deadline.Before(first)) {
			first = j.Deadline
		}
	}
	return first
}

// sweep removes the requests that must end.
func (l *Loop) sweep() (ended []*job) {
	for _, j := range l.jobs {
		if j.ended != nil {
			l.remove(j)
			ended = append(ended, j)
		}
	}
	return ended
}

// remove removes a request and keeps its state in the prefix tree.
func (l *Loop) remove(j *job) {
	if errors.Is(j.ended, context.Canceled) {
		l.counts.Cancellations++
	}
	l.sched.Remove(j.id)
	l.seen(j, true)
	j.gone.Store(true)
	l.forget(j)
	j.text.close()
	if j.gen.Speculates() && !j.NoCache {
		l.e.library.Keep(j.shelf(), j.gen.Known()[len(j.Prompt):])
	}
	if j.seq == nil && (j.usage.Preempted > 0 || j.restored) {
		l.tree.Leave(j.namespace, j.gen.Known())
	}
	l.park(j, false)
	if j.parked != nil && l.e.kv.Unpark(j.parked.table) {
		j.parked.Close()
	}
	l.freeSlot(j)
	l.vacate(j)
	l.unuse(j.adapters)
	l.e.mediaIDs.release(j.held)
	delete(l.jobs, j.id)
	l.leaders.remove(j)
	l.pulse.work.Store(int64(len(l.jobs)))
}

// park moves the blocks of a preempted request to the prefix tree.
func (l *Loop) park(j *job, awaited bool) {
	if j.seq == nil {
		return
	}
	if l.given != nil {
		j.seq = nil
		return
	}
	if !j.NoCache && !j.seq.shifted {
		j.seq.keep(j.namespace, kvcache.How{Awaited: awaited, End: true})
	}
	if j.slot >= 0 {
		l.slots[j.slot].ids, l.slots[j.slot].namespace, l.slots[j.slot].space = j.seq.ids, j.namespace, j.seq.space
		if j.seq.shifted { // others can continue from what it was before
			l.slots[j.slot].ids = j.gen.Shift.Findable(j.gen.Known())
		}
	}
	if awaited && j.seq.shifted {
		j.parked = j.seq
		l.e.kv.Park(j.seq.table)
	} else {
		j.seq.table.Free()
	}
	j.seq = nil
	j.gen.Rest()
}

// resume attaches the cached blocks of a request's tokens to it, or its parked table.
func (l *Loop) resume(j *job) {
	n := 0
	switch {
	case l.given != nil:
		j.seq = l.given
		n = j.seq.begin(j)
	case j.parked != nil && l.e.kv.Unpark(j.parked.table):
		j.seq = j.parked
		n = j.seq.Len() + j.gen.Dropped()
	default:
		j.gen.Rewind()
		n = l.attach(j)
	}
	j.parked = nil
	j.seq.prompt = wholeBlocks(len(j.Prompt))
	j.gen.Resume(n)
	l.sched.Found(j.id, n, j.gen.Dropped())
	if !j.NoCache && n < len(j.Prompt) {
		for _, cut := range l.tree.Cuts(j.namespace, j.Prompt, n) {
			j.cut(cut)
		}
	}
	if j.started.IsZero() {
		j.started = time.Now()
		j.gen.Speculate(l.e.library, j.shelf())
		j.text = l.e.drafts.text(j.gen, l.e.library, j.namespace)
		j.own = l.e.mtp.text(j.gen, l.e.library)
		j.usage.Queued = j.started.Sub(j.submitted)
		j.usage.CachedTokens, j.progress.Cached, j.progress.Done = n, n, n
		l.counts.CachedTokens += uint64(n)
	}
	l.takeSlot(j)
	l.seek(j)
}

// skippable returns the tokens that need not be evaluated if their state is cached. A Reader gets the rows of its own.
func (l *Loop) skippable(j *job) []int32 {
	ids := j.gen.Skippable()
	ids = ids[:min(len(ids), l.e.findable(len(j.Prompt)))]
	if j.reading != nil {
		ids = ids[:min(len(ids), j.reading.next)]
	}
	return ids
}

// attach gives a request a sequence of its cached prefix, and returns the number of tokens.
func (l *Loop) attach(j *job) int {
	table, ids := l.e.kv.NewTable(), j.gen.Known()
	if !j.NoCache {
		table = l.tree.Find(j.namespace, l.reusable(j))
		j.restored = false
	}
	n := table.Len()
	j.seq = &Sequence{e: l.e, table: table, ids: append(make([]int32, 0, len(ids)+1), ids[:n]...), space: adapterSpace(j.adapters)}
	j.seq.source, j.seq.frames, j.seq.second, j.seq.media = j.source, j.Frames, j.Second, j.media
	j.seq.adapt(j.adapters)
	return n
}

// shift shifts the sequences that are due, or preempts those for which there is no memory. The lock is
// released while keys are rotated.
func (l *Loop) shift() {
	type moving struct {
		j    *job
		move *kvcache.Shift
	}
	var all []moving
	for _, j := range l.jobs {
		if j.seq == nil || j.late != nil || !j.gen.Shift.Due(j.seq.Len()) {
			continue
		}
		move, err := j.seq.beginShift(j.gen.Shift, j.namespace)
		if err != nil {
			l.lacks(j, err)
			continue
		}
		all = append(all, moving{j, move})
	}
	if len(all) == 0 {
		return
	}
	l.mu.Unlock()
	_ = l.e.device.inTurn(func() error { // what is run cannot fail
		for _, m := range all {
			l.e.move(m.move, m.j.seq.Len()-m.j.gen.Shift.By)
		}
		return nil
	})
	l.mu.Lock()
	for _, m := range all {
		m.j.seq.endShift(m.j.gen, m.move)
		m.j.usage.Shifts++
		l.sched.Shifted(m.j.id, m.j.gen.Shift.By)
	}
}

// plan assembles the next pass. It reports whether there is one.
func (l *Loop) plan(now time.Duration, ended *[]*job) bool {
	l.admit(now, ended)
	l.shift()
	l.age()
	for {
		for _, j := range l.batch { // left over from a plan that failed
			j.inPass = 0
		}
		l.choose(now)
		l.assemble()
		if len(l.planned) == 0 {
			return false
		}
		start := platform.Clock()
		_, err := l.e.fill(l.items)
		l.filled = platform.Clock() - start
		if err == nil {
			for i, it := range l.items {
				l.planned[i].Branches = l.batch[i].gen.KeepBranches(len(it.Branches))
			}
			return true
		}
		// The Scheduler counts bytes and does not know which blocks are shared, so memory may run out here. One
		// request is preempted and the plan is made again. This terminates, since fewer run each time.
		l.lacks(l.batch[len(l.batch)-1], err)
	}
}

// admit lets waiting requests run, in place of others if need be, and adds those whose deadline has passed to ended.
func (l *Loop) admit(now time.Duration, ended *[]*job) {
	a := l.sched.Admit(now, l.e.kv.Available(), func(id uint64) sched.Prefix { return l.prefix(l.jobs[id]) })
	for _, id := range a.Expired {
		j := l.jobs[id]
		j.end(ErrDeadline)
		l.remove(j)
		*ended = append(*ended, j)
	}
	for _, id := range a.Preempted {
		l.yield(l.jobs[id])
	}
	for _, id := range l.accommodate(a.Admitted) {
		l.resume(l.jobs[id])
	}
}

// prefix returns what a waiting request need not evaluate.
func (l *Loop) prefix(j *job) sched.Prefix {
	switch {
	case j.NoCache || l.given != nil:
		return sched.Prefix{}
	case j.parked != nil && j.parked.Len() > 0:
		return sched.Prefix{Tokens: j.parked.Len()}
	}
	tokens, held := l.tree.Held(j.namespace, l.reusable(j))
	return sched.Prefix{Tokens: tokens, Held: held}
}

// assemble makes the items of the planned pass, with no more tokens of each request than may be in one pass.
func (l *Loop) assemble() {
	l.items, l.batch, l.ids = l.items[:0], l.batch[:0], l.ids[:0]
	if l.goneTokens = 0; l.stop == nil || l.stop.IsSet() {
		l.stop = new(kernel.Stop)
	}
	l.passTokens = 0
	for i := range l.planned {
		p := &l.planned[i]
		j, from := l.jobs[p.ID], len(l.ids)
		known, at := p.Tokens-p.Draft, j.seq.Len()
		room := j.gen.Shift.Room(at, j.cuts.slice(at, l.e.kv.Layout().Room(at, l.e.batch)))
		p.Draft = max(min(p.Draft, room-known), 0)
		p.Tokens = min(known+p.Draft, room)
		p.Branches = generate.CutBranches(p.Branches, room-known)
		l.ids = j.gen.Pending(l.ids, p.Tokens)
		l.items = append(l.items, Item{Seq: j.seq, IDs: l.ids[from:], Rows: j.gen.Rows(p.Tokens), Branches: branches(j.gen.Split(p.Branches))})
		l.batch = append(l.batch, j)
		j.inPass = int64(p.Tokens)
		l.passTokens += j.inPass
	}
}

// lacks preempts a running request for which there is no memory. One with a caller's sequence, which stays where it
// is, ends instead.
func (l *Loop) lacks(j *job, err error) {
	if l.given == nil {
		l.sched.Yield(j.id)
		l.yield(j)
		return
	}
	j.end(err)
	l.sched.Remove(j.id)
	l.nudge()
}

// choose asks the scheduler for the next pass. With drafts, its time counts as drafting time.
func (l *Loop) choose(now time.Duration) {
	var start time.Duration
	drafted := l.offered && l.spent > 0
	if drafted {
		start = platform.Clock()
	}
	if l.given != nil { // other loops on the device do not know of it
		l.planned = l.sched.Next(now, l.e.kv.Available())
	} else {
		encodes := sched.Load{Prompts: min(len(l.works), 1)} // beside passes, as prompts of another would
		l.sched.Beside(l.e.device.beside(l).Plus(encodes))
		l.planned = l.sched.Next(now, l.e.kv.Available())
		l.e.device.load(l, l.sched.Load(l.planned).Plus(encodes))
	}
	if drafted {
		took := platform.Clock() - start
		l.spent += took
		l.counts.Drafting += took
		l.sched.Spent(l.spent)
	}
}

// yield preempts a request.
func (l *Loop) yield(j *job) {
	if j.seq == nil {
		return
	}
	l.forget(j)
	l.seen(j, true)
	j.text.close()
	l.park(j, true)
	l.freeSlot(j)
	j.usage.Preempted++
	l.counts.Preemptions++
}
