package engine

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sched"
)

// Eval shows the logits from a token on, wherever its slices end, and they are those of a pass over all.
func TestEvalShowsFrom(t *testing.T) {
	whole, sliced := open(t, tiny, Config{Ctx: 128, Batch: 128}), open(t, tiny, Config{Ctx: 128, Batch: 16})
	ids := randomIDs(whole, 3, 50)
	want := logits(t, whole, ids, nil)
	for _, before := range []int{0, 7} {
		for _, from := range []int{0, 1, 15, 16, 17, 31, 32, 42, 49, 50} {
			s := sliced.NewSequence()
			if err := sliced.Eval(t.Context(), s, ids[:before], 0, nil); err != nil {
				t.Fatal(err)
			}
			next := from
			err := sliced.Eval(t.Context(), s, ids[before:], from-before, func(i int, row []float32) error {
				if i+before != max(next, before) || !slices.Equal(row, want[i+before]) {
					t.Errorf("from %d after %d: token %d is shown, want %d, with its logits", from, before, i+before, next)
				}
				next = i + before + 1
				return nil
			})
			if err != nil || next != 50 || s.Len() != 50 {
				t.Errorf("from %d after %d: %v, up to token %d; %d are evaluated", from, before, err, next, s.Len())
			}
			s.Close()
		}
	}
	stop := errors.New("enough")
	s, shown := sliced.NewSequence(), 0
	defer s.Close()
	err := sliced.Eval(t.Context(), s, ids, 0, func(i int, _ []float32) error {
		if shown++; i == 20 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || shown != 21 || s.Len() != 32 {
		t.Errorf("%v after %d tokens, and %d are evaluated", err, shown, s.Len())
	}
}

// An encoder reads the whole text of each answer: nothing is kept of the text before.
func TestAnswersOfOneSequence(t *testing.T) {
	path := testdata.Path(t, "archs/t5.gguf")
	e, probe := open(t, path, Config{Ctx: 192}), open(t, path, Config{Ctx: 192})
	ids := randomIDs(e, 3, 60)
	s := e.NewSequence()
	defer s.Close()
	for _, n := range []int{60, 30, 31, 60, 1} {
		var got []int32
		_, err := e.Generate(t.Context(), s, likeliest(ids[:n], 12), func(id int32) error { got = append(got, id); return nil })
		if want := greedy(t, probe, ids[:n], 12); err != nil || !slices.Equal(got, want) {
			t.Errorf("of %d tokens %v, %v, alone %v", n, got, err, want)
		}
	}
	if _, err := e.Generate(t.Context(), s, likeliest(randomIDs(e, 1, 400), 3), nil); !errors.Is(err, ErrTooLong) {
		t.Errorf("a text that is too long: %v", err)
	}
}

// What shifts: a context of one token less than there are positions keeps what was asked for, as far as four others
// remain, and loses half of the rest, or as much as was asked for.
func TestShiftOf(t *testing.T) {
	e := open(t, tiny, Config{Ctx: 41, Shift: true})
	for _, c := range []struct {
		prompt, keep, discard int
		want                  generate.Shift
	}{
		{10, 0, 0, generate.Shift{Limit: 40, By: 20}},
		{10, 5, 0, generate.Shift{Limit: 40, Keep: 5, By: 17}},
		{10, -1, 0, generate.Shift{Limit: 40, Keep: 10, By: 15}},
		{10, -2, 0, generate.Shift{Limit: 40, Keep: 10, By: 15}},
		{40, -1, 0, generate.Shift{Limit: 40, Keep: 37, By: 1}},
		{10, 37, 0, generate.Shift{Limit: 40, Keep: 37, By: 1}},
		{10, 99, 0, generate.Shift{Limit: 40, Keep: 37, By: 1}},
		{10, 0, 1, generate.Shift{Limit: 40, By: 1}},
		{10, 0, 25, generate.Shift{Limit: 40, By: 25}},
		{10, 5, 99, generate.Shift{Limit: 40, Keep: 5, By: 35}},
		{10, 5, 35, generate.Shift{Limit: 40, Keep: 5, By: 35}},
	} {
		p := likeliest(randomIDs(e, 1, c.prompt), 5)
		p.Keep, p.Discard = c.keep, c.discard
		if got := e.shiftOf(&p, nil); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
		if p.NoShift = true; e.shiftOf(&p, nil) != (generate.Shift{}) {
			t.Error("a text that must not be shifted is")
		}
	}
	p := likeliest([]int32{1}, 5)
	if plain := open(t, tiny, Config{Ctx: 41}); plain.shiftOf(&p, nil) != (generate.Shift{}) {
		t.Error("a context that is not to be shifted is")
	}
	for ctx, ok := range map[int]bool{7: false, 8: true} {
		_, err := Open(tiny, Config{Ctx: ctx, Shift: true, Device: device(t, 1)})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "want at least 8") {
			t.Errorf("a context of %d: %v", ctx, err)
		}
	}
}

// Adapters take the lowest number that is free, and there are no more of them than may be.
func TestNumbersOfAdapters(t *testing.T) {
	e := open(t, tiny, Config{Ctx: 64})
	path := writeAdapter(t, e, 2, 7, "blk.0.attn_q.weight")
	var all []*Adapter
	for i := range 3 {
		if all = append(all, openAdapter(t, e, path)); all[i].Number() != i {
			t.Errorf("adapter %d has number %d", i, all[i].Number())
		}
	}
	for _, i := range []int{0, 2, 1} {
		if err := e.detach(all[i]); err != nil {
			t.Fatal(err)
		}
		if a := openAdapter(t, e, path); a.Number() != i {
			t.Errorf("in place of adapter %d there is one with number %d", i, a.Number())
		}
	}
	for n := 3; n < MaxAdapters; n++ {
		openAdapter(t, e, path)
	}
	used := e.device.budget.Used()
	if _, err := e.OpenAdapter(path); !errors.Is(err, ErrAdapters) || !strings.Contains(err.Error(), "64 are loaded, want at most 64") ||
		e.device.budget.Used() != used {
		t.Errorf("one too many: %v, %d bytes are taken, %d before", err, e.device.budget.Used(), used)
	}
	l := openLoop(t, tiny, Config{Ctx: 64}, LoopConfig{})
	if _, err := l.OpenAdapter(filepath.Join(t.TempDir(), "none.gguf")); err == nil || !strings.Contains(err.Error(), "none.gguf") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A sequence keeps its state while its adapters stay the same, in any order, and loses it when one or its scale changes.
func TestStateIsOfTheAdapters(t *testing.T) {
	e := open(t, tiny, Config{Ctx: 64})
	a := openAdapter(t, e, writeAdapter(t, e, 2, 7, "blk.0.attn_q.weight"))
	b := openAdapter(t, e, writeAdapter(t, e, 2, 8, "blk.0.attn_q.weight"))
	s := e.NewSequence()
	defer s.Close()
	for i, c := range []struct {
		list []ScaledAdapter
		stay bool
	}{
		{nil, true}, {[]ScaledAdapter{{a, 0}}, true}, {[]ScaledAdapter{{a, 1}}, false}, {[]ScaledAdapter{{a, 1}}, true},
		{[]ScaledAdapter{{a, 2}}, false}, {[]ScaledAdapter{{a, 2}, {b, 1}}, false}, {[]ScaledAdapter{{b, 1}, {a, 2}}, true},
		{[]ScaledAdapter{{b, 1}}, false}, {nil, false},
	} {
		if err := e.Eval(t.Context(), s, randomIDs(e, 1, 5), 0, nil); err != nil {
			t.Fatal(err)
		}
		was := s.Len()
		if err := s.SetAdapters(c.list); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: was}[c.stay]; s.Len() != want {
			t.Errorf("step %d: %d of %d tokens are left, want %d", i, s.Len(), was, want)
		}
	}
	if err := e.Eval(t.Context(), s, randomIDs(e, 1, 5), 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.SetAdapters([]ScaledAdapter{{a, 1}, {a, 2}}); err == nil || s.Len() != 5 || s.numbers != nil {
		t.Errorf("the same adapter twice: %v, %d tokens are left, adapters %v", err, s.Len(), s.numbers)
	}
}

// The times of a request are those of its first token, or of the end of its prompt where it has none, and of the latest.
func TestClock(t *testing.T) {
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	j := &job{started: start}
	token := generate.Step{Tokens: make([]generate.Token, 1)}
	j.clock(generate.Step{}, at(1)) // a part of the prompt
	if !j.first.IsZero() || j.usage.Prefill != 0 {
		t.Errorf("before a token: %+v", j.usage)
	}
	j.clock(token, at(3))
	j.clock(token, at(5))
	if j.usage.Prefill != 3*time.Second || j.usage.Decode != 2*time.Second || j.first != at(3) {
		t.Errorf("two tokens: %+v", j.usage)
	}
	if j.clock(generate.Step{Finish: generate.Stopped}, at(6)); j.usage.Prefill != 3*time.Second || j.usage.Decode != 3*time.Second {
		t.Errorf("ended without another: %+v", j.usage)
	}
	j = &job{started: start}
	if j.clock(generate.Step{Finish: generate.MaxedOut}, at(4)); j.usage.Prefill != 4*time.Second || j.usage.Decode != 0 {
		t.Errorf("a prompt alone: %+v", j.usage)
	}
}

// A pass is stopped once half of its tokens are of requests that have ended, and not before.
func TestPassesOfNobodyStop(t *testing.T) {
	for _, c := range []struct {
		mine, others, gone int64
		want               bool
	}{{5, 5, 0, true}, {4, 5, 0, false}, {5, 4, 0, true}, {1, 8, 4, true}, {1, 9, 3, false}, {0, 0, 0, false}, {0, 5, 5, false}} {
		l := &Loop{wake: make(chan struct{}, 1), stop: new(kernel.Stop)}
		j := &job{id: 7, inPass: c.mine}
		l.jobs, l.passTokens, l.goneTokens = map[uint64]*job{7: j}, c.mine+c.others, c.gone
		for range 2 { // the second time it has ended already
			l.end(j, context.Canceled)
		}
		if l.stop.IsSet() != c.want || l.goneTokens != c.gone+c.mine || !j.gone.Load() || !errors.Is(j.ended, context.Canceled) || len(l.wake) != 1 {
			t.Errorf("%+v: the pass stops: %v; %d tokens are of nobody", c, l.stop.IsSet(), l.goneTokens)
		}
	}
}

// The first deadline of those that have one.
func TestFirstDeadline(t *testing.T) {
	now := time.Now()
	l := &Loop{jobs: map[uint64]*job{}}
	if !l.deadline().IsZero() {
		t.Error("nobody has a deadline")
	}
	for i, d := range []time.Duration{0, 3, 1, 2} {
		r := &Request{}
		if d > 0 {
			r.Deadline = now.Add(d * time.Second)
		}
		l.jobs[uint64(i)] = &job{Request: r}
	}
	if got := l.deadline(); !got.Equal(now.Add(time.Second)) {
		t.Errorf("%v, want %v", got, now.Add(time.Second))
	}
	for d, want := range map[time.Duration]bool{0: false, -time.Second: true, time.Hour: false} {
		j := &job{Request: &Request{}}
		if d != 0 {
			j.Deadline = time.Now().Add(d)
		}
		if j.over() != want {
			t.Errorf("a deadline in %v: over %v", d, j.over())
		}
		if j.gone.Store(true); !j.over() {
			t.Error("a request that is gone is not over")
		}
	}
}

// The time of a pass is divided between prompts and streams by the cost model, or in equal parts before it knows anything;
// nothing of it is lost.
func TestTimeOfPromptsAndStreams(t *testing.T) {
	first := time.Now()
	for name, c := range map[string]struct {
		costs bool
		plan  []sched.Item
		began []bool // whether it has a token already
		want  time.Duration
	}{
		"prompts":    {true, []sched.Item{{ID: 1, Tokens: 9}}, []bool{false}, 0},
		"streams":    {true, []sched.Item{{ID: 1, Tokens: 1}, {ID: 2, Tokens: 1}}, []bool{true, true}, 80},
		"both":       {true, []sched.Item{{ID: 1, Tokens: 7}, {ID: 2, Tokens: 1}}, []bool{false, true}, 10},
		"no costs":   {false, []sched.Item{{ID: 1, Tokens: 7}, {ID: 2, Tokens: 1}}, []bool{false, true}, 40},
		"of three":   {false, []sched.Item{{ID: 1, Tokens: 7}, {ID: 2, Tokens: 1}, {ID: 3}, {ID: 4}}, []bool{false, true, true, true}, 60},
		"both again": {true, []sched.Item{{ID: 1, Tokens: 1}, {ID: 2, Tokens: 7}}, []bool{true, false}, 10},
	} {
		l := &Loop{sched: sched.New(sched.Config{Batch: 64, Running: 8, Memory: anyMemory{}, Queue: 9})}
		for i, item := range c.plan {
			if _, err := l.sched.Add(sched.Request{ID: item.ID, Prompt: 9, MaxTokens: 9}, 0); err != nil {
				t.Fatal(err)
			}
			j := &job{}
			if c.began[i] {
				j.first = first
			}
			l.batch = append(l.batch, j)
		}
		l.sched.Admit(0, 1<<40, func(uint64) sched.Prefix { return sched.Prefix{} })
		if c.costs {
			for _, n := range []int{1, 2, 8, 64} {
				l.sched.Cost.Observe(sched.Shape{Tokens: n, Rows: 1}, time.Duration(n)*time.Second)
			}
		}
		l.counts = Counts{Passes: 4, SlotPasses: 10, PromptTokens: 100, PromptTime: time.Hour, GeneratedTime: time.Minute}
		l.count(c.plan, PassInfo{Took: 80 * time.Second, Sequences: len(c.plan), PromptTokens: 5})
		n := l.counts
		generated := (n.GeneratedTime - time.Minute).Seconds()
		if math.Abs(generated-float64(c.want)) > 0.5 || n.GeneratedTime+n.PromptTime != time.Hour+time.Minute+80*time.Second ||
			n.Passes != 5 || n.SlotPasses != 10+uint64(len(c.plan)) || n.PromptTokens != 105 {
			t.Errorf("%s: %+v, of which %.1f s are of streams, want %d", name, n, generated, c.want)
		}
	}
}

// Steps with drafts are counted, and drafts by their source.
func TestCountingDrafts(t *testing.T) {
	l, j := &Loop{}, &job{}
	var some draft.Counts
	some[draft.NGram].Guessed, some[draft.NGram].Right = 3, 1
	for _, c := range []draft.Counts{some, {}, some} {
		l.countDrafts(j, c)
	}
	if n := l.counts.Drafted[draft.NGram]; l.counts.Drafts != 2 || n.Guessed != 6 || n.Right != 2 || j.usage.Drafted != l.counts.Drafted {
		t.Errorf("%d steps, %+v", l.counts.Drafts, n)
	}
}

// How many tokens of a slice an encoder reads, whose text is at the beginning of the sequence.
func TestSourceOfAnItem(t *testing.T) {
	ids := make([]int32, 6)
	for _, c := range []struct{ source, has, want int }{{0, 0, 0}, {4, 0, 4}, {6, 0, 6}, {9, 0, 6}, {4, 3, 1}, {4, 4, 0}, {4, 9, 0}} {
		it := Item{Seq: &Sequence{source: c.source, ids: make([]int32, c.has)}, IDs: ids}
		if got := it.source(); len(got) != c.want {
			t.Errorf("%+v: %d tokens", c, len(got))
		}
	}
	c := model.Config{Encoder: make([]nn.LayerConfig, 1), NSide: 10, Start: []int32{5, 6}}
	e := &Engine{model: &model.Model{Config: &c}}
	for _, w := range []struct{ prompt, most, want int }{{10, 3, 3}, {1, -1, 8}, {1, 8, 8}, {1, 9, 8}, {3, 0, 0}, {11, 1, -1}} {
		p, source, err := e.begun(generate.Params{Prompt: make([]int32, w.prompt), MaxTokens: w.most}, nil)
		var long *TooLongError
		switch {
		case w.want < 0 && (!errors.As(err, &long) || long.Prompt != w.prompt || long.Ctx != 10):
			t.Errorf("%+v: %v", w, err)
		case w.want >= 0 && (err != nil || p.MaxTokens != w.want || len(p.Prompt) != w.prompt+2 || source != w.prompt):
			t.Errorf("%+v: %d tokens, a text of %d: %v", w, p.MaxTokens, len(p.Prompt), err)
		}
	}
	if p, _, err := e.begun(generate.Params{}, nil); err != nil || len(p.Prompt) != 0 {
		t.Errorf("no prompt becomes %v, %v", p.Prompt, err)
	}
}
