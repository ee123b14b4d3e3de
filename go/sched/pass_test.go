package sched

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// begin adds requests and has them admitted, with all memory there is.
func begin(t *testing.T, s *Scheduler, requests ...Request) {
	t.Helper()
	for _, r := range requests {
		if _, err := s.Add(r, 0); err != nil {
			t.Fatal(err)
		}
	}
	if a := s.Admit(0, 1<<30, func(uint64) Prefix { return Prefix{} }); len(a.Admitted) != len(requests) {
		t.Fatalf("%v are admitted", a.Admitted)
	}
}

// The tokens of an item are those of its trunk, and of each branch with the known ones again.
func TestItemsOfBranches(t *testing.T) {
	it := Item{Tokens: 5, Draft: 2, Branches: []Branch{{Path: []int{0, 1, 3}, New: 1}, {}}}
	if it.known() != 3 || it.All() != 5+(3+3)+(3+0) {
		t.Errorf("%d known tokens, %d in all", it.known(), it.All())
	}
}

// A sequence is generating where its prompt is evaluated and a few tokens are left, up to 32.
func TestDecoding(t *testing.T) {
	for _, c := range []struct {
		known, done int
		want        bool
	}{{100, 99, false}, {101, 100, true}, {101, 101, false}, {132, 100, true}, {133, 100, false}, {132, 99, false}, {140, 108, true}} {
		j := job{Request: Request{Prompt: 100}, known: c.known, done: c.done}
		if j.decoding() != c.want {
			t.Errorf("%d tokens of a prompt of 100, %d evaluated: generating %v", c.known, c.done, j.decoding())
		}
	}
}

// Memory is kept for a reply as long as it may be, or 256 tokens or what was generated if that is unknown, and for no more
// positions than a sequence may have.
func TestOutlook(t *testing.T) {
	for _, c := range []struct{ max, known, most, want int }{
		{10, 100, 0, 110}, {10_000, 100, 0, 356}, {256, 100, 0, 356}, {10_000, 400, 0, 400}, {10_000, 356, 0, 356}, {300, 399, 0, 399}, {300, 400, 0, 400},
		{10, 100, 105, 105}, {10, 100, 110, 110}, {10, 100, 200, 110}, {10_000, 100, 50, 50}, {10_000, 100, 1, 1},
	} {
		j := job{Request: Request{Prompt: 100, MaxTokens: c.max, Most: c.most}, known: c.known}
		if got := j.outlook(); got != c.want {
			t.Errorf("%+v: memory for %d positions", c, got)
		}
	}
}

// A request is admitted where what it needs beside what others hold is free and not promised; the first, wherever there is
// nothing to wait for.
func TestAdmissionByBytes(t *testing.T) {
	for _, c := range []struct {
		free, held uint64
		want       int // of three
	}{
		// The first takes 2 bytes that are promised. The second has 7 blocks, of which 4 are cached: held by others, they
		// are not taken; otherwise they are, and can no longer be evicted. Then 4 are promised. The third takes 2.
		{4, 4, 1}, {5, 4, 2}, {7, 4, 2}, {8, 4, 3}, {8, 0, 1}, {9, 0, 2}, {11, 0, 2}, {12, 0, 3}, {0, 0, 1},
	} {
		s := New(Config{Running: 4, Batch: 512, Queue: 10, Memory: simMemory{}})
		for i, prompt := range []int{1, 6 * blockTokens, blockTokens} {
			if _, err := s.Add(Request{ID: uint64(i + 1), Prompt: prompt, MaxTokens: 1, Priority: -i}, 0); err != nil {
				t.Fatal(err)
			}
		}
		a := s.Admit(0, c.free, func(id uint64) Prefix {
			if id == 2 {
				return Prefix{Tokens: 4 * blockTokens, Held: c.held}
			}
			return Prefix{}
		})
		if len(a.Admitted) != c.want {
			t.Errorf("%d bytes are free, %d of the prefix are held: %v run, want %d", c.free, c.held, a.Admitted, c.want)
		}
	}
}

