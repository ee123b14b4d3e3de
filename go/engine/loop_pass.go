package engine

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/sched"
)

// errGone ends a pass that nobody wants any more.
var errGone = errors.New("most of the pass is for requests that were cancelled")

// pass runs what plan put together, and hands its tokens out.
func (l *Loop) pass() {
	start := time.Now()
	err := l.e.runner.Forward(func() error {
		if l.goneTokens.Load()*2 >= l.passTokens.Load() {
			return errGone
		}
		return nil
	})
	if err != nil { // it can only be that one: tokens were checked when they came
		l.mu.Lock()
		undo(l.items)
		for _, j := range l.batch {
			j.inPass = 0
		}
		l.mu.Unlock()
		return
	}
	commit(l.items)
	outs := l.sampleAll()
	took := time.Since(start)

	l.mu.Lock()
	info := PassInfo{Took: took, Sequences: len(l.batch)}
	plan := make([]sched.Item, len(l.batch))
	for i, j := range l.batch {
		n := len(l.items[i].IDs)
		plan[i] = sched.Item{ID: j.id, Tokens: n}
		if j.first.IsZero() {
			info.PromptTokens += n
		} else {
			info.DecodeTokens += n // those too that a request which made room evaluates again
		}
	}
	l.count(plan, info)
	l.sched.Ran(plan, took)
	for i, j := range l.batch {
		j.pending = j.pending[len(l.items[i].IDs):]
		j.progress.Done = min(j.seq.Len(), j.progress.Total)
		j.inPass = 0
		if j.first.IsZero() && !j.NoCache {
			l.tree.Keep("", j.seq.table, j.seq.ids, kvcache.How{Whole: true}) // for those who wait for it
		}
		outs[i].prompt = j.first.IsZero()
		if outs[i].whole && outs[i].err == nil {
			j.note(time.Now())
		}
	}
	l.mu.Unlock()
	if l.cfg.OnPass != nil {
		l.cfg.OnPass(info)
	}
	for i, j := range l.batch {
		if l.isLive(j) {
			l.deliver(j, outs[i])
		}
	}
}

// count adds a pass to the counts, whose time prompts and streams share as the
// model of cost has it.
func (l *Loop) count(plan []sched.Item, info PassInfo) {
	c := &l.counts
	c.Passes++
	c.SlotPasses += uint64(info.Sequences)
	c.PromptTokens += uint64(info.PromptTokens)
	var streams []sched.Item
	for i, j := range l.batch {
		if !j.first.IsZero() {
			streams = append(streams, plan[i])
		}
	}
	part := float64(len(streams)) / float64(len(plan)) // where nothing is known yet
	if all := l.sched.Cost.Estimate(l.sched.Shape(plan)); all > 0 {
		part = min(float64(l.sched.Cost.Estimate(l.sched.Shape(streams)))/float64(all), 1)
	}
	generated := time.Duration(part * float64(info.Took))
	c.GeneratedTime += generated
	c.PromptTime += info.Took - generated
}

// isLive tells whether nobody has ended the request yet.
func (l *Loop) isLive(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return j.ended == nil
}

// An out is what a pass gave one of its requests.
type out struct {
	prompt bool // it was of the prompt
	whole  bool // its tokens are all evaluated: there is a token, or an error
	token  Token
	err    error
}

// sampleAll chooses a token for each request of the pass whose tokens are all
// evaluated, some rows of logits at a time.
func (l *Loop) sampleAll() []out {
	outs := make([]out, len(l.batch))
	rows, who := l.e.rows[:0], make([]int, 0, len(l.batch))
	flush := func() {
		l.e.runner.Head(rows)
		each(len(rows), func(k int) {
			i := who[k]
			outs[i].token, outs[i].err = l.batch[i].choose(l.e.runner.Logits(k))
		})
		rows, who = rows[:0], who[:0]
	}
	row, most := int32(-1), l.e.runner.Batch().MaxOut()
	for i, j := range l.batch {
		n := len(l.items[i].IDs)
		row += int32(n)
		if n < len(j.pending) {
			continue
		}
		outs[i].whole = true
		if j.MaxTokens == 0 {
			continue // only the prompt was wanted
		}
		if rows, who = append(rows, row), append(who, i); len(rows) == most {
			flush()
		}
	}
	if len(rows) > 0 {
		flush()
	}
	return outs
}

// each calls f for 0 to n-1, on as many CPUs as there are: a token of a large
// vocabulary takes a while to choose.
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

// choose samples from logits, which are its to change.
func (j *job) choose(logits []float32) (t Token, err error) {
	raw := logits // the model's own probabilities are of these
	if j.TopLogprobs >= 0 && len(j.Bias) > 0 {
		logits = append([]float32(nil), logits...)
	}
	for _, b := range j.Bias {
		logits[b.ID] += b.Value
	}
	if t.ID, err = j.smp.Sample(logits); err != nil {
		return t, err
	}
	j.smp.Accept(t.ID)
	if j.TopLogprobs >= 0 {
		t.Logprob, t.Top = sample.Logprobs(raw, t.ID, j.TopLogprobs)
	}
	return t, nil
}

// note counts the token that a request is about to get, if it gets one.
func (j *job) note(now time.Time) {
	if j.first.IsZero() {
		j.first = now
		j.usage.Prefill = now.Sub(j.started)
	}
	if j.MaxTokens != 0 {
		j.usage.Generated++
		j.usage.Decode = now.Sub(j.first)
	}
}

// deliver hands out what a pass gave a request, and ends it where that was all.
func (l *Loop) deliver(j *job, o out) {
	if o.prompt {
		j.Sink.Progress(j.progress)
	}
	if !o.whole {
		return
	}
	finish := Finish("")
	switch {
	case o.err != nil:
	case j.MaxTokens == 0:
		finish = MaxedOut
	default:
		l.generated.Add(1)
		more := j.Sink.Token(o.token)
		switch {
		case !more:
			finish = Stopped
		case j.usage.Generated == j.MaxTokens:
			finish = MaxedOut
		case j.seq.Len() == l.e.ctx:
			finish = CtxFull
		}
	}
	l.mu.Lock()
	if finish == "" && o.err == nil {
		j.pending = append(j.pending, o.token.ID)
		l.sched.Sampled(j.id)
		l.mu.Unlock()
		return
	}
	j.ended = o.err
	l.remove(j)
	l.mu.Unlock()
	j.Sink.Done(Result{Finish: finish, Err: o.err, Usage: j.usage})
}
