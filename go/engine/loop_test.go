package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/sample"
)

// A catcher is a Sink that keeps what it gets.
type catcher struct {
	stop func(n int) bool // whether the n-th token is the last
	on   func(n int)      // called with each
	mu   sync.Mutex
	ids  []int32
	logs []generate.Token
	prog []Progress
	done chan Result
}

func newCatcher() *catcher { return &catcher{done: make(chan Result, 2)} }

// said waits for the end, and holds the text, without what ended it, and the reason to those that the request has alone.
func (c *catcher) said(t *testing.T, what string, want []int32, finish generate.Finish) Result {
	t.Helper()
	r := <-c.done
	var got []int32
	for _, tok := range c.logs {
		if !tok.Stop {
			got = append(got, tok.ID)
		}
	}
	if !slices.Equal(got, want) || r.Finish != finish || r.Err != nil {
		t.Errorf("%s, among others: %v, %+v; without %v, %s", what, got, r, want, finish)
	}
	return r
}

func (c *catcher) Progress(p Progress) { c.prog = append(c.prog, p) }
func (c *catcher) Done(r Result)       { c.done <- r }

func (c *catcher) Token(t generate.Token) bool {
	c.mu.Lock()
	c.ids, c.logs = append(c.ids, t.ID), append(c.logs, t)
	n := len(c.ids)
	c.mu.Unlock()
	if c.on != nil {
		c.on(n)
	}
	return c.stop == nil || !c.stop(n)
}

func (c *catcher) wait(t *testing.T) Result {
	t.Helper()
	select {
	case r := <-c.done:
		return r
	case <-time.After(time.Minute):
		t.Fatal("a request does not end")
		panic("")
	}
}

