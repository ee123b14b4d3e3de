package sched

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A model of cost that saw a machine in good and bad moments is right about the
// good ones again soon, and is never nonsense.
func TestCostRecovers(t *testing.T) {
	truth := flatCost(20*time.Millisecond, 2*time.Millisecond)
	rng := rand.New(rand.NewPCG(5, 6))
	var c Cost
	for _, n := range []int{1, 8, 64, 256} {
		c.Observe(Shape{Tokens: n}, truth(Shape{Tokens: n}))
	}
	c.Set(truth(Shape{Attended: 1e6}), truth(Shape{Read: 1e6}))
	shape := func() (s Shape) {
		for range 1 + rng.IntN(8) {
			s = s.add(rng.IntN(4000), 1)
		}
		if rng.IntN(3) == 0 {
			s = s.add(rng.IntN(4000), 1+rng.IntN(300))
		}
		return s
	}
	for round := range 20 {
		for range 300 {
			s := shape()
			took := truth(s)
			switch {
			case round%4 == 1 && rng.IntN(10) == 0: // held up, for ages
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

// It follows a machine that changes its pace for good.
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
