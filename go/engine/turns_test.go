package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/sched"
)

// A handLoop is a loop that a test runs turn by turn, and looks at after each.
type handLoop struct {
	*Loop
	t      *testing.T
	passes []PassInfo
	onPass func(n int) // called with the number of each
}

func byHand(t *testing.T, path string, c Config) *handLoop {
	t.Helper()
	c.Shared = true
	e := open(t, path, c)
	e.timeless = true
	h := &handLoop{t: t}
	h.Loop = newLoop(e, LoopConfig{OnPass: func(p PassInfo) {
		h.passes = append(h.passes, p)
		if h.onPass != nil {
			h.onPass(len(h.passes))
		}
	}}, sched.Config{Running: e.seqs, Memory: e.kv.Layout(), Queue: 100})
	h.heldBytes = uint64(h.slotBytes() * e.seqs)
	var err error
	if h.held, err = e.device.budget.Reserve(requestsPurpose, h.heldBytes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, j := range h.jobs {
			h.end(j, ErrClosing)
		}
		h.run()
		h.held.Release()
	})
	return h
}

// turn runs a turn, and says whether the loop, its scheduler, slots and memory tell the same.
func (h *handLoop) turn() {
	h.t.Helper()
	defer h.e.device.enter()()
	h.Loop.turn()
	held, running := h.heldBytes, 0
	for id, j := range h.jobs {
		held += j.room
		if j.inPass != 0 {
			h.t.Errorf("request %d has %d tokens in a pass that is over", id, j.inPass)
		}
		if j.seq == nil {
			if j.slot != -1 {
				h.t.Errorf("request %d waits in slot %d", id, j.slot)
			}
			continue
		}
		running++
		if s := h.sched.Shape([]sched.Item{{ID: id, Tokens: 1}}); j.late == nil && s.Read != j.seq.Len()+1 {
			h.t.Errorf("request %d has %d positions, and the scheduler takes it for %d", id, j.seq.Len(), s.Read-1)
		}
		if h.slots[j.slot].job != j || j.progress.Slot != j.slot ||
			slices.Contains(h.batch, j) && j.gen.Dropped() == 0 && j.progress.Done != min(j.seq.Len(), j.progress.Total) {
			h.t.Errorf("request %d has %d positions in slot %d, its progress is %+v", id, j.seq.Len(), j.slot, j.progress)
		}
		if j.NoCache && h.tree.Len(j.namespace, j.seq.ids) > 0 {
			h.t.Errorf("request %d uses no cache, which has %d of its tokens", id, h.tree.Len(j.namespace, j.seq.ids))
		}
	}
	for i, s := range h.slots {
		if s.job != nil && (s.job.slot != i || s.job.seq == nil) {
			h.t.Errorf("slot %d has a request that is in slot %d", i, s.job.slot)
		}
	}
	if h.held.Bytes() != held {
		h.t.Errorf("requests have reserved %d bytes, want %d", h.held.Bytes(), held)
	}
	if n := int(h.pulse.work.Load()); n != len(h.jobs) {
		h.t.Errorf("the pulse is of %d requests, there are %d", n, len(h.jobs))
	}
	if running == 0 && len(h.jobs) == 0 {
		checkBlocks(h.t, h.Loop)
	}
}

// run runs turns until there are no requests.
func (h *handLoop) run() {
	h.t.Helper()
	for n := 0; len(h.jobs) > 0; n++ {
		if h.turn(); n > 5000 {
			h.t.Fatal("requests do not end")
		}
	}
}

