package sched

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// measured returns a calibrated cost model, as it is before the first pass.
func measured(truth func(Shape) time.Duration) (c Cost) {
	for _, n := range []int{1, 8, 64, 256} {
		c.Observe(Shape{Tokens: n}, truth(Shape{Tokens: n}))
	}
	c.Set(truth(Shape{Attended: 1e6}), truth(Shape{Read: 1e6}))
	return c
}

// A cost model that observed extreme passes predicts normal ones well again soon, and never returns nonsense.
func TestCostRecovers(t *testing.T) {
	truth := flatCost(20*time.Millisecond, 2*time.Millisecond)
	rng := rand.New(rand.NewPCG(5, 6))
	c := measured(truth)
	shape := func() (s Shape) {
		for range 1 + rng.IntN(8) {
			s = s.Add(rng.IntN(4000), 1)
		}
		if rng.IntN(3) == 0 {
			s = s.Add(rng.IntN(4000), 1+rng.IntN(300))
		}
		return s
	}
	for round := range 20 {
		for range 300 {
			s := shape()
			took := truth(s)
			switch {
			case round%4 == 1 && rng.IntN(10) == 0: // delayed by up to 10,000 times
				took *= time.Duration(1 + rng.IntN(10_000))
			case round%4 == 2 && rng.IntN(10) == 0: // or the clock stood still
				took = 1
			}
			c.Observe(s, took)
			if e := c.Estimate(s); e < 0 || e > longest {
				t.Fatalf("round %d: a pass of %+v should take %v", round, s, e)
			}
		}
		if round%4 != 3 {
			continue
		}
		for range 100 {
			s := shape()
			if ratio := float64(c.Estimate(s)) / float64(truth(s)); ratio < 0.6 || ratio > 1.7 || math.IsNaN(ratio) {
				t.Errorf("round %d: a pass of %+v should take %v, and takes %v", round, s, c.Estimate(s), truth(s))
				break
			}
		}
	}
}

// The estimates for sizes that are no longer observed do not drift, however noisy the other passes are.
func TestCostDoesNotDrift(t *testing.T) {
	truth := flatCost(20*time.Millisecond, 2*time.Millisecond)
	rng := rand.New(rand.NewPCG(7, 8))
	c := measured(truth)
	for range 300_000 {
		s := Shape{}.Add(rng.IntN(500), 1+rng.IntN(8))
		took := time.Duration(float64(truth(s)) * math.Exp(rng.NormFloat64()))
		if rng.IntN(50) == 0 {
			took *= 100
		}
		c.Observe(s, took)
	}
	for _, s := range []Shape{{Tokens: 1}, {Tokens: 256}, {Tokens: 8, Read: 400}} {
		if ratio := float64(c.Estimate(s)) / float64(truth(s)); !(ratio > 0.3 && ratio < 3) {
			t.Errorf("a pass of %+v should take %v, and takes %v", s, c.Estimate(s), truth(s))
		}
	}
	if ratio := float64(c.Each()) / float64(2*time.Millisecond); !(ratio > 0.3 && ratio < 3) {
		t.Errorf("a token should take %v", c.Each())
	}
}

// The cost model follows a lasting change of the machine's speed.
func TestCostFollows(t *testing.T) {
	fast, slow := flatCost(20*time.Millisecond, 2*time.Millisecond), flatCost(50*time.Millisecond, 5*time.Millisecond)
	var c Cost
	for _, n := range []int{1, 8, 64, 256} {
		c.Observe(Shape{Tokens: n}, fast(Shape{Tokens: n}))
	}
	for range 60 {
		c.Observe(Shape{Tokens: 4}, slow(Shape{Tokens: 4})) // only this
	}
	for n, least := range map[int]float64{4: 0.95, 8: 0.7} {
		s := Shape{Tokens: n}
		if ratio := float64(c.Estimate(s)) / float64(slow(s)); ratio < least || ratio > 1.3 {
			t.Errorf("%d tokens: %v, now it takes %v", n, c.Estimate(s), slow(s))
		}
	}
}

// An outlier in the calibration is forgotten, even if passes of that size do not occur again.
func TestCostForgetsABadBeginning(t *testing.T) {
	truth := flatCost(20*time.Millisecond, 2*time.Millisecond)
	var c Cost
	c.Observe(Shape{Tokens: 1}, 3*time.Second)
	for _, n := range []int{8, 64, 256} {
		c.Observe(Shape{Tokens: n}, truth(Shape{Tokens: n}))
	}
	for i := range 60 {
		s := Shape{Tokens: 4 + i%5}
		c.Observe(s, truth(s))
	}
	for _, n := range []int{1, 4, 8} {
		if got := c.Estimate(Shape{Tokens: n}); got > 25*time.Millisecond {
			t.Errorf("%d tokens should take %v", n, got)
		}
	}
}