func openLoop(t testing.TB, path string, c Config, lc LoopConfig) *Loop {
	t.Helper()
	c.Shared = true
	if lc.Queue == 0 {
		lc.Queue = 1000
	}
	l, err := NewLoop(open(t, path, c), lc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func greedyRequest(prompt []int32, n int) *Request {
	return &Request{Params: likeliest(prompt, n), Slot: -1, Sink: newCatcher()}
}

func submit(t *testing.T, l *Loop, r *Request) (*Ticket, *catcher) {
	t.Helper()
	k, err := l.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	return k, r.Sink.(*catcher)
}

// checkBlocks says whether all blocks are free or in the cache alone.
func checkBlocks(t *testing.T, l *Loop) {
	t.Helper()
	if s := stray(l); s != "" {
		t.Error(s)
	}
}

// checkBlocksSoon is checkBlocks where a page may be on its way to disk or from there: one may be so again as soon as none was.
func checkBlocksSoon(t *testing.T, l *Loop) {
	t.Helper()
	s := stray(l)
	for end := time.Now().Add(time.Minute); s != "" && time.Now().Before(end); s = stray(l) {
		time.Sleep(time.Millisecond)
	}
	if s != "" {
		t.Error(s)
	}
}

// stray says what a loop holds though it has no requests; "" is nothing.
func stray(l *Loop) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, idle := l.tree.Bytes()
	if pool := l.e.kv; all != idle || pool.Available() != pool.Limit() || len(l.jobs) != 0 {
		return fmt.Sprintf("%d bytes of %d are held by nobody, %d of %d in the tree are idle, %d requests", pool.Limit()-pool.Available(), pool.Limit(), idle, all, len(l.jobs))
	}
	return ""
}

// A request gives the same tokens alone and among others, with a cache and
// without, and where memory is so short that requests have to make room.
func TestLoopGivesTheSameText(t *testing.T) {
	const n = 30
	for _, tt := range []struct {
		name   string
		c      Config
		blocks uint64
	}{
		{"ample", Config{Sequences: 8, Batch: 64}, 100},
		{"short of memory", Config{Sequences: 6, Batch: 32, Ctx: 200}, 7},
		{"one at a time", Config{Sequences: 1, Batch: 16}, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			probe := open(t, tiny, Config{})
			block := uint64(probe.kv.Layout()[0].Bytes)
			tt.c.KVBytes = tt.blocks * block
			l := openLoop(t, tiny, tt.c, LoopConfig{})
			rng := rand.New(rand.NewPCG(1, 1))
			base := randomIDs(probe, 1, 150)
			type ask struct {
				prompt []int32
				c      *catcher
			}
			var asks []ask
			early, begun, all := make(chan struct{}), make(chan struct{}), make(chan struct{})
			for i := range 24 {
				if i == 12 { // the first ones have taken what memory there is
					close(early)
					<-begun
				} // many begin with the same tokens
				prompt := slices.Concat(base[:rng.IntN(120)], randomIDs(probe, uint64(i%7), 1+rng.IntN(30)))
				r := greedyRequest(prompt, n)
				r.Flow = fmt.Sprint(i % 3)
				r.NoCache = i%5 == 4
				r.Priority = i / 12 // the later ones have the earlier ones make room
				if i == 0 {
					r.Sink.(*catcher).on = func(n int) {
						switch n {
						case 1:
							<-early
						case 3:
							close(begun)
							<-all
						}
					}
				}
				_, c := submit(t, l, r)
				asks = append(asks, ask{prompt, c})
			}
			close(all)
			preempted := 0
			for i, a := range asks {
				r := a.c.wait(t)
				if r.Err != nil || r.Finish != generate.MaxedOut || r.Generated != n {
					t.Errorf("request %d: %+v", i, r)
				}
				preempted += r.Preempted
				if want := greedy(t, probe, a.prompt, n); !slices.Equal(a.c.ids, want) {
					t.Errorf("request %d: %v, alone %v", i, a.c.ids, want)
				}
			}
			if tt.name == "short of memory" && preempted == 0 {
				t.Errorf("%d times a request made room", preempted)
			}
			checkBlocks(t, l)
			s := l.Status()
			if s.Counts.GeneratedTokens != 24*n || s.Counts.CachedTokens == 0 && tt.blocks > 10 || s.Queued != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// What has been computed is found again: by the next turn, by an edit, by those
// who ask for the same at the same time.
func TestLoopReusesPrefixes(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 4, Batch: 32}, LoopConfig{})
	prompt := randomIDs(l.e, 7, 130)
	_, c := submit(t, l, greedyRequest(prompt, 10))
	r := c.wait(t)
	if r.CachedTokens != 0 || c.prog[0] != (Progress{Total: 130}) || c.prog[len(c.prog)-1] != (Progress{Total: 130, Done: 130}) || len(c.prog) < 130/32 {
		t.Errorf("the first: %+v, progress %v", r, c.prog)
	}
	turn := slices.Concat(prompt, c.ids, randomIDs(l.e, 8, 5))
	_, c = submit(t, l, greedyRequest(turn, 3))
	if r := c.wait(t); r.CachedTokens != 139 { // the last token was sampled, and never evaluated
		t.Errorf("the next turn found %d tokens of 139", r.CachedTokens)
	}
	edit := slices.Concat(prompt[:100], randomIDs(l.e, 9, 20))
	_, c = submit(t, l, greedyRequest(edit, 3))
	if r := c.wait(t); r.CachedTokens != 100 {
		t.Errorf("the edit found %d tokens of 100", r.CachedTokens)
	}
	no := greedyRequest(turn, 3)
	no.NoCache = true
	_, c = submit(t, l, no)
	if r := c.wait(t); r.CachedTokens != 0 {
		t.Errorf("without the cache %d tokens were found", r.CachedTokens)
	}
	// Four at a time with a beginning that is new: one computes it.
	fresh := randomIDs(l.e, 10, 150)
	var cs []*catcher
	for range 4 {
		_, c := submit(t, l, greedyRequest(fresh, 5))
		cs = append(cs, c)
	}
	cached := 0
	for _, c := range cs {
		r := c.wait(t)
		cached += r.CachedTokens
		if !slices.Equal(c.ids, cs[0].ids) {
			t.Errorf("%v and %v", c.ids, cs[0].ids)
		}
	}
	if cached < 3*128 {
		t.Errorf("three of four found %d tokens, want two blocks each", cached)
	}
	checkBlocks(t, l)
}

func TestLoopEnds(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 2, Ctx: 100, Batch: 16}, LoopConfig{})
	prompt := randomIDs(l.e, 1, 40)

	none := greedyRequest(prompt, 0)
	_, c := submit(t, l, none)
	if r := c.wait(t); r.Finish != generate.MaxedOut || r.Generated != 0 || len(c.ids) != 0 {
		t.Errorf("no tokens: %+v", r)
	}
	_, c = submit(t, l, greedyRequest(prompt, -1))
	if r := c.wait(t); r.Finish != generate.CtxFull || r.Generated != 60 {
		t.Errorf("to the end: %+v", r)
	}
	stop := greedyRequest(prompt, -1)
	stop.Sink.(*catcher).stop = func(n int) bool { return n == 7 }
	_, c = submit(t, l, stop)
	if r := c.wait(t); r.Finish != generate.Stopped || r.Generated != 7 {
		t.Errorf("stopped: %+v", r)
	}
	// Cancelled from within, while it generates.
	cancel := greedyRequest(prompt, -1)
	var k *Ticket
	var ready sync.WaitGroup
	ready.Add(1)
	cancel.Sink.(*catcher).on = func(n int) {
		if n == 3 {
			ready.Wait()
			k.Cancel()
			k.Cancel()
		}
	}
	k, c = submit(t, l, cancel)
	ready.Done()
	if r := c.wait(t); !errors.Is(r.Err, context.Canceled) || r.Generated != 3 || r.Finish != "" {
		t.Errorf("cancelled: %+v", r)
	}
	k.Cancel() // long gone

	// A NaN among the logits is nobody's token; all NaN is an error of that request.
	bias := greedyRequest(prompt, 2)
	for id := range l.e.model.Config.NVocab {
		bias.Bias = append(bias.Bias, sample.Bias{ID: int32(id), Value: float32(math.Inf(-1))})
	}
	_, c = submit(t, l, bias)
	if r := c.wait(t); !errors.Is(r.Err, generate.ErrBanned) {
		t.Errorf("no token possible: %+v", r)
	}
	if n := len(c.done); n != 0 {
		t.Errorf("%d results too many", n)
	}
	checkBlocks(t, l)
	if s := l.Status(); s.Counts.Cancellations != 1 || s.Slots[0].Busy {
		t.Errorf("%+v", s)
	}
}

