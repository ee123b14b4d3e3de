package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sched"
)

// What the scheduler is told of a request: how long its text may become, in a context that is shifted or not. What fits
// in no context is refused, except a whole one that is only read.
func TestWhatTheSchedulerIsTold(t *testing.T) {
	plain, shifted := byHand(t, tiny, Config{Ctx: 64}), byHand(t, tiny, Config{Ctx: 64, Shift: true})
	for _, c := range []struct {
		h         *handLoop
		n, most   int
		reads     bool
		maxTokens int // -1: refused
		limit     int
	}{
		{plain, 10, 5, false, 5, 0}, {plain, 10, -1, false, 54, 0}, {plain, 10, 54, false, 54, 0}, {plain, 10, 55, false, 54, 0}, {plain, 63, 5, false, 1, 0},
		{plain, 63, 0, false, 0, 0}, {plain, 64, 5, false, -1, 0}, {plain, 64, 0, false, -1, 0}, {plain, 65, 5, false, -1, 0}, {plain, 64, 0, true, 0, 0},
		{plain, 64, 1, true, -1, 0}, {plain, 65, 0, true, -1, 0}, {plain, 63, 1, true, 1, 0},
		{shifted, 10, 5, false, 5, 63}, {shifted, 10, -1, false, math.MaxInt32, 63}, {shifted, 62, 99, false, 99, 63}, {shifted, 63, 5, false, -1, 0},
		{shifted, 63, 1, true, 1, 0}, {shifted, 64, 0, true, 0, 0},
	} {
		r := greedyRequest(randomIDs(c.h.e, 1, c.n), c.most)
		r.Flow, r.Weight, r.Priority, r.Namespace = "a flow", 2, 3, "a key"
		if c.reads {
			r.Reader = &rangeReader{from: 0, to: c.n}
		}
		j, s, err := c.h.prepareJob(r)
		var long *TooLongError
		switch {
		case c.maxTokens < 0:
			if !errors.As(err, &long) || long.Prompt != c.n || long.Ctx != 64 || long.Least {
				t.Errorf("%d tokens and %d, read %v: %v", c.n, c.most, c.reads, err)
			}
		case err != nil || !reflect.DeepEqual(s, sched.Request{Flow: "a flow", Weight: 2, Priority: 3, Prompt: c.n, MaxTokens: c.maxTokens, Most: c.limit}):
			t.Errorf("%d tokens and %d, read %v: %+v, %v", c.n, c.most, c.reads, s, err)
		case j.slot != -1 || j.usage != (Usage{PromptTokens: c.n, Slot: -1}) || j.progress != (Progress{Total: c.n}) || j.namespace != "a key" ||
			(j.reading != nil) != c.reads || time.Since(j.submitted) > time.Minute:
			t.Errorf("%d tokens and %d: %+v", c.n, c.most, j)
		}
	}
}