// What a request is told, pass by pass, and what is counted: its prompt in slices as large as the batch, of which cached
// tokens are no part; then a token in each pass.
func TestPassesOfARequest(t *testing.T) {
	h := byHand(t, tiny, Config{Ctx: 128, Batch: 8, Sequences: 2})
	prompt := randomIDs(h.e, 3, 20)
	for round, c := range []struct {
		progress []Progress
		passes   []PassInfo
		cached   int
	}{
		{
			[]Progress{{Total: 20}, {20, 0, 8, 0}, {20, 0, 16, 0}, {20, 0, 20, 0}},
			[]PassInfo{{PromptTokens: 8}, {PromptTokens: 8}, {PromptTokens: 4}, {DecodeTokens: 1}, {DecodeTokens: 1}, {DecodeTokens: 1}}, 0,
		},
		{
			[]Progress{{20, 19, 19, 0}, {20, 19, 20, 0}},
			[]PassInfo{{PromptTokens: 1}, {DecodeTokens: 1}, {DecodeTokens: 1}, {DecodeTokens: 1}}, 19,
		},
	} {
		h.passes = nil
		was := h.Status().Counts
		_, sink := submit(t, h.Loop, greedyRequest(prompt, 4))
		if s := h.Status(); s.Queued != 1 || s.Parked != 0 || s.Slots[0].Busy || s.Slots[1].Busy {
			t.Errorf("round %d: a request that has not begun: %+v", round, s)
		}
		h.turn()
		if s := h.Status(); s.Queued != 0 || !s.Slots[0].Busy || s.Slots[1].Busy || s.Slots[0].Request != uint64(round+1) ||
			s.Slots[0].Prompt != 20 || s.Slots[0].Cached != c.cached || s.Slots[0].MaxTokens != 4 {
			t.Errorf("round %d: a request that has begun: %+v", round, s)
		}
		h.run()
		r := sink.wait(t)
		if !slices.Equal(sink.prog, c.progress) {
			t.Errorf("round %d: it is told %+v, want %+v", round, sink.prog, c.progress)
		}
		for i, p := range h.passes {
			if p.Took <= 0 || p.Sequences != 1 {
				t.Errorf("round %d: pass %d: %+v", round, i, p)
			}
			h.passes[i].Took, h.passes[i].Sequences = 0, 0
		}
		if !slices.Equal(h.passes, c.passes) {
			t.Errorf("round %d: passes %+v, want %+v", round, h.passes, c.passes)
		}
		if r.Passes != 3 || r.Generated != 4 || r.CachedTokens != c.cached || r.PromptTokens != 20 || r.Slot != 0 || r.Queued <= 0 ||
			r.Prefill <= 0 || r.Decode <= 0 || r.Preempted+r.Shifts != 0 || r.Finish != generate.MaxedOut {
			t.Errorf("round %d: %+v", round, r)
		}
		n := h.Status().Counts
		if n.Passes-was.Passes != uint64(len(c.passes)) || n.SlotPasses-was.SlotPasses != uint64(len(c.passes)) || n.GeneratedTokens-was.GeneratedTokens != 4 ||
			n.CachedTokens-was.CachedTokens != uint64(c.cached) || n.PromptTokens-was.PromptTokens != uint64(20-c.cached) ||
			n.Cancellations+n.Preemptions+n.Drafts+n.RejectedRequests != 0 {
			t.Errorf("round %d: %+v", round, n)
		}
		if s := h.Status().Slots[0]; s.Busy || s.Evaluated != 20 || s.Generated != 4 || s.Request != uint64(round+1) {
			t.Errorf("round %d: afterwards %+v", round, s)
		}
	}
}

