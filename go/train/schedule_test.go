package train

import (
	"math"
	"testing"
)

func TestRates(t *testing.T) {
	for _, c := range []struct {
		schedule Schedule
		want     map[int]float64 // by step
	}{
		{Cosine, map[int]float64{1: 0.5, 2: 1, 3: 1, 7: 0.1 + 0.9*(1+math.Cos(math.Pi*4/8))/2, 10: 0.1 + 0.9*(1+math.Cos(math.Pi*7/8))/2}},
		{Linear, map[int]float64{1: 0.5, 2: 1, 3: 1, 7: 0.1 + 0.9/2, 10: 0.1 + 0.9/8}},
		{Constant, map[int]float64{1: 0.5, 2: 1, 3: 1, 10: 1}},
	} {
		config := Config{Steps: 10, Rate: 2, Least: 0.1, Warmup: 2, Schedule: c.schedule}
		for step, want := range c.want {
			if got := config.rate(step); math.Abs(got-2*want) > 1e-12 {
				t.Errorf("schedule %d, step %d: rate %v, want %v", c.schedule, step, got, 2*want)
			}
		}
	}
}

func TestCosine(t *testing.T) {
	for i := range 101 {
		x := float64(i) / 100
		if got, want := cosine(x), math.Cos(x*math.Pi/2); math.Abs(got-want) > 1e-15 {
			t.Errorf("cosine of %v right angles: %v, want %v", x, got, want)
		}
	}
}

// Vectors are added pairwise by their number, whatever comes after them.
func TestTreeAddsPairwise(t *testing.T) {
	x := []float32{1, 1e-8, 1e8, -1e8, 3, 1e-7, 5}
	sum := newTree(make([]float32, 3), 1)
	for range 2 { // again after a reset
		sum.reset()
		for _, v := range x {
			sum.add([]float32{v})
		}
		want := ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + x[6])
		if got := sum.total()[0]; got != want {
			t.Errorf("sum %v, want %v", got, want)
		}
	}
}
