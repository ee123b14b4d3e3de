package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sample"
)

// Requests may share the slice of their prompt, and what lies behind its end
// stays as it is.
func TestRequestsShareAPrompt(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 4, Batch: 16}, LoopConfig{})
	probe := open(t, tiny, Config{})
	backing := randomIDs(l.e, 5, 40)
	kept := slices.Clone(backing)
	prompt := backing[:20]
	var requests []*Request
	var cs []*catcher
	var want [][]int32
	for seed := range 4 {
		r := greedyRequest(prompt, 30)
		r.Sampling.Temp, r.Sampling.Seed = 2, uint64(seed)
		s := probe.NewSequence()
		var ids []int32
		if _, err := probe.Generate(context.Background(), s, r.Params, func(id int32) error {
			ids = append(ids, id)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		s.Close()
		want = append(want, ids)
		requests = append(requests, r)
	}
	for _, r := range requests {
		_, c := submit(t, l, r)
		cs = append(cs, c)
	}
	for seed, c := range cs {
		c.wait(t)
		if !slices.Equal(c.ids, want[seed]) {
			t.Errorf("seed %d: %v, alone %v", seed, c.ids, want[seed])
		}
	}
	if !slices.Equal(backing, kept) {
		t.Error("the caller's slice was written to")
	}
}

// While a slot file is read or written its blocks are nobody else's. Whoever
// waits for them goes on when they are free again.
func TestSlotFilesWakeThoseWhoWait(t *testing.T) {
	probe := open(t, tiny, Config{})
	block := uint64(probe.kv.Layout()[0].Bytes)
	l := openLoop(t, tiny, Config{Sequences: 2, Ctx: 250, KVBytes: 5 * block}, LoopConfig{})
	long := greedyRequest(randomIDs(l.e, 1, 190), 5)
	_, c := submit(t, l, long)
	slot := c.wait(t).Slot
	var file bytes.Buffer
	if _, err := l.SaveSlot(slot, "", &file); err != nil {
		t.Fatal(err)
	}
	// waits has a request come while f uses the file, and lets f go on when the
	// request has found no room.
	waits := func(what string, f func(gate io.ReadWriter) error) {
		t.Helper()
		begun, gate := make(chan struct{}), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- f(&gated{Buffer: bytes.NewBuffer(slices.Clone(file.Bytes())), after: 4096, begun: begun, gate: gate})
		}()
		<-begun
		_, c := submit(t, l, greedyRequest(randomIDs(l.e, 2, 200), 20))
		time.Sleep(50 * time.Millisecond)
		if len(c.done) > 0 {
			t.Errorf("%s: there was room: the test does not test that", what)
		}
		close(gate)
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if r := c.wait(t); r.Err != nil {
			t.Errorf("%s: %v", what, r.Err)
		}
	}
	waits("save", func(g io.ReadWriter) error { _, err := l.SaveSlot(slot, "", g); return err })
	waits("restore", func(g io.ReadWriter) error { _, err := l.RestoreSlot(slot, "", g); return err })
	checkBlocks(t, l)
}

// A gated file stops after some bytes until its gate opens.
type gated struct {
	*bytes.Buffer
	after       int
	begun, gate chan struct{}
	once        sync.Once
}

func (g *gated) wait(n int) {
	if g.after -= n; g.after < 0 {
		g.once.Do(func() { close(g.begun); <-g.gate })
	}
}

func (g *gated) Read(b []byte) (int, error) {
	g.wait(min(len(b), 4096))
	return g.Buffer.Read(b[:min(len(b), 4096)])
}

func (g *gated) Write(b []byte) (int, error) { g.wait(len(b)); return len(b), nil }

// A panicker is a Sink that panics.
type panicker struct {
	*catcher
	in string
}

func (p *panicker) Progress(q Progress) {
	if p.in == "progress" {
		panic(p.in)
	}
	p.catcher.Progress(q)
}

func (p *panicker) Token(t generate.Token) bool {
	if p.in == "token" && len(p.ids) == 3 {
		panic(p.in)
	}
	return p.catcher.Token(t)
}

func (p *panicker) Done(r Result) {
	p.catcher.Done(r)
	if p.in == "done" {
		panic(p.in)
	}
}

// A panic of what belongs to a request is the end of that one.
func TestPanicsEndOneRequest(t *testing.T) {
	var mu sync.Mutex
	var caught []*PanicError
	l := openLoop(t, tiny, Config{Sequences: 4, Batch: 32}, LoopConfig{OnPanic: func(p *PanicError) {
		mu.Lock()
		defer mu.Unlock()
		caught = append(caught, p)
	}})
	prompt := randomIDs(l.e, 4, 40)
	want := greedy(t, open(t, tiny, Config{}), prompt, 30)
	for _, in := range []string{"progress", "token", "done"} {
		bad := greedyRequest(prompt, 10)
		p := &panicker{newCatcher(), in}
		bad.Sink = p
		_, beside := submit(t, l, greedyRequest(prompt, 30))
		k, err := l.Submit(bad)
		if err != nil {
			t.Fatal(err)
		}
		var pe *PanicError
		if r := p.wait(t); in != "done" && (!errors.As(r.Err, &pe) || pe.Value != in || r.Finish != "") {
			t.Errorf("%s: %+v", in, r)
		}
		if r := beside.wait(t); r.Err != nil || !slices.Equal(beside.ids, want) {
			t.Errorf("%s: the one beside it got %v, %v, want %v", in, beside.ids, r.Err, want)
		}
		eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(caught) == 1 })
		if got := caught[0]; got.Value != in || got.Request != k.ID() || !strings.Contains(string(got.Stack), "isolation_test.go") {
			t.Errorf("%s: caught %+v", in, got)
		}
		caught = nil
	}
	checkBlocks(t, l)
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

