package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/sched"
)

// linear returns stages of ranks that have as many layers each, where a pass takes a time for reading the weights and one for each
// token.
func linear(t *testing.T, ranks int, read, each time.Duration) *stages {
	t.Helper()
	all, err := kernel.ThreadRanks(ranks)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		t.Cleanup(g.Close)
	}
	s := &stages{group: all[0], widest: 1 / float64(ranks)}
	s.seen(read, each)
	return s
}

func (s *stages) seen(read, each time.Duration) {
	s.cost = sched.Cost{}
	for n := 1; n <= 1024; n *= 2 {
		s.cost.Observe(sched.Shape{Tokens: n, Rows: 1}, max(read, time.Duration(n)*each))
	}
}

// A pass has as many parts as make it the fastest: one while the weights are what takes time, or nothing is known.
func TestCountOfParts(t *testing.T) {
	for _, c := range []struct {
		ranks, tokens int
		read, each    time.Duration
		want          int
	}{
		{2, 1, time.Millisecond, time.Millisecond, 1},
		{2, 16, 16 * time.Millisecond, time.Millisecond, 1}, // 3 halves of the passes, of which each takes as long
		{2, 32, 16 * time.Millisecond, time.Millisecond, 2},
		{2, 64, 16 * time.Millisecond, time.Millisecond, 4},
		{4, 64, 16 * time.Millisecond, time.Millisecond, 4},
		{2, 512, 16 * time.Millisecond, time.Millisecond, 8}, // at most 4 for each rank
		{2, 3, time.Microsecond, time.Millisecond, 3},
		{2, 64, 0, 0, 1},
	} {
		if got := linear(t, c.ranks, c.read, c.each).count(c.tokens); got != c.want {
			t.Errorf("%d tokens on %d ranks, %v and %v each: %d parts, want %d", c.tokens, c.ranks, c.read, c.each, got, c.want)
		}
	}
	s := linear(t, 2, 0, time.Millisecond)
	if s.widest = 0.95; s.count(64) != 1 {
		t.Errorf("one rank has nearly all layers: %d parts", s.count(64))
	}
}

// Of a pass as a whole and in parts the faster is taken; the other is tried again now and then, and one slow pass decides nothing.
func TestRaceOfParts(t *testing.T) {
	r := race{}
	run := func(passes int, whole, parts float64) (divided int) {
		for range passes {
			if d := r.divide(); d {
				divided++
				r.ran(d, parts)
			} else {
				r.ran(d, whole)
			}
		}
		return divided
	}
	if n := run(1000, 20, 15); n < 980 || n > 990 {
		t.Errorf("parts are faster: %d of 1000 passes were in parts", n)
	}
	if run(1, 20, 300); run(20, 20, 15) < 19 {
		t.Error("one slow pass in parts, and there are no more of them")
	}
	if n := run(1000, 20, 25); n > 40 {
		t.Errorf("parts have become slower: %d of 1000 passes were in parts", n)
	}
}

// Parts are about equal, and end where sequences do if these cannot be cut.
func TestCutsOfParts(t *testing.T) {
	for _, c := range []struct {
		file   string
		tokens []int
		parts  int
		want   []int
	}{
		{"llama", []int{20, 1, 1, 1}, 4, []int{5, 11, 17, 23}},
		{"qwen35", []int{20, 1, 1, 1}, 4, []int{20, 21, 22, 23}},
		{"qwen35", []int{1, 1, 1, 1, 1, 1, 1}, 3, []int{3, 5, 7}},
		{"qwen35", []int{1, 20, 0, 1}, 2, []int{21, 22}},
		{"qwen35", []int{9}, 3, []int{9}},
	} {
		e := open(t, testdata.Path(t, "archs/"+c.file+".gguf"), Config{Sequences: 8, Ctx: 128})
		var items []Item
		for _, n := range c.tokens {
			s := e.NewSequence()
			defer s.Close()
			items = append(items, Item{Seq: s, IDs: randomIDs(e, 3, n)})
		}
		if _, err := e.fill(items); err != nil {
			t.Fatal(err)
		}
		if got := e.cut(items, c.parts); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d tokens in %d parts end at %d, want %d", c.file, c.tokens, c.parts, got, c.want)
		}
		undo(items)
	}
}

// Everything at once on ranks that have layers each, in parts of passes: requests with grammars and drafts, little memory, and
// others that are cancelled. The texts are those of one process.
func TestStormOfParts(t *testing.T) {
	for _, name := range []string{"glm4moe", "qwen35"} { // the latter is not cut within sequences
		path := testdata.Path(t, "archs/"+name+".gguf")
		c := Config{Ctx: 128, Batch: 48, Sequences: 6, Shared: true}
		one := open(t, path, c)
		prompt := randomIDs(one, 5, 70)
		var all []*stormed
		for variant, made := range variants(t, one, prompt, 30) {
			for k, options := range []draft.Options{draft.Defaults, {}} {
				s := &stormed{name: fmt.Sprint(name, ", ", variant, k), params: func() generate.Params {
					p := made()
					if p.MaxTokens < 0 { // it may not end
						p.MaxTokens = 90
					}
					p.Draft = options
					return p
				}}
				s.want, s.finish = alone(t, one, s.params())
				all = append(all, s)
			}
		}
		for _, n := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, %d ranks", name, n), func(t *testing.T) {
				c := c
				c.Ranks = divided(t, path, n)
				c.Ranks.Layers = true
				c.KVBytes = storming(t, path, c)
				l := openLoop(t, path, c, LoopConfig{Queue: 100})
				freely(l)
				l.e.stages.seen(0, time.Millisecond)
				stormOfParts(t, l, all)
			})
		}
	}
}

func stormOfParts(t *testing.T, l *Loop, all []*stormed) {
	t.Helper()
	before := l.Status()
	stormOn(t, l, all, nil)
	after := l.Status()
	passes := int64(after.Counts.Passes - before.Counts.Passes)
	// A pass as a whole has one exchange from rank to rank, and one for its logits.
	if n := after.Ranks.Exchanges - before.Ranks.Exchanges; n <= passes*int64(l.e.stages.group.Count()) {
		t.Errorf("%d exchanges in %d passes, which were not in parts", n, passes)
	}
	if after.Counts.Preemptions+after.Counts.EvictedBlocks == 0 {
		t.Error("there was memory for all")
	}
	checkBlocks(t, l)
}