func TestLoopRefuses(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 1, Ctx: 100}, LoopConfig{Queue: 1})
	check := func(what string, r *Request, want string) error {
		t.Helper()
		_, err := l.Submit(r)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
		return err
	}
	check("empty", greedyRequest(nil, 1), "empty")
	check("unknown token", greedyRequest([]int32{1, 1 << 20}, 1), "1048576")
	var long *TooLongError
	if err := check("too long", greedyRequest(randomIDs(l.e, 1, 100), 1), "100"); !errors.As(err, &long) || !errors.Is(err, ErrTooLong) {
		t.Errorf("too long: %T", err)
	}
	bad := greedyRequest([]int32{1}, 1)
	bad.Sampling.TopP = 3
	check("parameters", bad, "top-p")
	late := greedyRequest([]int32{1}, 1)
	late.Deadline = time.Now().Add(-time.Second)
	check("late", late, "deadline")

	// One runs as long as it likes, one waits, and there is no room for a third.
	hold := greedyRequest([]int32{1, 2, 3}, -1)
	gate, begun := make(chan struct{}), make(chan struct{})
	hold.Sink.(*catcher).on = func(n int) {
		if n == 1 {
			close(begun)
			<-gate
		}
	}
	_, running := submit(t, l, hold)
	<-begun
	soon := greedyRequest([]int32{4, 5}, 2)
	soon.Deadline = time.Now().Add(3 * time.Second) // long enough to be asked for the next one
	_, waiting := submit(t, l, soon)
	var busy *BusyError
	if err := check("busy", greedyRequest([]int32{4}, 1), "1 requests are waiting"); !errors.As(err, &busy) || busy.RetryAfter < time.Second {
		t.Errorf("busy: %#v", err)
	}
	time.Sleep(time.Until(soon.Deadline) + time.Millisecond)
	close(gate)
	if r := waiting.wait(t); !errors.Is(r.Err, ErrDeadline) {
		t.Errorf("past its deadline: %+v", r)
	}
	running.wait(t)
	checkBlocks(t, l)
}