func TestCostOfNothing(t *testing.T) {
	var c Cost
	if c.Estimate(Shape{Tokens: 5, Read: 100}) != 0 || c.Each() != 0 || c.Estimate(Shape{}) != 0 {
		t.Error("who knows nothing predicts something")
	}
	c.Observe(Shape{}, time.Second)
	c.Observe(Shape{Tokens: 1}, 0)
	if c.First() != 0 {
		t.Error("nothing was seen, and something learned")
	}
	c.Observe(Shape{Tokens: 3}, 30)
	if got := c.Estimate(Shape{Tokens: 100_000}); got <= 0 {
		t.Errorf("far beyond what was seen: %v", got)
	}
}

// A long prompt takes more than its tokens' share of a short one, by what they attend to.
func TestCostOfPrompts(t *testing.T) {
	var c Cost
	c.Observe(Shape{Tokens: 512}, 512*time.Millisecond)
	c.Set(time.Millisecond, 0) // a million positions
	short, long := c.Prompt(512, 512), c.Prompt(4096, 512)
	attends := time.Duration(4096*4097/2) * time.Millisecond / 1_000_000
	if want := 8*c.Estimate(Shape{Tokens: 512}) + attends; long < want-time.Microsecond || long > want+time.Microsecond || short*8 >= long {
		t.Errorf("512 tokens take %v, 4096 %v, want %v", short, long, want)
	}
	if a, b := c.Prompt(700, 512), c.Prompt(512, 512)+c.Estimate(ShapeOf(512, 188)); a != b {
		t.Errorf("a prompt of a whole pass and a part takes %v, want %v", a, b)
	}
}

// Beyond the largest pass whose time is kept, each token adds as much as those of a long pass.
func TestCostBeyondTheTable(t *testing.T) {
	c := learned(func(s Shape) time.Duration { return time.Duration(s.Tokens) * time.Millisecond })
	for _, more := range []int{1, 100, 4096} {
		if got, want := c.Estimate(Shape{Tokens: most + more})-c.Estimate(Shape{Tokens: most}), time.Duration(more)*c.Each(); got < want-1 || got > want+1 {
			t.Errorf("%d tokens more take %v, want %v", more, got, want)
		}
	}
}

// Passes of few tokens have times of their own, each: kernels take several tokens at once, so the times have steps.
func TestCostHasSteps(t *testing.T) {
	var c Cost
	steps := func(n int) time.Duration { return time.Duration((n+3)/4*10+n) * time.Millisecond }
	for n := 1; n <= 16; n++ {
		c.Observe(Shape{Tokens: n, Rows: 1}, steps(n))
	}
	for n := 1; n <= 16; n++ {
		if got := c.Estimate(Shape{Tokens: n, Rows: 1}); got != steps(n) {
			t.Errorf("%d tokens take %v, want %v", n, got, steps(n))
		}
	}
	for i := range sizes[1:] {
		if sizes[i+1] <= sizes[i] {
			t.Errorf("times are kept at %v, not in order", sizes)
		}
	}
}

// Times are kept for each number of tokens up to 16, then for ever larger ones, up to the largest by powers of two; between
// two of them times are interpolated.
func TestCostBetweenSizes(t *testing.T) {
	for i, n := range sizes {
		if i < 16 && n != i+1 || n >= 64 && n != 2*sizes[i-1] || i == len(sizes)-1 && n != most {
			t.Errorf("time %d is of %d tokens", i, n)
		}
	}
	bent := func(n int) time.Duration { return time.Duration(n*n) * time.Microsecond }
	c := learned(func(s Shape) time.Duration { return bent(s.Tokens) })
	for i := range sizes[1:] {
		lo, hi := sizes[i], sizes[i+1]
		for _, n := range []int{lo, lo + (hi-lo)/4, (lo + hi) / 2, hi} {
			want := float64(bent(lo)) + float64(n-lo)/float64(hi-lo)*float64(bent(hi)-bent(lo))
			if got := c.Estimate(Shape{Tokens: n}); math.Abs(float64(got)-want) > 2 {
				t.Errorf("%d tokens between %d and %d take %v, want %v", n, lo, hi, got, time.Duration(want))
			}
		}
	}
	if got := c.Estimate(Shape{}); got != 0 {
		t.Errorf("no tokens take %v", got)
	}
	if want := bent(most) / most; c.Each() != want {
		t.Errorf("a token of a long pass takes %v, want %v", c.Each(), want)
	}
	c.Set(time.Second, 2*time.Second)
	if a, r := c.Positions(); a != time.Second || r != 2*time.Second {
		t.Errorf("positions take %v and %v", a, r)
	}
	c.SetRow(time.Millisecond)
	if got, want := c.Estimate(Shape{Tokens: 2, Attended: 3e6, Read: 1e6, Rows: 4}), bent(2)+3*time.Second+2*time.Second+3*time.Millisecond; got != want || c.Row() != time.Millisecond {
		t.Errorf("a pass takes %v, want %v", got, want)
	}
	c.Set(-time.Second, -1)
	c.SetRow(-1)
	if a, r := c.Positions(); a != 0 || r != 0 || c.Row() != 0 {
		t.Errorf("positions and rows take %v, %v and %v", a, r, c.Row())
	}
	if got, want := c.Prompt(1, 512), c.Estimate(ShapeOf(0, 1)); got != want || c.Prompt(0, 512) != 0 {
		t.Errorf("a prompt of one token takes %v, want %v", got, want)
	}
}