// Requests are preempted where the next tokens of all need more than is free, never where they need as much, and never the
// only one.
func TestPreemptionByBytes(t *testing.T) {
	for _, c := range []struct {
		free uint64
		want []uint64
	}{{3, nil}, {2, []uint64{3}}, {1, []uint64{3}}, {0, []uint64{3, 2}}} {
		s := New(Config{Running: 3, Batch: 512, Queue: 10, Memory: simMemory{}})
		begin(t, s, Request{ID: 1, Prompt: blockTokens, MaxTokens: 9}, Request{ID: 2, Prompt: blockTokens, MaxTokens: 9}, Request{ID: 3, Prompt: blockTokens, MaxTokens: 9})
		s.Ran(s.Next(0, 1<<30), 1)
		for id := uint64(1); id <= 3; id++ { // each is at the end of a block
			s.Sampled(id, 1, blockTokens)
		}
		if got := s.growth(); got != 3 {
			t.Fatalf("the next tokens take %d bytes", got)
		}
		s.cfg.Running = 0 // none is admitted again
		if a := s.Admit(0, c.free, func(uint64) Prefix { return Prefix{} }); !slices.Equal(a.Preempted, c.want) {
			t.Errorf("%d bytes are free: %v are preempted, want %v", c.free, a.Preempted, c.want)
		}
	}
}

// A preempted request begins anew: what it evaluated, lost and drafted is forgotten, and it waits.
func TestPreemptedBeginsAnew(t *testing.T) {
	s := New(Config{Running: 1, Batch: 512, Queue: 10, Memory: simMemory{}})
	begin(t, s, Request{ID: 1, Prompt: 300, MaxTokens: 9})
	s.Ran(s.Next(0, 1<<30), 1)
	s.Sampled(1, 1, 300)
	s.Shifted(1, 100)
	s.Drafted(1, chain(2, 1))
	if j := s.find(1); j.at() != 200 {
		t.Errorf("%d positions of 300 without 100", j.at())
	}
	if got := s.Shape([]Item{{ID: 1, Tokens: 1}}); got.Read != 201 {
		t.Errorf("the next token reads %d positions, want 201", got.Read)
	}
	s.Yield(1)
	j := s.waiting[0]
	if all, begun := s.Queued(); all != 1 || begun != 1 || j.done != 0 || j.gone != 0 || j.drafts != nil || j.todo() != 301 {
		t.Errorf("%d wait, %d of them begun: %+v", all, begun, j)
	}
	s.Shifted(1, 100) // it does not run: nothing to shift
	s.Yield(1)
	if j.gone != 0 || len(s.waiting) != 1 {
		t.Errorf("%+v", j)
	}
}

// A request whose prefix is being fetched waits until it is released, and so do those that wait for it; no other does.
func TestHeld(t *testing.T) {
	s := New(Config{Running: 4, Batch: 64, Queue: 10, Memory: simMemory{}})
	for _, r := range []Request{
		{ID: 1, Prompt: 300, MaxTokens: 1, Held: true}, {ID: 2, Prompt: 301, MaxTokens: 1, Leader: 1, Shared: 200}, {ID: 3, Prompt: 302, MaxTokens: 1, Held: true},
		{ID: 4, Prompt: 400, MaxTokens: 1},
	} {
		if _, err := s.Add(r, 0); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, ids ...uint64) {
		t.Helper()
		if a := s.Admit(0, 1<<30, func(uint64) Prefix { return Prefix{} }); !slices.Equal(a.Admitted, ids) {
			t.Errorf("%s: %v are admitted, want %v", what, a.Admitted, ids)
		}
	}
	want("two are held", 4)
	s.Release(9)
	want("another is released")
	s.Release(1)
	want("the leader is released", 1)
	want("the leader runs")
	for s.find(1).done < 200 {
		s.Ran(s.Next(0, 1<<30), 1)
	}
	want("the leader has the prefix", 2)
	s.Release(3)
	want("the last is released", 3)
}

// Of a prompt that is cached as a whole, the last token is evaluated.
func TestCachedPrompts(t *testing.T) {
	for cached, want := range map[int]int{0: 100, 64: 36, 99: 1, 100: 1, 128: 1} {
		s := New(Config{Running: 1, Batch: 512, Queue: 10, Memory: simMemory{}})
		if _, err := s.Add(Request{ID: 1, Prompt: 100, MaxTokens: 9}, 0); err != nil {
			t.Fatal(err)
		}
		s.Admit(0, 1<<30, func(uint64) Prefix { return Prefix{Tokens: cached} })
		if got := s.find(1).todo(); got != want {
			t.Errorf("%d of 100 tokens are cached: %d are evaluated, want %d", cached, got, want)
		}
		s.Found(1, cached, 0)
		if got := s.find(1).todo(); got != want {
			t.Errorf("%d of 100 tokens are found: %d are evaluated, want %d", cached, got, want)
		}
	}
}