// A full queue is shared by flows: the newest request of the flow with the most of it ends in favour of another flow's.
func TestQueueIsShared(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 1}, LoopConfig{Queue: 4})
	of := func(flow string) *Request {
		r := greedyRequest([]int32{1, 2, 3}, 2)
		r.Flow = flow
		return r
	}
	hold, gate, begun := of("flood"), make(chan struct{}), make(chan struct{})
	hold.Sink.(*catcher).on = func(n int) {
		if n == 1 {
			close(begun)
			<-gate
		}
	}
	_, running := submit(t, l, hold)
	<-begun
	var flood []*catcher
	for range 4 {
		_, c := submit(t, l, of("flood"))
		flood = append(flood, c)
	}
	var busy *BusyError
	if _, err := l.Submit(of("flood")); !errors.As(err, &busy) {
		t.Errorf("a fifth of the flood: %v", err)
	}
	_, first := submit(t, l, of("light"))
	_, second := submit(t, l, of("light"))
	if _, err := l.Submit(of("light")); !errors.As(err, &busy) {
		t.Errorf("more than its share: %v", err)
	}
	close(gate)
	for i, c := range append(flood, first, second, running) {
		r := c.wait(t)
		if dropped := i == 2 || i == 3; errors.As(r.Err, &busy) != dropped || !dropped && r.Finish != generate.MaxedOut {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	l.mu.Lock()
	if n := l.counts.RejectedRequests; n != 4 {
		t.Errorf("%d rejected requests, want 4", n)
	}
	l.mu.Unlock()
	checkBlocks(t, l)
}

func TestLoopDrains(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 2}, LoopConfig{})
	_, short := submit(t, l, greedyRequest([]int32{1, 2}, 3))
	l.Drain(context.Background())
	if r := short.wait(t); r.Finish != generate.MaxedOut {
		t.Errorf("%+v", r)
	}
	if _, err := l.Submit(greedyRequest([]int32{1}, 1)); !errors.Is(err, ErrClosing) {
		t.Errorf("after draining: %v", err)
	}

	l = openLoop(t, tiny, Config{Sequences: 2}, LoopConfig{})
	endless := greedyRequest([]int32{1, 2}, -1)
	gate := make(chan struct{})
	endless.Sink.(*catcher).on = func(n int) {
		if n == 5 {
			<-gate
		}
	}
	_, c := submit(t, l, endless)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	told := func() bool { // that it has to end
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, j := range l.jobs {
			if j.ended == nil {
				return false
			}
		}
		return true
	}
	go func() {
		for <-ctx.Done(); !told(); {
			time.Sleep(time.Millisecond)
		}
		close(gate)
	}()
	l.Drain(ctx)
	if r := c.wait(t); !errors.Is(r.Err, ErrClosing) || r.Generated > 6 {
		t.Errorf("%+v", r)
	}
}

func TestLoopLogprobs(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 2}, LoopConfig{})
	prompt := randomIDs(l.e, 3, 20)
	r := greedyRequest(prompt, 4)
	r.TopLogprobs = 3
	_, c := submit(t, l, r)
	c.wait(t)
	for i, tok := range c.logs {
		if len(tok.Top) != 3 || tok.Top[0].ID != tok.ID || tok.Top[0] != tok.Logprob || tok.Top[1].Value > tok.Top[0].Value {
			t.Errorf("token %d: %+v", i, tok)
		}
	}
	// A bias changes the choice, and not the model's own probabilities.
	second := c.logs[0].Top[1]
	r = greedyRequest(prompt, 1)
	r.TopLogprobs = 2
	r.Bias = []sample.Bias{{ID: second.ID, Value: 100}}
	_, b := submit(t, l, r)
	b.wait(t)
	if b.ids[0] != second.ID || b.logs[0].Logprob != second || b.logs[0].Top[0] != c.logs[0].Top[0] {
		t.Errorf("biased: %+v, want %+v", b.logs[0], second)
	}
}

// Requests of another namespace find nothing, and leave nothing.
func TestNamespaces(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 2, Batch: 32}, LoopConfig{})
	prompt := randomIDs(l.e, 7, 130)
	for _, tt := range []struct {
		ns     string
		cached int
	}{{"a", 0}, {"b", 0}, {"a", 129}, {"", 0}, {"b", 129}} {
		r := greedyRequest(prompt, 3)
		r.Namespace = tt.ns
		_, c := submit(t, l, r)
		if r := c.wait(t); r.CachedTokens != tt.cached {
			t.Errorf("namespace %q: %d tokens found, want %d", tt.ns, r.CachedTokens, tt.cached)
		}
	}
	checkBlocks(t, l)
}
