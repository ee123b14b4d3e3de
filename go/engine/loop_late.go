package engine

import (
	"slices"
	"time"
)

// The masks of an ambiguous grammar may take much longer than a pass. Others do not wait for them: the request's
// logits are kept, it is left out of the next passes, and its next token is sampled when the masks are there.

// lateTime is how long a pass waits for masks: about as long as ordinary ones take when they are new.
const lateTime = 2 * time.Millisecond

// A postponed is a request that was in a pass and is not sampled yet.
type postponed struct {
	*step
	item Item
}

// masks are those of a pass, which are computed beside it: the channel is closed when they are there. nil is of a
// request without a constraint.
type masks chan struct{}

// compute begins to compute masks.
func compute(f func()) masks {
	m := make(masks)
	go func() {
		defer close(m)
		f()
	}()
	return m
}

// wait waits for the masks.
func (m masks) wait() {
	if m != nil {
		<-m
	}
}

// ready reports whether they are there.
func (m masks) ready() bool {
	select {
	case <-m:
		return true
	default:
		return m == nil
	}
}

// awaitAll waits for the masks of the pass, for lateTime at most.
func (l *Loop) awaitAll(steps []step) {
	var end time.Time
	for i := range steps {
		s := &steps[i]
		if s.masks.ready() {
			continue
		}
		if end.IsZero() {
			end = time.Now().Add(lateTime)
		}
		t := time.NewTimer(time.Until(end))
		select {
		case <-s.masks:
		case <-t.C:
			s.late = !s.masks.ready()
		}
		t.Stop()
	}
}

// keep copies the logits.
func (s *step) keep(rows [][]float32) {
	for _, r := range rows {
		s.rows = append(s.rows, slices.Clone(r))
	}
}

// postpone leaves a request out of the next passes until its masks are computed. The scheduler plans it again when it
// is told of its next token.
func (l *Loop) postpone(j *job, it Item, s *step) {
	it.IDs = slices.Clone(it.IDs)
	j.late = &postponed{s, it}
	l.steps = nil // s is one of them
	l.late = append(l.late, j)
	l.countLate()
	go func() {
		s.masks.wait()
		l.nudge()
	}()
}

// forget drops what is postponed of a request that is removed or preempted. It waits for the masks, which may use
// what the request has; of one that is removed they are stopped.
func (l *Loop) forget(j *job) {
	if j.late == nil {
		return
	}
	j.late.masks.wait()
	j.late.item.adopt(0)
	j.seq.settle(j.gen)
	l.dropLate(j)
}

// dropLate drops what is postponed of a request.
func (l *Loop) dropLate(j *job) {
	j.late = nil
	l.late = slices.DeleteFunc(l.late, func(o *job) bool { return o == j })
	l.countLate()
}

// countLate counts the logits that are kept.
func (l *Loop) countLate() {
	n := uint64(0)
	for _, j := range l.late {
		for _, r := range j.late.rows {
			n += 4 * uint64(len(r))
		}
	}
	l.kept.Set(n)
}

// resumeLate samples the requests whose masks are there by now. It reports whether there were any.
func (l *Loop) resumeLate() (any bool) {
	for _, j := range slices.Clone(l.late) {
		p := j.late
		if !p.masks.ready() || !l.isLive(j) {
			continue
		}
		l.sample(j, p.step, len(p.item.IDs), p.rows)
		l.mu.Lock()
		l.countDrafts(j, p.Drafts)
		p.item.adopt(j.gen.Taken())
		j.seq.settle(j.gen)
		if p.err == nil {
			j.clock(p.Step, time.Now())
		}
		l.dropLate(j)
		l.mu.Unlock()
		l.deliver(j, *p.step)
		any = true
	}
	return any
}
