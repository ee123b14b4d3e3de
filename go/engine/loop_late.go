package engine

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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

// A masking computes the masks of some requests beside a pass.
type masking struct {
	of    []masks
	next  atomic.Int64  // that nobody computes yet
	left  atomic.Int64  // that are not there
	there chan struct{} // closed when all are
}

// masks are those of one request in a pass, which f computes.
type masks struct {
	f    func()
	mu   sync.Mutex
	done bool
	told chan struct{} // closed when they are there; nil: nobody has asked
}

// begin begins to compute the masks, in as many goroutines as there are CPUs.
func (m *masking) begin() {
	n := len(m.of)
	m.left.Store(int64(n))
	m.there = make(chan struct{})
	m.help(min(n, runtime.GOMAXPROCS(0)))
}

// help has n more goroutines compute what nobody computes yet.
func (m *masking) help(n int) {
	for range n {
		go func() {
			for i := int(m.next.Add(1)) - 1; i < len(m.of); i = int(m.next.Add(1)) - 1 {
				m.of[i].f()
				m.of[i].finish()
				if m.left.Add(-1) == 0 {
					close(m.there)
				}
			}
		}()
	}
}

// await waits until all masks are there, for lateTime at most. It does not wait with those that others are before: after a
// part of the time each of the rest has a goroutine of its own. nil has none.
func (m *masking) await() {
	if m == nil {
		return
	}
	for _, wait := range [...]time.Duration{lateTime / 4, lateTime * 3 / 4} {
		t := time.NewTimer(wait)
		select {
		case <-m.there:
			t.Stop()
			return
		case <-t.C:
		}
		m.help(max(len(m.of)-int(m.next.Load()), 0))
	}
}

func (m *masks) finish() {
	m.mu.Lock()
	m.done = true
	if m.told != nil {
		close(m.told)
	}
	m.mu.Unlock()
}

// ready reports whether the masks are there. nil is of a request without a constraint.
func (m *masks) ready() bool {
	if m == nil {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done
}

// wait waits for the masks.
func (m *masks) wait() {
	if m.ready() {
		return
	}
	m.mu.Lock()
	if m.told == nil {
		m.told = make(chan struct{})
		if m.done {
			close(m.told)
		}
	}
	m.mu.Unlock()
	<-m.told
}

// awaitAll waits for the masks of the pass, for lateTime at most.
func (l *Loop) awaitAll(steps []step) {
	l.masking.await()
	for i := range steps {
		steps[i].late = !steps[i].masks.ready()
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