func TestBiasesAreOfTokens(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 1}, LoopConfig{})
	for _, id := range []int32{-1, int32(l.e.model.Config.NVocab)} {
		r := greedyRequest([]int32{1}, 1)
		r.Bias = []sample.Bias{{ID: id}}
		if _, err := l.Submit(r); !errors.Is(err, model.ErrToken) {
			t.Errorf("bias for %d: %v", id, err)
		}
	}
}

// A request that was planned and had to make room is in no pass: its end does not
// count as tokens of the one that runs.
func TestYieldedIsInNoPass(t *testing.T) {
	probe := open(t, tiny, Config{})
	l := openLoop(t, tiny, Config{Sequences: 2, Ctx: 250, KVBytes: 6 * uint64(probe.kv.Layout()[0].Bytes)}, LoopConfig{})
	prompt := randomIDs(l.e, 1, 70)
	_, c := submit(t, l, greedyRequest(prompt, 1))
	c.wait(t)
	// From here on the test is the loop.
	l.mu.Lock()
	l.stopping = true
	l.mu.Unlock()
	l.nudge()
	<-l.closed
	again := sync.OnceFunc(func() { l.stopping, l.closed = false, make(chan struct{}); go l.run() })
	defer again()
	var cs []*catcher
	for i := range 2 {
		_, c := submit(t, l, greedyRequest(slices.Concat(prompt, []int32{int32(i)}), 2))
		cs = append(cs, c)
	}
	var ended []*job
	work := l.plan(l.now(), &ended)
	undo(l.items)
	if !work || len(l.batch) != 2 {
		t.Fatalf("%v, %d requests are planned, want both, %+v", work, len(l.batch), l.Status())
	}
	a, b := l.batch[0], l.batch[1]
	b.seq.table.Free()
	b.seq = a.seq.Fork() // each would have to copy the block that both write to
	rest := l.e.kv.NewTable()
	if err := rest.Grow(int(l.e.kv.Available()) / l.e.kv.Layout()[0].Bytes * kvcache.BlockTokens); err != nil {
		t.Fatal(err)
	}
	work = l.plan(l.now(), &ended)
	undo(l.items)
	if work || len(l.batch) != 0 {
		t.Errorf("%d requests are planned, want both to make room", len(l.batch))
	}
	checkPass(t, l)
	rest.Free()
	again()
	for i, c := range cs {
		if r := c.wait(t); r.Err != nil || r.Preempted != 1 {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	checkBlocks(t, l)
}

// What requests take beside their KV blocks is bounded before they begin.
func TestRequestsAreReservedFor(t *testing.T) {
	b := testBudget()
	l := openLoop(t, tiny, Config{Sequences: 3, Ctx: 128, Device: deviceOf(t, DeviceConfig{Threads: 1, Budget: b})}, LoopConfig{})
	nVocab := l.e.model.Config.NVocab
	reserved := 0
	for purpose, bytes := range b.ByPurpose() {
		if purpose == "requests" {
			reserved = int(bytes)
		}
	}
	text := generate.Params{MaxTokens: -1, Sampling: sample.Defaults(), Draft: draft.Defaults}
	if least := 3 * (generate.Bytes(nVocab, len(l.e.logits)) + text.TextBytes(nVocab, 128)); reserved < least {
		t.Errorf("%d bytes are reserved, want at least %d", reserved, least)
	}
	if got := generate.TokenBytes(5) - generate.TokenBytes(-1); got != 5*8 {
		t.Errorf("5 alternatives take %d bytes", got)
	}
	many := greedyRequest([]int32{1}, 1)
	many.TopLogprobs = generate.MaxTopLogprobs + 1
	if _, err := l.Submit(many); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("1001 alternatives: %v", err)
	}
	// Those that wait share the slice of their prompt.
	prompt := randomIDs(l.e, 1, 100)
	g, err := generate.New(likeliest(prompt, 5), generate.Config{Vocab: nVocab, Ctx: 128, MaxRows: maxOut})
	if err != nil || &g.Known()[0] != &prompt[0] {
		t.Errorf("a request that waits has a copy of its prompt, %v", err)
	}
	l.Close()
	if _, ok := b.ByPurpose()["requests"]; ok && b.ByPurpose()["requests"] != 0 {
		t.Error("the reservation is still there")
	}
}