// The cost of branches is learned from two passes that are wrong in the same direction, by the smaller error.
func TestCostOfBranches(t *testing.T) {
	base := learned(func(s Shape) time.Duration { return 100 * time.Millisecond })
	two := Shape{Tokens: 4, Rows: 4, Branches: 2}
	for _, c := range []struct {
		what     string
		branch   float64   // ms
		took     []float64 // of what was expected
		want     float64   // ms of a branch
		branches int
	}{
		{"one pass", 0, []float64{1.3}, 0, 2},
		{"two late ones", 0, []float64{1.3, 1.2}, 0.2 * 0.2 * 100 / 2, 2},
		{"the later is later", 0, []float64{1.1, 1.4}, 0.2 * 0.1 * 100 / 2, 2},
		{"one branch", 0, []float64{1.1, 1.4}, 0.2 * 0.1 * 100, 1},
		{"late and early", 10, []float64{1.3, 0.7}, 10, 2},
		{"late and right", 10, []float64{1.3, 1}, 10, 2},
		{"two early ones", 10, []float64{0.9, 0.8}, 10 - 0.2*0.1*120/2, 2},
		{"much too late", 0, []float64{9, 9}, 0.2 * 0.5 * 100 / 2, 2},
		{"much too early", 10, []float64{0.1, 0.1}, 10 - 0.2*0.5*120/2, 2},
		{"never less than nothing", 0.1, []float64{0.5, 0.5}, 0, 2},
	} {
		cost := base
		cost.branch = c.branch * 1e6
		shape := two
		shape.Branches = c.branches
		for _, f := range c.took {
			cost.Observe(shape, time.Duration(f*float64(cost.Estimate(shape))))
		}
		if got := cost.branch / 1e6; math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%s: a branch takes %v ms, want %v", c.what, got, c.want)
		}
		if cost.knots != base.knots {
			t.Errorf("%s: the time of tokens changed", c.what)
		}
	}
	cost := base
	cost.branch = 1e6
	cost.Observe(Shape{Tokens: 1, Rows: 1}, 100*time.Millisecond)
	if got := cost.branch; math.Abs(got-forgetBranch*1e6) > 1 {
		t.Errorf("after a pass without branches one takes %v", got)
	}
}

// Passes in which most tokens have rows of logits, as drafts have, bound the next ones.
func TestVerifiedPasses(t *testing.T) {
	for _, r := range []struct{ tokens, rows, largest int }{
		{12, 6, most}, {12, 7, 15}, {12, 12, 15}, {13, 7, 16}, {2, 2, 5}, {4, 4, 5}, {5, 5, 6},
	} {
		var c Cost
		c.Observe(Shape{Tokens: r.tokens, Rows: r.rows}, time.Millisecond)
		if got := c.largest(1); got != r.largest {
			t.Errorf("after a pass of %d tokens with %d rows, one has %d at most, want %d", r.tokens, r.rows, got, r.largest)
		}
	}
	c := learned(func(s Shape) time.Duration { return time.Millisecond })
	if got := c.largest(5000); got != 6250 {
		t.Errorf("5000 streams have %d tokens at most", got)
	}
}

// The time of a row follows passes whose rows take most of their time.
func TestRowsAreLearned(t *testing.T) {
	c := learned(func(s Shape) time.Duration { return time.Millisecond })
	c.SetRow(10 * time.Millisecond)
	s := Shape{Tokens: 8, Rows: 8}
	guess := 71.0 // ms
	want := 10 * math.Exp(learn/2*(70/guess)*math.Log(1.2))
	c.Observe(s, time.Duration(1.2*guess*1e6))
	if got := c.row / 1e6; math.Abs(got-want) > 1e-4 {
		t.Errorf("a row takes %v ms, want %v", got, want)
	}
}
