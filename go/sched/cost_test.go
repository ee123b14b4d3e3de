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
