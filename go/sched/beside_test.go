package sched

import (
	"slices"
	"testing"
	"time"
)

// turns lets schedulers on the same threads have passes by turns, all on one clock, until done.
func turns(t *testing.T, sims []*sim, done func() bool) {
	t.Helper()
	loads := make([]Load, len(sims))
	for i := 0; !done(); i++ {
		if i == 100_000 {
			t.Fatal("it never ends")
		}
		k := i % len(sims)
		m, others := sims[k], Load{}
		for o, l := range loads {
			if o != k {
				others = others.Plus(l)
			}
		}
		m.s.Beside(others)
		m.step()
		loads[k] = m.s.Load(m.plan)
		for _, o := range sims {
			o.now = m.now
		}
	}
}

// The streams of a scheduler keep their pace while others on the same threads evaluate prompts, which take what is
// left of the target together. Without streams, slices are long again.
func TestPromptsHeedStreamsBeside(t *testing.T) {
	newOne := func() *sim {
		return newSim(t, Config{Running: 8, Batch: 512, Queue: 100}, 10_000, flatCost(20*time.Millisecond, 2*time.Millisecond))
	}
	for _, prompts := range []int{1, 3} {
		streams := newOne()
		sims := []*sim{streams}
		for i := range prompts {
			m := newOne()
			if err := m.add(Request{ID: 1, Prompt: 3000 + i, MaxTokens: 1}); err != nil {
				t.Fatal(err)
			}
			sims = append(sims, m)
		}
		if err := streams.add(Request{ID: 1, Prompt: 8, MaxTokens: 2000}); err != nil {
			t.Fatal(err)
		}
		stream := streams.live[1]
		passes := 0
		turns(t, sims, func() bool {
			passes++
			return !slices.ContainsFunc(sims[1:], func(m *sim) bool { return m.live[1] != nil })
		})
		if len(stream.gaps) < 30 {
			t.Fatalf("%d prompts beside: %d tokens of the stream only", prompts, len(stream.gaps))
		}
		gaps := slices.Clone(stream.gaps[1:]) // in the first round they did not know of each other
		slices.Sort(gaps)
		if longest := gaps[len(gaps)-1]; longest > 150*time.Millisecond {
			t.Errorf("%d prompts beside: a gap of %v, want 150 ms at most", prompts, longest)
		}
		if median := gaps[len(gaps)/2]; median < 90*time.Millisecond {
			t.Errorf("%d prompts beside: gaps of %v: most of the time should go to prompts", prompts, median)
		}
		if want := 3000 * prompts / 10; passes > want {
			t.Errorf("%d prompts beside: they took %d passes, want %d at most", prompts, passes, want)
		}
		streams.cancel(1)
		m := sims[1]
		if err := m.add(Request{ID: 2, Prompt: 1000, MaxTokens: 1}); err != nil {
			t.Fatal(err)
		}
		longest := 0
		turns(t, sims, func() bool {
			for _, it := range m.plan {
				longest = max(longest, it.Tokens)
			}
			return m.live[2] == nil
		})
		if longest < 150 {
			t.Errorf("slices of %d tokens while no stream waits, want 400 ms", longest)
		}
	}
}

// What passes of encoders and of models on disk need of others: nothing, since these have turns meanwhile.
func TestLoadOfUnslicedPasses(t *testing.T) {
	for _, c := range []Config{{Whole: true}, {Reads: true}} {
		c.Running, c.Batch, c.Queue = 4, 512, 10
		m := newSim(t, c, 1000, flatCost(20*time.Millisecond, 2*time.Millisecond))
		if err := m.add(Request{ID: 1, Prompt: 400, MaxTokens: 10}); err != nil {
			t.Fatal(err)
		}
		m.s.Beside(Load{Target: 150 * time.Millisecond, Streams: 20 * time.Millisecond})
		m.step()
		if len(m.plan) != 1 || m.plan[0].Tokens < 190 || m.s.Load(m.plan) != (Load{}) {
			t.Errorf("%+v: the pass is %v, its load %+v", c, m.plan, m.s.Load(m.plan))
		}
	}
}