// Beside other prompts on the threads, a prompt has its part of what all streams leave of the target.
func TestPartOfTheTarget(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		others Load
		want   time.Duration
	}{{Load{}, 120 * ms}, {Load{Streams: 20 * ms}, 120 * ms}, {Load{Target: 100 * ms, Streams: 20 * ms}, 60 * ms}, {Load{Target: 200 * ms, Streams: 20 * ms, Prompts: 1}, 60 * ms}, {Load{Target: 200 * ms, Streams: 20 * ms, Prompts: 3}, 40 * ms}, {Load{Target: 200 * ms, Streams: 500 * ms}, 20 * ms}} {
		if c.others.Target == 0 && c.others.Streams > 0 {
			c.want -= c.others.Streams
		}
		s := New(Config{Running: 2, Batch: 512, Queue: 10, Memory: simMemory{}, TargetITL: 150 * ms})
		s.Cost = learned(func(s Shape) time.Duration { return 19*ms + time.Duration(s.Tokens)*ms })
		begin(t, s, Request{ID: 1, Prompt: 10, MaxTokens: 5}, Request{ID: 2, Prompt: 1000, MaxTokens: 5})
		s.Ran([]Item{{ID: 1, Tokens: 10}}, 0)
		s.Sampled(1, 1, 10)
		s.Beside(c.others)
		items := s.Next(0, 1<<30)
		got := s.Cost.Estimate(s.Shape(items))
		if want := max(c.want, 20*ms+minPromptTokens*ms); len(items) != 2 || got > want || got < want-2*ms {
			t.Errorf("beside %+v: a pass of %v, want %v: %+v", c.others, got, want, items)
		}
	}
}

// A prompt takes the positions that there is memory for.
func TestRoomForAPrompt(t *testing.T) {
	for _, c := range []struct {
		free uint64
		want int
	}{{0, 0}, {1, 64}, {2, 128}, {3, 192}, {4, 200}, {5, 200}} {
		s := New(Config{Running: 1, Batch: 512, Queue: 10, Memory: simMemory{}})
		begin(t, s, Request{ID: 1, Prompt: 200, MaxTokens: 1})
		got := 0
		for _, it := range s.Next(0, c.free) {
			got += it.Tokens
		}
		if got != c.want {
			t.Errorf("%d blocks are free: %d tokens of 200, want %d", c.free, got, c.want)
		}
	}
}

// A prompt that memory cuts has all that is left: none that comes after it has a token in the pass, even where that needs no
// memory.
func TestNoneOvertakesACutPrompt(t *testing.T) {
	s := New(Config{Running: 2, Batch: 512, Queue: 10, Memory: simMemory{}})
	begin(t, s, Request{ID: 1, Prompt: 300, MaxTokens: 1, Priority: 1}, Request{ID: 2, Prompt: 60, MaxTokens: 1})
	s.Found(2, 10, 0) // its block has room
	if items := s.Next(0, 1); len(items) != 1 || items[0].ID != 1 || items[0].Tokens != 64 {
		t.Errorf("the pass is %+v", items)
	}
	if items := s.Next(0, 0); len(items) != 0 {
		t.Errorf("without memory the pass is %+v", items)
	}
}

