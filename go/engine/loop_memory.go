package engine

import (
	"github.com/quern-llm/quern/go/sched"
)

// giving says how much a loop may give back.
type giving int

const (
	spare      giving = iota // what nothing holds
	prefixes                 // also what only the prefix tree holds
	idle                     // all, of a loop without requests
	background               // also what requests of a priority below 0 hold, which continue later
)

// give returns up to n bytes of the KV pool to the budget, and reports how many. What is left is enough for
// one request with a full context, unless no request exists and everything may be given back.
func (l *Loop) give(n uint64, what giving) (freed uint64) {
	err := l.Between(func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		freed = l.giveDrafts(n, what)
		l.seeDrafts()
		if freed >= n {
			return nil
		}
		n -= freed
		if what >= prefixes {
			rows := &l.e.mediaRows
			given := rows.trim(rows.bytes - min(rows.bytes, n))
			freed += given
			n -= min(n, given)
		}
		kv := l.e.kv
		was := kv.Limit()
		keep := least(kv.Layout(), l.e.ctx)
		switch {
		case what == spare:
			if keep = max(keep, kv.Used()); l.asleep {
				keep = kv.Used()
			}
		case what == idle && len(l.jobs) == 0:
			keep = 0
			if !l.asleep {
				l.e.runner.Rest()
			}
		case what == background:
			if l.parkBackground() {
				keep = 0
			}
		}
		if keep < was {
			_ = kv.Resize(max(was-min(was, n), keep)) // shrinking cannot fail
		}
		freed += was - kv.Limit()
		return nil
	})
	if err != nil {
		return 0 // the loop has ended, and its memory with it
	}
	return freed
}

// giveDrafts gives back up to n bytes of the draft model's pool. Texts then have no drafts from it; nothing
// else changes.
func (l *Loop) giveDrafts(n uint64, what giving) (freed uint64) {
	if l.e.drafts == nil {
		return 0
	}
	e := l.e.drafts.e
	was, keep := e.kv.Limit(), e.oneContext()
	switch {
	case what == spare && l.asleep:
		keep = e.kv.Used()
	case what == spare:
		keep = max(keep, e.kv.Used())
	case what == idle && len(l.jobs) == 0:
		if keep = 0; !l.asleep {
			e.runner.Rest()
		}
	case what == background:
		keep = 0
	}
	if keep < was {
		_ = e.kv.Resize(max(was-min(was, n), keep)) // shrinking cannot fail
	}
	return was - e.kv.Limit()
}

// regrowDrafts lets the draft model's pool grow by up to n bytes. It runs between two passes.
func (l *Loop) regrowDrafts(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.e.drafts.e.kv; !l.asleep && d.Limit() < d.Most() {
		_ = d.Resize(d.Limit() + min(n, d.Most()-d.Limit())) // where there is no memory by now, it stays as it is
		l.seeDrafts()
	}
}

// parkBackground preempts the running requests with a priority below 0. It reports whether there are no other
// requests.
func (l *Loop) parkBackground() bool {
	only := true
	for _, j := range l.jobs {
		switch {
		case j.Priority >= 0:
			only = false
		case j.seq != nil:
			l.sched.Yield(j.id)
			l.yield(j)
		}
	}
	return only
}

// regrow lets the pool grow by up to n bytes, but not beyond its initial size; by up to `all` if no request
// could have a full context otherwise. Requests that are still too large for the pool are ended, since they
// could never run.
func (l *Loop) regrow(n, all uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kv := l.e.kv
	if l.asleep {
		return
	}
	if one := l.e.oneContext(); kv.Limit() < one {
		n = max(n, min(all, one-kv.Limit()))
	}
	if more := min(n, kv.Most()-kv.Limit()); more > 0 && kv.Resize(kv.Limit()+more) == nil {
		l.nudge()
		n -= min(n, more)
	}
	if d := l.e.drafts; d != nil && n > 0 && d.seen.Bytes < d.seen.Most {
		l.calls = append(l.calls, func() { l.regrowDrafts(n) })
		l.nudge()
	}
	limit, reason := l.e.device.budget.Limit()
	for _, j := range l.jobs {
		most := l.e.ctx
		if j.gen.MaxTokens >= 0 {
			most = min(most, len(j.Prompt)+j.gen.MaxTokens)
		}
		if need := min(least(kv.Layout(), most), kv.Most()); j.ended == nil && kv.Limit() < need {
			j.end(&MemoryError{limit, reason, RetryPressure, need, kv.Limit(), "keys and values"})
			l.nudge()
		}
	}
}

// makeRoom ensures that a request can run: if the pool gave memory back, it grows by as much as a full
// context needs, or at least this request. The caller holds the lock.
func (l *Loop) makeRoom(r sched.Request) error {
	kv, d := l.e.kv, l.e.device
	limit, reason := d.budget.Limit()
	short := &MemoryError{Limit: limit, Reason: reason, RetryAfter: RetryPressure}
	need := least(kv.Layout(), r.Prompt+min(r.MaxTokens, l.e.ctx-r.Prompt))
	if d.Pressure() != Critical {
		if kv.Limit() >= min(need, kv.Most()) {
			return nil
		}
		for _, n := range []uint64{least(kv.Layout(), l.e.ctx), need} {
			if kv.Resize(max(n, kv.Limit())) == nil {
				return nil
			}
		}
		short.Need, short.Have, short.What = need, kv.Limit()+d.budget.Free(), "keys and values"
	}
	return short
}