// Requests say the same in any company, and the scheduler, the slots and the memory agree with them after each turn: where
// contexts are shifted, blocks age, drafts are right and wrong, memory is short, and the cache is not used.
func TestTurnsAgree(t *testing.T) {
	probe := open(t, tiny, Config{Ctx: 256})
	block := uint64(probe.kv.Layout()[0].Bytes)
	for name, c := range map[string]Config{
		"plain": {Ctx: 256, Batch: 24, Sequences: 3}, "short memory": {Ctx: 128, Batch: 24, Sequences: 3, KVBytes: 5 * block},
		"shifted": {Ctx: 100, Batch: 24, Sequences: 3, Shift: true}, "shifted, short memory": {Ctx: 100, Batch: 24, Sequences: 3, Shift: true, KVBytes: 5 * block},
		"in tiers": {Ctx: 256, Batch: 24, Sequences: 3, Tiers: tiersOf(t, "64:i16,*:q8_0")},
	} {
		h := byHand(t, tiny, c)
		alone := open(t, tiny, Config{Ctx: c.Ctx, Shift: c.Shift, Tiers: c.Tiers})
		var sinks []*catcher
		var want [][]int32
		for i := range 8 {
			r := greedyRequest(randomIDs(probe, uint64(i%3), 40+i), 50)
			if i == 3 {
				r = greedyRequest(randomIDs(probe, 9, 50), 50)
			}
			if r.Priority = i / 4; i == 4 { // more urgent ones come when all slots are taken
				for range 9 {
					h.turn()
				}
			}
			if c.Shift {
				r.MaxTokens = 90
			}
			said, _ := shiftAlone(t, alone, r.Params)
			r.NoCache = i == 3
			r.Namespace = []string{"", "a key"}[i/7]
			if i%2 > 0 {
				r.Draft = draft.Options{Sources: draft.All, Max: 8, Record: &draft.Recording{Text: slices.Concat(r.Prompt, said), Right: 0.7, Rival: 0.5, Seed: 3}}
			}
			_, sink := submit(t, h.Loop, r)
			sinks, want = append(sinks, sink), append(want, said)
		}
		h.run()
		shifts, preempted, passes := 0, 0, 0
		for i, sink := range sinks {
			r := sink.wait(t)
			if !slices.Equal(sink.ids, want[i]) || r.Err != nil {
				t.Errorf("%s, request %d: %v, %v, alone %v", name, i, r.Err, sink.ids, want[i])
			}
			shifts, preempted, passes = shifts+r.Shifts, preempted+r.Preempted, passes+r.Passes
		}
		n := h.Status().Counts
		if shifts > 0 != c.Shift || preempted == 0 || n.Preemptions != uint64(preempted) || n.Drafts == 0 {
			t.Errorf("%s: %d shifts, %d preemptions, %+v", name, shifts, preempted, n)
		}
		prompt, streams, sequences := 0, 0, 0
		for _, p := range h.passes {
			prompt, streams, sequences = prompt+p.PromptTokens, streams+p.DecodeTokens, sequences+p.Sequences
			if p.PromptTokens+p.DecodeTokens < p.Sequences {
				t.Errorf("%s: a pass %+v", name, p)
			}
		}
		if n.PromptTokens != uint64(prompt) || n.SlotPasses != uint64(sequences) || n.Passes != uint64(len(h.passes)) || passes > sequences {
			t.Errorf("%s: %d passes with %d tokens of prompts and %d others are counted as %+v, of requests %d", name, len(h.passes), prompt,
				streams, n, passes)
		}
	}
}

// What ends while a pass runs gets none of its tokens; others go on. A pass that is stopped leaves all as it was.
func TestEndsDuringAPass(t *testing.T) {
	h := byHand(t, tiny, Config{Ctx: 128, Batch: 32, Sequences: 3})
	prompts := [][]int32{randomIDs(h.e, 1, 20), randomIDs(h.e, 2, 21), randomIDs(h.e, 3, 22)}
	var tickets []*Ticket
	var sinks []*catcher
	for _, p := range prompts {
		k, sink := submit(t, h.Loop, greedyRequest(p, 9))
		tickets, sinks = append(tickets, k), append(sinks, sink)
	}
	for len(sinks[2].ids) < 3 {
		h.turn()
	}
	had := len(sinks[1].ids)
	passes := len(h.passes)
	h.onPass = func(n int) {
		if n == passes+1 {
			tickets[1].Cancel()
		}
	}
	h.turn()
	h.turn()
	if r := sinks[1].wait(t); !errors.Is(r.Err, context.Canceled) || len(sinks[1].ids) != had || r.Generated != had || r.Finish != "" {
		t.Errorf("cancelled in a pass: %+v, %d tokens, %d before", r, len(sinks[1].ids), had)
	}
	if n := h.Status().Counts.Cancellations; n != 1 {
		t.Errorf("%d cancellations are counted", n)
	}
	// A pass that is stopped.
	var ended []*job
	h.mu.Lock()
	if !h.plan(h.now(), &ended) || len(h.batch) != 2 || h.passTokens != 2 {
		t.Fatalf("%d requests, %d tokens are planned", len(h.batch), h.passTokens)
	}
	was := []int{h.batch[0].seq.Len(), h.batch[1].seq.Len()}
	h.mu.Unlock()
	h.stop.Set()
	passes = len(h.passes)
	leave := h.e.device.enter()
	h.pass()
	leave()
	if len(h.passes) != passes || h.batch[0].seq.Len() != was[0] || h.batch[1].seq.Len() != was[1] || h.batch[0].inPass+h.batch[1].inPass != 0 {
		t.Errorf("a pass that is stopped: %d are told of; %d and %d positions, before %v", len(h.passes)-passes, h.batch[0].seq.Len(),
			h.batch[1].seq.Len(), was)
	}
	h.run()
	probe := open(t, tiny, Config{Ctx: 128})
	for _, i := range []int{0, 2} {
		if want := greedy(t, probe, prompts[i], 9); !slices.Equal(sinks[i].ids, want) {
			t.Errorf("request %d after a pass that was stopped: %v, want %v", i, sinks[i].ids, want)
		}
	}
	// One whose time is over before it has begun is never evaluated; one that a closing loop ends is no cancellation.
	late := greedyRequest(prompts[0], 5)
	late.Deadline = time.Now().Add(time.Hour)
	_, sink := submit(t, h.Loop, late)
	h.begun = h.begun.Add(-2 * time.Hour)
	h.turn()
	if r := sink.wait(t); !errors.Is(r.Err, ErrDeadline) || r.Slot != -1 || r.PromptTokens != 20 || len(sink.prog) != 0 {
		t.Errorf("late: %+v", r)
	}
	k, sink := submit(t, h.Loop, greedyRequest(prompts[0], 5))
	h.turn()
	h.end(k.j, ErrClosing)
	k.Cancel() // it has ended
	h.run()
	if r := sink.wait(t); !errors.Is(r.Err, ErrClosing) || h.Status().Counts.Cancellations != 1 {
		t.Errorf("closing: %+v, %+v", r, h.Status().Counts)
	}
}