// Whole prompts: the first always, whatever it takes, and others that fit beside it.
func TestWholePrompts(t *testing.T) {
	for _, c := range []struct {
		prompts []int
		want    []uint64
	}{{[]int{512}, []uint64{1}}, {[]int{513}, nil}, {[]int{1, 500}, []uint64{1}}, {[]int{1, 300}, []uint64{1, 2}}, {[]int{200, 250, 190}, []uint64{1, 3}}, {[]int{513, 100}, []uint64{2}}} {
		s := New(Config{Running: 4, Batch: 512, Queue: 10, Memory: simMemory{}, Whole: true})
		s.Cost = learned(func(s Shape) time.Duration { return time.Duration(s.Tokens) * time.Millisecond })
		for i, n := range c.prompts {
			if _, err := s.Add(Request{ID: uint64(i + 1), Prompt: n, MaxTokens: 1, Priority: -i}, 0); err != nil {
				t.Fatal(err)
			}
		}
		s.Admit(0, 1<<30, func(uint64) Prefix { return Prefix{} })
		var got []uint64
		for _, it := range s.Next(0, 1<<30) {
			if got = append(got, it.ID); it.Tokens != c.prompts[it.ID-1] {
				t.Errorf("%d tokens of %d", it.Tokens, c.prompts[it.ID-1])
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("prompts of %v tokens: %v are in a pass of 400 ms, want %v", c.prompts, got, c.want)
		}
	}
}

// A request that was removed while a pass ran, and others that are not there, are left out.
func TestGoneRequests(t *testing.T) {
	s := New(Config{Running: 2, Batch: 512, Queue: 10, Memory: simMemory{}})
	begin(t, s, Request{ID: 1, Prompt: 10, MaxTokens: 5}, Request{ID: 2, Prompt: 10, MaxTokens: 5})
	items := slices.Clone(s.Next(0, 1<<30))
	s.Remove(1)
	if got := s.Ran(items, 1); !slices.Equal(got, []uint64{2}) {
		t.Errorf("%v are complete, want 2", got)
	}
	if got := s.Shape(items); got.Tokens != 10 {
		t.Errorf("a pass of %d tokens", got.Tokens)
	}
	s.Sampled(1, 1, 10)
	s.Drafted(1, chain(1, 1))
	s.Found(1, 5, 0)
	s.Release(1)
	if l := s.Load(items[:1]); l != (Load{}) {
		t.Errorf("a request that is gone is a load of %+v", l)
	}
}

// What a pass is for others on the threads: its streams, those that begin with it, and whether prompts go on.
func TestLoads(t *testing.T) {
	s := New(Config{Running: 4, Batch: 512, Queue: 10, Memory: simMemory{}, TargetITL: time.Second})
	s.Cost = learned(func(s Shape) time.Duration { return time.Duration(s.Tokens) * time.Millisecond })
	begin(t, s, Request{ID: 1, Prompt: 10, MaxTokens: 5}, Request{ID: 2, Prompt: 100, MaxTokens: 5})
	s.Ran([]Item{{ID: 1, Tokens: 10}}, time.Millisecond)
	s.Sampled(1, 1, 10)
	one, two := s.Cost.Estimate(ShapeOf(10, 1)), s.Cost.Estimate(ShapeOf(10, 1).Add(0, 1))
	for _, c := range []struct {
		plan []Item
		want Load
	}{
		{nil, Load{}},
		{[]Item{{ID: 1, Tokens: 1}}, Load{time.Second, one, 0}},
		{[]Item{{ID: 1, Tokens: 4, Draft: 3}}, Load{time.Second, one, 0}},
		{[]Item{{ID: 2, Tokens: 99}}, Load{0, 0, 1}},
		{[]Item{{ID: 1, Tokens: 1}, {ID: 2, Tokens: 99}}, Load{time.Second, one, 1}},
		{[]Item{{ID: 1, Tokens: 1}, {ID: 2, Tokens: 100}}, Load{time.Second, two, 1}},
	} {
		if got := s.Load(c.plan); got != c.want {
			t.Errorf("%+v is a load of %+v, want %+v", c.plan, got, c.want)
		}
	}
	a, b := Load{3, 5, 1}, Load{2, 7, 0}
	for _, c := range []struct{ a, b, want Load }{{a, b, Load{2, 12, 1}}, {b, a, Load{2, 12, 1}}, {a, Load{}, a}, {Load{}, a, a}, {a, Load{0, 0, 2}, Load{3, 5, 3}}, {a, a, Load{3, 10, 2}}} {
		if got := c.a.Plus(c.b); got != c.want {
			t.Errorf("%+v and %+v are %+v, want %+v", c.a, c.b, got, c.want)
		}
	}
}

// The time of a prompt is that of its passes.
func TestPrefill(t *testing.T) {
	s := New(Config{Running: 1, Batch: 100, Queue: 1, Memory: simMemory{}})
	s.Cost = learned(func(s Shape) time.Duration { return 50*time.Millisecond + time.Duration(s.Tokens)*time.Millisecond })
	s.Cost.Set(time.Second, time.Second)
	sum := func(parts ...[2]int) (t time.Duration) {
		for _, p := range parts {
			t += s.Cost.Estimate(ShapeOf(p[0], p[1]))
		}
		return t
	}
	for _, c := range []struct {
		from, to int
		want     time.Duration
	}{{0, 0, 0}, {5, 5, 0}, {6, 5, 0}, {0, 1, sum([2]int{0, 1})}, {0, 100, sum([2]int{0, 100})}, {0, 101, sum([2]int{0, 100}, [2]int{100, 1})}, {30, 250, sum([2]int{30, 100}, [2]int{130, 100}, [2]int{230, 20})}} {
		if got := s.Prefill(c.from, c.to); got != c.want {
			t.Errorf("from %d to %d it takes %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

// A flow is charged for its tokens and its part of the pass, by its weight.
func TestFlowsAreCharged(t *testing.T) {
	s := New(Config{Running: 4, Batch: 512, Queue: 10, Memory: simMemory{}})
	s.Cost = learned(func(s Shape) time.Duration { return 60*time.Millisecond + time.Duration(s.Tokens)*time.Millisecond })
	begin(t, s, Request{ID: 1, Flow: "a", Prompt: 100, MaxTokens: 5, Weight: 0.5}, Request{ID: 2, Flow: "b", Prompt: 100, MaxTokens: 5, Weight: 4}, Request{ID: 3, Flow: "c", Prompt: 50, MaxTokens: 5})
	first, each := s.Cost.First(), s.Cost.Each()
	s.Ran([]Item{{ID: 1, Tokens: 100}, {ID: 2, Tokens: 100}, {ID: 3, Tokens: 50}}, 0)
	for flow, want := range map[string]time.Duration{"a": 2 * (first/3 + 100*each), "b": (first/3 + 100*each) / 4, "c": first/3 + 50*each} {
		if got := s.flows[flow].served; got < want-1 || got > want+1 {
			t.Errorf("flow %s was served for %v, want %v", flow, got, want)
		}
	}
}

// A request with a deadline is refused where it would not begin before it: it waits for what runs, for its own flow, and for
// each other flow as long as that has its share.
func TestDeadlinesThatCannotBeMet(t *testing.T) {
	fill := func() *Scheduler {
		s := New(Config{Running: 1, Batch: 512, Queue: 100, Memory: simMemory{}})
		s.Cost = learned(func(s Shape) time.Duration { return time.Duration(s.Tokens) * time.Millisecond })
		begin(t, s, Request{ID: 1, Flow: "runs", Prompt: 1000, MaxTokens: 100})
		for i, r := range []Request{{Flow: "a", Prompt: 3000, Weight: 1}, {Flow: "a", Prompt: 1000, Weight: 1}, {Flow: "b", Prompt: 50_000, Weight: 3}, {Flow: "c", Prompt: 100}} {
			r.ID, r.MaxTokens = uint64(i+2), 100
			if _, err := s.Add(r, 0); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	ms := time.Millisecond
	for _, c := range []struct {
		r    Request
		want time.Duration
	}{
		// Each has 100 ms for its reply. 1100 run; of flow a 4200 wait, of b 50,100, of c 200.
		{Request{Flow: "a", Weight: 1}, 1100*ms + 4200*ms + 3*(4200+1000)*ms + 200*ms},
		{Request{Flow: "a", Weight: 2}, 1100*ms + 4200*ms + 3*(2100+1000)*ms + 200*ms},
		{Request{Flow: "new"}, 1100*ms + 1000*ms + 3*1000*ms + 200*ms},
		{Request{Flow: "b", Weight: 3}, 1100*ms + 4200*ms + 50_100*ms + 200*ms},
	} {
		s := fill()
		got := s.wait(c.r)
		if got < c.want-ms || got > c.want+ms {
			t.Errorf("flow %s of weight %v would wait for %v, want %v", c.r.Flow, c.r.Weight, got, c.want)
		}
		c.r.ID, c.r.Prompt, c.r.MaxTokens = 9, 10, 10
		var busy *BusyError
		c.r.Deadline = time.Second + got - 1
		if _, err := s.Add(c.r, time.Second); !errors.As(err, &busy) {
			t.Errorf("flow %s: taken with a deadline that cannot be met: %v", c.r.Flow, err)
		}
		c.r.Deadline++
		if _, err := s.Add(c.r, time.Second); err != nil {
			t.Errorf("flow %s: %v", c.r.Flow, err)
		}
	}
}
