package engine

import (
	"context"
	"errors"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/sched"
)

// job is a request that has not ended.
type job struct {
	*Request
	id        uint64
	adapters  []ScaledAdapter // settled
	namespace string          // of the request, and of its adapters
	seq       *Sequence       // nil while the request waits
	gen       *Generation
	slot      int
	progress  Progress
	usage     Usage
	announced bool  // the Sink was told that evaluation has begun
	ended     error // reason to end, once there is one
	inPass    int64 // tokens in the running pass
	cuts      cuts  // of the prompt

	submitted, started, first time.Time
}

// deadline returns the earliest deadline of the waiting requests when none runs.
func (l *Loop) deadline() (first time.Time) {
	for _, j := range l.jobs {
		if !j.Deadline.IsZero() && (first.IsZero() || j.Deadline.Before(first)) {
			first = j.Deadline
		}
	}
	return first
}

// sweep removes the requests that are to end.
func (l *Loop) sweep() (ended []*job) {
	for _, j := range l.jobs {
		if j.ended != nil {
			l.remove(j)
			ended = append(ended, j)
		}
	}
	return ended
}

// remove removes a request, and leaves its computed state in the cache.
func (l *Loop) remove(j *job) {
	if errors.Is(j.ended, context.Canceled) {
		l.counts.Cancellations++
	}
	l.sched.Remove(j.id)
	if j.seq == nil && j.usage.Preempted > 0 {
		l.tree.Leave(j.namespace, j.gen.Known())
	}
	l.park(j, false)
	l.freeSlot(j)
	l.unuse(j.adapters)
	delete(l.jobs, j.id)
}

// park moves the blocks of a preempted request to the cache.
func (l *Loop) park(j *job, awaited bool) {
	if j.seq == nil {
		return
	}
	if !j.NoCache {
		l.tree.Keep(j.namespace, j.seq.table, j.seq.ids, kvcache.How{Awaited: awaited, End: true})
	}
	if j.slot >= 0 {
		l.slots[j.slot].ids, l.slots[j.slot].namespace, l.slots[j.slot].space = j.seq.ids, j.namespace, j.seq.space
	}
	j.seq.table.Free()
	j.seq = nil
	j.gen.Rest()
}

// resume attaches the cached blocks of a request's tokens to it.
func (l *Loop) resume(j *job) {
	table, ids := l.e.kv.NewTable(), j.gen.Known()
	if !j.NoCache {
		table = l.tree.Find(j.namespace, j.gen.Skippable())
	}
	n := table.Len()
	j.seq = &Sequence{e: l.e, table: table, ids: append(make([]int32, 0, len(ids)+1), ids[:n]...), space: adapterSpace(j.adapters)}
	j.seq.source = l.e.source(j.Prompt)
	j.seq.adapt(j.adapters)
	j.gen.Resume(n)
	l.sched.Found(j.id, n)
	if !j.NoCache && n < len(j.Prompt) {
		j.cuts = append(j.cuts, l.tree.Cuts(j.namespace, j.Prompt, n)...)
	}
	if j.started.IsZero() {
		j.started = time.Now()
		j.usage.Queued = j.started.Sub(j.submitted)
		j.usage.CachedTokens, j.progress.Cached, j.progress.Done = n, n, n
		l.counts.CachedTokens += uint64(n)
	}
	l.takeSlot(j)
}

// plan assembles the next pass. It reports whether there is one.
func (l *Loop) plan(ended *[]*job) bool {
	now := l.now()
	a := l.sched.Admit(now, l.e.kv.Available(), func(id uint64) sched.Prefix {
		j := l.jobs[id]
		if j.NoCache {
			return sched.Prefix{}
		}
		tokens, held := l.tree.Held(j.namespace, j.gen.Skippable())
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
		for _, j := range l.batch { // left over from a plan that failed
			j.inPass = 0
		}
		l.planned = l.sched.Next(now, l.e.kv.Available())
		l.items, l.batch, l.ids = l.items[:0], l.batch[:0], l.ids[:0]
		l.goneTokens, l.stop = 0, new(kernel.Stop)
		total := int64(0)
		for i := range l.planned {
			p := &l.planned[i]
			j, from := l.jobs[p.ID], len(l.ids)
			p.Tokens = j.cuts.slice(j.seq.Len(), p.Tokens)
			l.ids = j.gen.Pending(l.ids, p.Tokens)
			l.items = append(l.items, Item{Seq: j.seq, IDs: l.ids[from:], Rows: j.gen.Rows(p.Tokens)})
			l.batch = append(l.batch, j)
			j.inPass = int64(p.Tokens)
			total += j.inPass
		}
		l.passTokens = total
		if len(l.planned) == 0 {
			return false
		}
		_, err := l.e.fill(l.items)
		if err == nil {
			return true
		}
		// The Scheduler counts bytes and does not know which blocks are shared, so
		// memory may run out here. One request is preempted and the plan is made
		// again; it terminates, since fewer run each time.
		last := l.batch[len(l.batch)-1]
		l.sched.Yield(last.id)
		l.yield(last)
	}
}

// yield preempts a request.
func (l *Loop) yield(j *job) {
	if j.seq == nil {
		return
	}
	l.park(j, true)
	l.freeSlot(j)
	j.usage.Preempted++
	l.counts.Preemptions++
}
