package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A use is a request or an operation of an epoch, and how it is sent.
type use struct {
	request *request
	manner  manner
	op      *operation
}

// A blow is a fault of an epoch, which begins and ends with some of its requests.
type blow struct {
	fault      *fault
	begin, end int
}

// A plan is what an epoch does, which the seed decides.
type plan struct {
	pool  []*request
	uses  []use
	blows []blow
}

// poolEpochs is how many epochs draw from the same requests; pool is how many these are.
const (
	poolEpochs = 8
	pool       = 150
)

// draw draws an epoch. What is not possible is drawn as well and left out, so that all else is the same everywhere.
func (w *world) draw(n int) *plan {
	p := &plan{}
	rng := rand.New(rand.NewPCG(w.state.Seed, uint64(n/poolEpochs)|1<<40))
	for range pool {
		p.pool = append(p.pool, drawRequest(rng))
	}
	rng = rand.New(rand.NewPCG(w.state.Seed, uint64(n)))
	for range w.config.requests {
		if rng.IntN(12) == 0 {
			p.uses = append(p.uses, use{op: &operations[rng.IntN(len(operations))]})
			continue
		}
		u := use{request: p.pool[rng.IntN(len(p.pool))], manner: manner{key: adminKey}}
		guest := rng.IntN(5) == 0
		switch rng.IntN(40) {
		case 0, 1, 2:
			u.manner.leaves = time.Duration(1+rng.IntN(80)) * time.Millisecond
		case 3, 4, 5:
			if u.request.streams() {
				u.manner.events = 1 + rng.IntN(20)
			}
		case 6:
			if rng.IntN(3) == 0 {
				u.manner.slow = 1 + rng.IntN(4)
			}
		case 7:
			if !u.request.wait && u.request.next == nil {
				u.manner.stop = time.Duration(100+rng.IntN(900)) * time.Millisecond
			}
		}
		if guest && !bytes.Contains(u.request.body, []byte(`"priority"`)) { // which a guest may not raise
			u.manner.key = guestKey
		}
		p.uses = append(p.uses, u)
	}
	blows := 0
	if n > 0 && len(w.config.faults) > 0 { // the first epoch shows what is so without any
		blows = 1 + rng.IntN(3)
	}
	for i := range blows {
		name := w.config.faults[rng.IntN(len(w.config.faults))]
		step := w.config.requests / blows
		from := i*step + rng.IntN(step/3+1)
		to := from + 1 + rng.IntN(step/2+1)
		f := w.faults[slices.IndexFunc(w.faults, func(f *fault) bool { return f.name == name })]
		if f.impossible == "" {
			p.blows = append(p.blows, blow{f, from, to})
		}
	}
	return p
}

// A tally counts what became of the requests of an epoch.
type tally struct {
	mu    sync.Mutex
	o     *outcome
	gaps  []time.Duration
	first []time.Duration
}

// epoch runs one epoch. An error is of the run itself; what the server did wrong is in the outcome.
func (w *world) epoch(ctx context.Context, n int) (*outcome, error) {
	p := w.draw(n)
	w.mu.Lock()
	w.problems, w.epochNow = nil, n
	w.mu.Unlock()
	var stop func() error
	err := w.alone.learn(ctx, p.pool, func() (c *client, err error) {
		c, stop, err = w.quiet(ctx)
		return c, err
	})
	if stop != nil {
		if stopped := stop(); err == nil {
			err = stopped
		}
	}
	if err != nil {
		return nil, err
	}
	o := &outcome{Epoch: n, Seed: w.state.Seed, At: time.Now(), Requests: len(p.uses), Faults: []string{}, Kinds: map[string]int{}, Statuses: map[string]int{}}
	for _, b := range p.blows {
		o.Faults = append(o.Faults, b.fault.name)
	}
	starts := w.server.starts
	var before metrics
	if before, err = readMetrics(ctx, w.server.client); err != nil {
		return nil, err
	}
	met := &spans{}
	w.beginBatch(ctx, n, p)
	t := &tally{o: o}
	if err := w.load(ctx, p, t, met); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return o, nil
	}
	w.endBatches(ctx, o, met)
	w.rest(ctx, o, starts)
	w.inLogs(met)
	if after, err := readMetrics(ctx, w.server.client); err == nil && w.server.starts == starts {
		o.Restored = after.sum("quern_prompt_restored_tokens_total") - before.sum("quern_prompt_restored_tokens_total")
	}
	o.Restarts = w.server.starts - starts
	o.GapP50, o.GapP99, o.FirstP99 = quantile(t.gaps, 0.5), quantile(t.gaps, 0.99), quantile(t.first, 0.99)
	if limit := float64(w.config.gap) / float64(time.Millisecond); w.config.assertGap && o.GapP99 > limit {
		w.problem(-1, "pace", fmt.Sprintf("the 99th percentile of gaps is %.1f ms, --gap is %v", o.GapP99, w.config.gap), nil)
	}
	o.Seconds = time.Since(o.At).Seconds()
	w.mu.Lock()
	o.Problems = w.problems
	w.mu.Unlock()
	if len(o.Problems) == 0 && !w.config.keep {
		w.server.forgetLogs()
	}
	return o, nil
}

