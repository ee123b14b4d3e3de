package engine

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/sched"
)

// pass runs the planned pass and delivers its tokens.
func (l *Loop) pass() {
	l.announce()
	l.steps = slices.Grow(l.steps[:0], len(l.batch))[:len(l.batch)]
	steps := l.steps
	clear(steps)
	took, err := l.forward(steps)
	if err != nil { // ErrStopped or ErrDamaged: tokens were validated by Submit
		l.masking.await()
		for i := range steps {
			steps[i].masks.wait()
		}
		l.mu.Lock()
		undo(l.items)
		for _, j := range l.batch {
			j.inPass = 0
			if !errors.Is(err, model.ErrStopped) && j.ended == nil {
				j.end(err)
			}
		}
		l.mu.Unlock()
		return
	}
	l.mu.Lock()
	info := PassInfo{Took: took, Sequences: len(l.batch)}
	for i, j := range l.batch {
		if n := l.planned[i].All(); j.first.IsZero() {
			info.PromptTokens += n
		} else {
			info.DecodeTokens += n // includes tokens that a preempted request evaluates again, and what branches begin with
			j.usage.Passes++
		}
	}
	l.count(l.planned, info)
	for i, j := range l.batch {
		l.countDrafts(j, steps[i].Drafts)
	}
	if l.e.timeless || l.e.awaited && !l.e.reads() { // a model that reads in every pass is measured with that
		took = 0
	}
	l.sched.Ran(l.planned, took)
	for i, j := range l.batch {
		if steps[i].late {
			l.postpone(j, l.items[i], &steps[i])
		} else {
			l.items[i].adopt(j.gen.Taken())
			j.seq.settle(j.gen)
		}
		l.seen(j, false)
		j.progress.Done = min(j.seq.Len(), j.progress.Total)
		j.inPass = 0
		if steps[i].prompt = j.first.IsZero(); steps[i].prompt && l.shares(j) {
			j.seq.keepPrompt(j.namespace, j.cuts, len(j.Prompt)) // for requests that wait for this prefix
		}
		if !steps[i].late && steps[i].err == nil {
			j.clock(steps[i].Step, time.Now())
		}
	}
	l.mu.Unlock()
	if l.cfg.OnPass != nil {
		l.cfg.OnPass(info)
	}
	if l.spill != nil {
		l.spill.nudge()
	}
	for i, j := range l.batch {
		if !steps[i].late && l.isLive(j) {
			l.deliver(j, steps[i])
		}
	}
	l.draft()
}

// shares reports whether the state of the request's prompt goes to the prefix tree: for other requests, or, with a
// caller's sequence, because it cannot be rolled back.
func (l *Loop) shares(j *job) bool {
	if l.given != nil {
		return l.e.kv.Layout().Forgets()
	}
	return !j.NoCache
}

// forward waits for the engine's turn on the device, runs the pass, and advances its requests with their
// logits. The returned time excludes the wait.
func (l *Loop) forward(steps []step) (took time.Duration, err error) {
	l.prepare(steps)
	err = l.e.device.inTurn(func() error {
		l.e.awaited = false
		start, waited := platform.Clock(), time.Duration(0)
		var between func()
		if l.e.model.Config.OnePass() { // its passes are as long as its texts
			between = func() {
				l.pulse.beat.Store(int64(l.now()))
				if l.e.lead == nil { // whose watch would take messages of the pass for answers to its own
					waited += l.e.device.yield()
				}
			}
		}
		if err := l.e.forward(l.items, l.stop, between); err != nil {
			return err
		}
		l.awaitAll(steps)
		l.mu.Lock()
		commit(l.items)
		l.mu.Unlock()
		for _, j := range l.batch {
			if j.first.IsZero() {
				j.prompted = time.Now()
			}
		}
		l.read(steps)
		l.advance(steps)
		l.keepNext()
		if err := l.e.model.Damaged(); err != nil {
			return err
		}
		took = platform.Clock() - start - waited + l.filled
		return nil
	})
	return took, err
}

// announce reports the first Progress, with the cached tokens, to the Sinks of requests whose evaluation
// begins.
func (l *Loop) announce() {
	for _, j := range l.batch {
		if j.announced {
			continue
		}
		j.announced = true
		if err := l.guard(j, func() { j.Sink.Progress(j.progress) }); err != nil {
			l.end(j, err) // takes effect after the pass
		}
	}
}

// count adds a pass to the totals. Its time is divided between prompts and streams by the cost model.
func (l *Loop) count(plan []sched.Item, info PassInfo) {
	c := &l.counts
	c.Passes++
	c.SlotPasses += uint64(info.Sequences)
	c.PromptTokens += uint64(info.PromptTokens)
	streams := l.streams[:0]
	for i, j := range l.batch {
		if !j.first.IsZero() {
			streams = append(streams, plan[i])
		}
	}
	l.streams = streams
	part := float64(len(streams)) / float64(len(plan)) // until the cost model knows anything
	if l.sched.Cost.First() > 0 {
		all := l.sched.Cost.Estimate(l.sched.Shape(plan))
		part = min(float64(l.sched.Cost.Estimate(l.sched.Shape(streams)))/float64(all), 1)
	}
	generated := time.Duration(part * float64(info.Took))
	c.GeneratedTime += generated
	c.PromptTime += info.Took - generated
}