// What a request need not evaluate: what is cached of its prompt but the last token, or its parked sequence; nothing without
// the cache, or with a sequence of the caller's.
func TestPrefixOfARequest(t *testing.T) {
	h := byHand(t, tiny, Config{Ctx: 256, Sequences: 2})
	ids := randomIDs(h.e, 3, 100)
	keep(t, h.Loop, ids)
	request := func(n int) *job {
		r := greedyRequest(ids[:n], 5)
		j, _, err := h.prepareJob(r)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := request(100)
	if p := h.prefix(j); p.Tokens != 99 || p.Held != 0 {
		t.Errorf("of a text that is cached: %+v", p)
	}
	table := h.tree.Find("", ids) // another runs with it
	if p, block := h.prefix(j), uint64(h.e.kv.Layout()[0].Bytes); p.Tokens != 99 || p.Held != 2*block {
		t.Errorf("of a text that another has too: %+v, a block is %d bytes", p, block)
	}
	table.Free()
	j.parked = &Sequence{}
	if p := h.prefix(j); p.Tokens != 99 {
		t.Errorf("of a parked text of nothing: %+v", p)
	}
	j.parked.ids = ids[:7]
	if p := h.prefix(j); p != (sched.Prefix{Tokens: 7}) {
		t.Errorf("of a parked text: %+v", p)
	}
	j.parked = nil
	j.Request.NoCache = true
	if p := h.prefix(j); p != (sched.Prefix{}) {
		t.Errorf("without the cache: %+v", p)
	}
	j.Request.NoCache = false
	h.given = &Sequence{}
	if p := h.prefix(j); p != (sched.Prefix{}) {
		t.Errorf("with a caller's sequence: %+v", p)
	}
	h.given = nil
	j.Request.Namespace, j.namespace = "a key", "a key"
	if p := h.prefix(j); p != (sched.Prefix{}) {
		t.Errorf("in another namespace: %+v", p)
	}
}

// The cache of a preempted request is evicted last, until it goes on, or is removed.
func TestCacheOfThePreempted(t *testing.T) {
	for _, removed := range []bool{false, true} {
		h := byHand(t, tiny, Config{Ctx: 256, Sequences: 2, KVBytes: 8 * uint64(open(t, tiny, Config{Ctx: 64}).kv.Layout()[0].Bytes)})
		prompt := randomIDs(h.e, 3, 128)
		k, _ := submit(t, h.Loop, greedyRequest(prompt, 50))
		for k.j.first.IsZero() {
			h.turn()
		}
		h.mu.Lock()
		h.lacks(k.j, kvcache.ErrFull)
		h.mu.Unlock()
		if s := h.Status(); s.Queued != 1 || s.Parked != 1 || k.j.usage.Preempted != 1 || s.Slots[0].Busy || k.j.seq != nil {
			t.Errorf("preempted: %+v", s)
		}
		h.lacks(k.j, nil)
		if h.yield(k.j); k.j.usage.Preempted != 1 || h.counts.Preemptions != 1 {
			t.Errorf("one that waits is preempted again: %+v", h.counts)
		}
		other := randomIDs(h.e, 4, 128)
		keep(t, h.Loop, other)
		if removed {
			k.Cancel()
			h.turn()
		}
		table := h.e.kv.NewTable()
		if err := table.Grow(6 * kvcache.BlockTokens); err != nil {
			t.Fatal(err)
		}
		if mine, others := h.tree.Len("", prompt), h.tree.Len("", other); removed && mine == 128 || !removed && (mine < 128 || others == 128) {
			t.Errorf("removed %v: %d tokens of the preempted are left, %d of another's", removed, mine, others)
		}
		table.Free()
		h.run()
	}
}

// Requests that could never run in what the pool has are ended when it grows; the others wait.
func TestTooLargeForThePool(t *testing.T) {
	h := byHand(t, tiny, Config{Ctx: 256, Sequences: 2, KVBytes: 12 * uint64(open(t, tiny, Config{Ctx: 64}).kv.Layout()[0].Bytes)})
	kv := h.e.kv
	small, large := greedyRequest(randomIDs(h.e, 3, 60), 4), greedyRequest(randomIDs(h.e, 4, 100), 40)
	endless, ended := greedyRequest(randomIDs(h.e, 5, 60), -1), greedyRequest(randomIDs(h.e, 6, 200), 50)
	for _, r := range []*Request{small, large, endless, ended} {
		submit(t, h.Loop, r)
	}
	of := func(r *Request) *job {
		for _, j := range h.jobs {
			if j.Request == r {
				return j
			}
		}
		return nil
	}
	of(ended).end(context.Canceled)
	for _, c := range []struct {
		blocks       uint64
		large, whole bool // end
	}{{5, false, false}, {4, false, true}, {2, true, true}} {
		of(large).ended, of(endless).ended = nil, nil
		has := c.blocks * uint64(kv.Layout()[0].Bytes)
		if err := kv.Resize(has); err != nil {
			t.Fatal(err)
		}
		h.e.device.budget.SetLimit(h.e.device.budget.Used(), "a test")
		h.regrow(0, 0)
		h.e.device.budget.SetLimit(1<<30, "a test")
		for what, w := range map[string]struct {
			j    *job
			ends bool
			need uint64
		}{"small": {of(small), false, 0}, "large": {of(large), c.large, least(kv.Layout(), 140)}, "endless": {of(endless), c.whole, least(kv.Layout(), 256)}} {
			var short *MemoryError
			if (w.j.ended != nil) != w.ends || w.ends && (!errors.As(w.j.ended, &short) || short.Need != w.need || short.Have != has || short.What == "" || short.RetryAfter != RetryPressure) {
				t.Errorf("with %d blocks, %s: %v", c.blocks, what, w.j.ended)
			}
		}
		if !errors.Is(of(ended).ended, context.Canceled) {
			t.Errorf("what has ended ends again: %v", of(ended).ended)
		}
	}
	if err := kv.Resize(kv.Most()); err != nil {
		t.Fatal(err)
	}
}

// Where a prompt ends its state is kept for others, before the answer: recurrent state too; of a
// caller's sequence only what cannot be rolled back.
func TestStateAtTheEndOfAPrompt(t *testing.T) {
	for _, path := range []string{tiny, testdata.Path(t, "archs/qwen35.gguf")} {
		for _, noCache := range []bool{false, true} {
			h := byHand(t, path, Config{Ctx: 256, Batch: 32, Sequences: 2})
			r := greedyRequest(randomIDs(h.e, 3, 128), 9)
			r.NoCache = noCache
			k, _ := submit(t, h.Loop, r)
			for k.j.first.IsZero() {
				h.turn()
			}
			want := map[bool]int{false: 128}[noCache]
			if n := h.tree.Len("", r.Prompt); n != want {
				t.Errorf("%s, without the cache %v: %d tokens of the prompt are kept, want %d", path, noCache, n, want)
			}
			h.given = k.j.seq
			if got := h.shares(k.j); got != h.e.kv.Layout().Forgets() {
				t.Errorf("%s: a caller's sequence is kept: %v", path, got)
			}
			h.given = nil
			h.run()
		}
	}
}