// Requests are refused while a loop drains or sleeps, and where their time is over; the scheduler is told the others'
// deadlines. Numbers ascend.
func TestWhatIsQueued(t *testing.T) {
	h := byHand(t, tiny, Config{Ctx: 256, Sequences: 2})
	for what, c := range map[string]struct {
		flag *bool
		want error
	}{"drains": {&h.draining, ErrClosing}, "sleeps": {&h.asleep, ErrAsleep}} {
		*c.flag = true
		if _, err := h.Submit(greedyRequest([]int32{1}, 1)); !errors.Is(err, c.want) {
			t.Errorf("while it %s: %v", what, err)
		}
		*c.flag = false
	}
	for d, ok := range map[time.Duration]bool{-time.Second: false, 0: false, time.Hour: true} {
		r := greedyRequest([]int32{1}, 1)
		r.Deadline = time.Now().Add(d)
		j, s, err := h.prepareJob(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.accepts(j, &s); (err == nil) != ok || !ok && !errors.Is(err, ErrDeadline) || s.Deadline != r.Deadline.Sub(h.begun) {
			t.Errorf("a deadline in %v: %v, the scheduler is told %v", d, err, s.Deadline)
		}
	}
	// Those that begin alike wait for the first, whose prompt is cut there.
	shared := randomIDs(h.e, 3, 140)
	for i, c := range []struct {
		prompt []int32
		leader int // index of the request
		length int
	}{
		{slices.Concat(shared, randomIDs(h.e, 4, 30)), -1, 0}, {slices.Concat(shared, randomIDs(h.e, 5, 30)), 0, 128},
		{slices.Concat(shared, randomIDs(h.e, 6, 30)), 0, 128}, {slices.Concat(shared[:70], randomIDs(h.e, 7, 30)), 0, 64},
		{randomIDs(h.e, 8, 100), -1, 0}, {shared[:60], -1, 0},
	} {
		r := greedyRequest(c.prompt, 2)
		j, _, err := h.prepareJob(r)
		if err != nil {
			t.Fatal(err)
		}
		j.marks = h.leaders.marks(j.namespace, j.Prompt)
		if id, n := h.leader(j); id != uint64(c.leader+1) || n != c.length {
			t.Errorf("request %d waits for %d with %d tokens, want %d, %d", i, id, n, c.leader+1, c.length)
		}
		alone := *r
		alone.NoCache = true
		j.Request = &alone
		if id, n := h.leader(j); id != 0 || n != 0 {
			t.Errorf("request %d without the cache waits for %d with %d tokens", i, id, n)
		}
		if k, _ := submit(t, h.Loop, r); k.ID() != uint64(i+1) {
			t.Errorf("request %d has number %d", i, k.ID())
		}
	}
	if got := h.jobs[1].cuts; !slices.Equal(got, cuts{128, 64}) {
		t.Errorf("the first prompt is cut at %v", got)
	}
	h.run()
}

// However much memory is lost while a model is opened, it is opened, or refused by its name and gives all back. What it takes
// when it is open is no more than there is.
func TestOpeningWithLessMemory(t *testing.T) {
	t.Parallel()
	opened, refused := 0, 0
	for _, r := range []model.Residency{model.Packed, model.Streamed, model.Mapped} {
		c := Config{Ctx: 128, Sequences: 2, Shared: true, Shift: true, Residency: r}
		budget := mem.NewBudget(1<<30, "a test")
		c.Device = deviceOf(t, DeviceConfig{Threads: 1, Budget: budget})
		most := uint64(0)
		try := func(what string, limit uint64, progress func(done, total uint64)) {
			budget.SetLimit(limit, "a test")
			c.Progress = progress
			e, err := Open(tiny, c)
			if err != nil {
				refused++
				if !strings.HasPrefix(err.Error(), tiny+": ") && !strings.HasPrefix(err.Error(), filepath.Base(tiny)+": ") {
					t.Errorf("%v, %s: %v", r, what, err)
				}
			} else {
				opened++
				most = max(most, budget.Used())
				if progress == nil && budget.Over() > 0 || budget.Used() != e.taken.Load()+e.kv.Reserved() {
					t.Errorf("%v, %s: %d bytes are taken, it says %d and %d", r, what, budget.Used(), e.taken.Load(), e.kv.Reserved())
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}
			if budget.Used() != 0 || len(c.Device.engines) != 0 {
				t.Fatalf("%v, %s: %d bytes are taken in the end: %v", r, what, budget.Used(), budget.ByPurpose())
			}
		}
		try("with all memory", 1<<30, nil)
		all := most
		for part := range uint64(16) {
			n := all * part / 12
			try("with less", n, nil)
			try("that loses it", 1<<30, func(uint64, uint64) { budget.SetLimit(n, "a test") })
		}
	}
	if opened < 10 || refused < 30 {
		t.Errorf("%d times it was opened, %d times refused", opened, refused)
	}
}

// An answer that begins with a token that the model does not have is refused.
func TestBeginningOfAnswers(t *testing.T) {
	raw, err := os.ReadFile(testdata.Path(t, "archs/t5.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	vocab := open(t, testdata.Path(t, "archs/t5.gguf"), Config{}).model.Config.NVocab
	const key = "t5.decoder_start_token_id"
	at := bytes.Index(raw, []byte(key))
	if at < 0 {
		t.Fatalf("the model has no %s", key)
	}
	for id, ok := range map[int]bool{vocab - 1: true, vocab: false} {
		binary.LittleEndian.PutUint32(raw[at+len(key)+4:], uint32(id))
		path := filepath.Join(t.TempDir(), "t5.gguf")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := Open(path, Config{Device: device(t, 1)})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "answers begin with token") {
			t.Errorf("token %d of %d: %v", id, vocab, err)
		}
		if err == nil {
			e.Close()
		}
	}
}