// isLive reports whether the request has not ended yet.
func (l *Loop) isLive(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return j.ended == nil
}

// A step is the result of a pass for one of its requests.
type step struct {
	generate.Step
	prompt bool // the tokens evaluated were of the prompt
	err    error

	masks *masks      // nil: there is no constraint, or nothing is sampled
	late  bool        // they take longer than the pass
	rows  [][]float32 // of logits, kept for then
}

// prepare computes the constraint masks of requests that will be sampled, while the pass runs.
func (l *Loop) prepare(steps []step) {
	constrained := func(i int, j *job) bool { return j.Constraint != nil && l.items[i].Rows > 0 }
	n := 0
	for i, j := range l.batch {
		if constrained(i, j) {
			n++
		}
	}
	if l.masking = nil; n == 0 {
		return
	}
	m := &masking{of: make([]masks, n)}
	for i, j := range l.batch {
		if !constrained(i, j) {
			continue
		}
		n--
		s, tokens := &steps[i], len(l.items[i].IDs)
		s.masks = &m.of[n]
		s.masks.f = func() { s.err = l.guard(j, func() { j.gen.Prepare(tokens) }) }
	}
	l.masking = m
	m.begin()
}

// read passes the rows of the pass to its Readers.
func (l *Loop) read(steps []step) {
	l.readers = l.readers[:0]
	for _, j := range l.batch {
		l.readers = append(l.readers, j.reading)
	}
	l.e.read(l.items, l.readers, func(i int, f func()) {
		if !steps[i].late && steps[i].err == nil {
			steps[i].err = l.guard(l.batch[i], f)
		}
	})
}

// advance samples the next tokens of each request of the pass from its logits.
func (l *Loop) advance(steps []step) {
	l.e.heads(l.items, func(parts []part) error {
		if len(parts) == 1 {
			l.advanceOne(steps, parts[0])
			return nil
		}
		each(len(parts), func(k int) { l.advanceOne(steps, parts[k]) })
		return nil
	})
}

func (l *Loop) advanceOne(steps []step, p part) {
	s := &steps[p.item]
	if s.late {
		s.keep(p.rows)
		return
	}
	l.sample(l.batch[p.item], s, len(l.items[p.item].IDs), p.rows)
}

// sample samples the next tokens of a request of which the last n were evaluated.
func (l *Loop) sample(j *job, s *step, n int, rows [][]float32) {
	if s.err != nil {
		return
	}
	if err := l.guard(j, func() { s.Step, s.err = j.gen.Advance(n, rows) }); err != nil {
		s.err = err
	}
	if errors.Is(s.err, constrain.ErrStopped) {
		s.err = ErrDeadline // else it has ended, and nobody is told
	}
}

// countDrafts counts the drafts of a request in a pass.
func (l *Loop) countDrafts(j *job, c draft.Counts) {
	if guessed, _ := c.Total(); guessed > 0 {
		l.counts.Drafts++
	}
	l.counts.Drafted = l.counts.Drafted.Plus(c)
	j.usage.Drafted = j.usage.Drafted.Plus(c)
}

// each calls f for 0 to n-1, in parallel on all CPUs: sampling from a large vocabulary takes noticeable time.
func each(n int, f func(i int)) {
	workers := min(n, runtime.GOMAXPROCS(0))
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// clock records the times of a request's first and latest token, or, if it generates none, the time at which
// its prompt was evaluated.
func (j *job) clock(s generate.Step, now time.Time) {
	if len(s.Tokens) == 0 && s.Finish == "" {
		return
	}
	if j.first.IsZero() {
		j.first = now
		j.usage.Prefill = now.Sub(j.started)
	}
	j.usage.Decode = now.Sub(j.first)
}

// deliver sends the tokens of a pass to the request's Sink, and ends the request if it is finished.
func (l *Loop) deliver(j *job, s step) {
	handed := 0
	err := l.guard(j, func() {
		if s.prompt {
			j.Sink.Progress(j.progress)
		}
		for _, t := range s.Tokens {
			handed++
			l.generated.Add(1)
			if !j.Sink.Token(t) {
				j.gen.Cut(handed)
				s.Finish = generate.Stopped
				return
			}
		}
	})
	if s.err == nil {
		s.err = err
	}
	l.mu.Lock()
	j.usage.Generated += handed
	if s.Finish == "" && s.err == nil {
		if handed > 0 {
			l.sched.Sampled(j.id, handed, j.gen.Evaluated())
			j.fresh = true
		}
		l.mu.Unlock()
		return
	}
	j.seq.settle(j.gen) // tokens that nobody wanted are not part of the text that is kept
	if j.ended = s.err; s.err != nil {
		s.Finish = ""
	}
	l.remove(j)
	l.mu.Unlock()
	l.done(j, Result{Finish: s.Finish, Err: s.err, Usage: j.usage})
}

// done reports to the Sink of a removed request how it ended.
func (l *Loop) done(j *job, r Result) { l.guard(j, func() { j.Sink.Done(r) }) }
