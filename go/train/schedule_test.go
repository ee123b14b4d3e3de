package train

import (
	"fmt"
	"math"
	"slices"
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

// Vectors are added pairwise by their number, whatever comes after them, and whoever adds up which of them.
func TestTreeAddsPairwise(t *testing.T) {
	x := []float32{1, 1e-8, 1e8, -1e8, 3, 1e-7, 5}
	sum := newTree(make([]float32, 3), 1)
	for range 2 { // again after a reset
		sum.reset(len(x))
		for i, v := range x {
			sum.add(place{0, i}, []float32{v})
		}
		want := ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + x[6])
		if got := sum.total()[0]; got != want {
			t.Errorf("sum %v, want %v", got, want)
		}
	}
}

// However the vectors are divided, the places of the parts make the same tree, in the memory that placesOf says.
func TestPartsOfATreeMakeIt(t *testing.T) {
	term := func(i int) string { return fmt.Sprint(i) }
	var whole func(n, from, size int) string // of the tree: how its sums are nested
	whole = func(n, from, size int) string {
		if size == 1 {
			return term(from)
		}
		left := whole(n, from, size/2)
		if from+size/2 >= n {
			return left
		}
		return "(" + left + " " + whole(n, from+size/2, size/2) + ")"
	}
	for n := 1; n <= 33; n++ {
		size := 1
		for size < n {
			size *= 2
		}
		for ranks := 1; ranks <= 9; ranks++ {
			var together places
			together.n = n
			var sums []string
			add := func(s *places, p place, x string, sums []string) []string {
				for range s.add(p) {
					x = "(" + sums[len(sums)-1] + " " + x + ")"
					sums = sums[:len(sums)-1]
				}
				return append(sums, x)
			}
			each := (n + ranks - 1) / ranks
			for from := 0; from < n; from += each {
				part, mine, most := places{n: n}, []string{}, 0
				for i := from; i < min(from+each, n); i++ {
					mine = add(&part, place{0, i}, term(i), mine)
					most = max(most, len(mine))
				}
				there, waiting := placesOf(n, from, from+each)
				if !slices.Equal(there, part.there) || waiting != most {
					t.Fatalf("%d from %d: places %v, %d at most, want %v, %d", n, from, there, waiting, part.there, most)
				}
				for i, p := range there {
					sums = add(&together, p, mine[i], sums)
				}
			}
			if want := whole(n, 0, size); len(sums) != 1 || sums[0] != want {
				t.Fatalf("%d of %d ranks: %v, want %s", n, ranks, sums, want)
			}
		}
	}
}