// quantile is in milliseconds, 0 of nothing.
func quantile(all []time.Duration, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return float64(all[int(q*float64(len(all)-1))]) / float64(time.Millisecond)
}

// load sends the requests of a plan, and has its faults come and go.
func (w *world) load(ctx context.Context, p *plan, t *tally, met *spans) error {
	var next atomic.Int64
	done := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for _, b := range p.blows {
			if err := w.blow(ctx, b, &next, done, met); err != nil && ctx.Err() == nil {
				failed <- fmt.Errorf("fault %s: %w", b.fault.name, err)
				return
			}
		}
	}()
	var wg sync.WaitGroup
	for range w.config.workers {
		wg.Go(func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= len(p.uses) || ctx.Err() != nil {
					return
				}
				w.server.up(ctx)
				w.send(ctx, k, p.uses[k], t, met)
			}
		})
	}
	wg.Wait()
	close(done)
	return <-failed
}

// blow has a fault begin and end. Where the requests have ended before, it does both at once.
func (w *world) blow(ctx context.Context, b blow, next *atomic.Int64, done chan struct{}, met *spans) error {
	reached := func(k int) {
		for int(next.Load()) < k && ctx.Err() == nil {
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}
	reached(b.begin)
	s := met.begin(b.fault)
	defer met.end(s)
	if err := b.fault.begin(ctx, w); err != nil {
		return err
	}
	wait(ctx, b.fault.least)
	reached(b.end)
	if b.fault.end == nil {
		return nil
	}
	return b.fault.end(context.WithoutCancel(ctx), w)
}

// send sends one request and says what became of it.
func (w *world) send(ctx context.Context, k int, u use, t *tally, met *spans) {
	from := time.Now()
	name, disk := "", false
	var a *answer
	var body []byte
	if u.op != nil {
		name, disk = u.op.name, u.op.disk
		a = u.op.do(ctx, w, k)
	} else {
		name, body = u.request.kind, u.request.body
		a = w.server.client.ask(ctx, u.request, u.manner)
	}
	if ctx.Err() != nil {
		return
	}
	faults := met.during(from, time.Now())
	class, wrong := "", ""
	if u.op != nil {
		class, wrong = judgeOperation(u.op, a)
	} else {
		class, wrong = w.judge(u.request, u.manner, a)
	}
	if wrong != "" && class != "differs" && excuse(faults, disk, a) {
		class, wrong = "faulted", ""
	}
	if wrong != "" {
		var names []string
		for _, f := range faults {
			names = append(names, f.name)
		}
		w.problem(k, name, fmt.Sprintf("%s; the client %v; faults met: [%s]", wrong, u.manner, strings.Join(names, " ")), body)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.o.Kinds[name]++
	t.o.Statuses[fmt.Sprint(a.status)]++
	switch class {
	case "same":
		t.o.Same++
	case "part":
		t.o.Parts++
	case "refused":
		t.o.Refused++
	case "faulted":
		t.o.Faulted++
	}
	if len(faults) == 0 && class == "same" && len(a.gaps) > 0 {
		t.gaps = append(t.gaps, a.gaps...)
		t.first = append(t.first, a.first)
	}
}

// judge says what an answer is, and what is wrong with it, if anything.
func (w *world) judge(r *request, m manner, a *answer) (class, wrong string) {
	want := w.alone.known[r.hash()]
	if a.status == 200 && r.want == 200 && m.slow == 0 {
		// What has come is right, also of what was cut.
		if d := differs(a.fields, want, a.left || a.err != nil || !a.finished || a.message != ""); d != "" && len(a.fields) > 0 {
			return "differs", d
		}
	}
	switch {
	case a.left:
		return "part", ""
	case a.err != nil:
		return "", fmt.Sprintf("status %d, %v", a.status, a.err)
	case a.status == 429 || a.code == 429 || slices.Contains(r.also, a.status):
		return "refused", ""
	case a.status != r.want:
		return "", fmt.Sprintf("status %d, want %d: %s", a.status, r.want, a.message)
	case r.want != 200:
		return "refused", ""
	case a.message != "":
		return "", "an error in the stream: " + a.message
	case !a.finished:
		return "", "the stream has no end"
	}
	return "same", ""
}

func judgeOperation(op *operation, a *answer) (class, wrong string) {
	switch {
	case a.err != nil:
		return "", fmt.Sprintf("status %d, %v", a.status, a.err)
	case !slices.Contains(op.ok, a.status):
		return "", fmt.Sprintf("status %d, want one of %v: %s", a.status, op.ok, a.message)
	case a.status != http.StatusOK:
		return "refused", ""
	}
	return "done", ""
}
