package reading

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawn returns scores of examples, and choices that are drawn with the chances that a calibration makes of them.
func drawn(n, choices int, c *Calibration) (scores [][]float64, right []int) {
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		row := make([]float64, choices)
		for k := range row {
			row[k] = 6*r.Float64() - 20
		}
		x, k := r.Float64(), 0
		for p := c.Chances(row); k < choices-1 && x > p[k]; k++ {
			x -= p[k]
		}
		scores, right = append(scores, row), append(right, k)
	}
	return scores, right
}

// What is fitted is what the answers were drawn with, and probabilities are then right as often as they say.
func TestCalibrate(t *testing.T) {
	t.Parallel()
	for _, truth := range []*Calibration{{1, []float64{0, 0, 0}}, {4, []float64{0.5, -1, 0.5}}, {0.4, []float64{0, 2, -2}}} {
		scores, right := drawn(1500, 3, truth)
		c, before, after, err := Calibrate(t.Context(), scores, right)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(c.Temperature/truth.Temperature-1) > 0.2 {
			t.Errorf("temperature %g, want %g", c.Temperature, truth.Temperature)
		}
		for k, b := range c.Bias {
			if math.Abs(b-c.Bias[0]-truth.Bias[k]+truth.Bias[0]) > 0.3 {
				t.Errorf("biases %v, want %v", c.Bias, truth.Bias)
			}
		}
		if after.ECE > 0.05 || truth.Temperature == 4 && before.ECE < 0.2 || truth.Temperature != 1 && (after.NLL >= before.NLL || after.Accuracy < before.Accuracy) {
			t.Errorf("%+v: before %+v, after %+v", truth, before, after)
		}
	}
}

// No example makes a calibration that is none: not those that say nothing, nor such whose answers are all right or all wrong, nor
// choices that cannot come.
func TestCalibrateEdges(t *testing.T) {
	t.Parallel()
	no := math.Inf(-1)
	for name, x := range map[string]struct {
		scores [][]float64
		right  []int
	}{
		"two":       {[][]float64{{-1, -2}, {-2, -1}}, []int{0, 1}},
		"all wrong": {[][]float64{{-1, -200}, {-200, -1}, {-3, -4}}, []int{1, 0, 1}},
		"all right": {[][]float64{{-1, -2000}, {-2000, -1}, {-1, -2000}}, []int{0, 1, 0}},
		"one label": {[][]float64{{-1, -2}, {-2, -1}, {-5, -5}}, []int{1, 1, 1}},
		"cannot":    {[][]float64{{no, -2}, {-2, no}, {no, no}}, []int{0, 0, 1}},
		"no prior":  {[][]float64{{mostScore, -2}, {-2, mostScore}, {mostScore, mostScore}}, []int{0, 0, 1}},
		"the same":  {[][]float64{{-9, -9}, {-9, -9}}, []int{1, 0}},
	} {
		c, before, after, err := Calibrate(t.Context(), x.scores, x.right)
		if err != nil || !(c.Temperature >= LeastTemperature && c.Temperature <= MostTemperature) || len(c.Bias) != 2 {
			t.Errorf("%s: %+v", name, c)
		}
		for _, v := range []float64{c.Bias[0], c.Bias[1], before.ECE, before.NLL, after.ECE, after.NLL, after.Accuracy} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: %+v, before %+v, after %+v", name, c, before, after)
			}
		}
		for _, s := range x.scores {
			for _, p := range c.Chances(s) {
				if !(p >= 0 && p <= 1) {
					t.Errorf("%s: %v have %v", name, s, c.Chances(s))
				}
			}
		}
	}
}

func TestFitOf(t *testing.T) {
	t.Parallel()
	f := FitOf([][]float64{{0.75, 0.25}, {0.75, 0.25}, {0.4, 0.6}, {1, 0}}, []int{0, 1, 1, 0})
	// 0.75 is right once of 2, 0.6 and 1 always.
	if want := (2*0.25 + 0.4) / 4; f.Accuracy != 0.75 || math.Abs(f.ECE-want) > 1e-12 ||
		math.Abs(f.NLL+(math.Log(0.75)+math.Log(0.25)+math.Log(0.6))/4) > 1e-9 {
		t.Errorf("%+v", f)
	}
}

// A fit ends with its context, with the cause of that.
func TestCalibrateEnds(t *testing.T) {
	t.Parallel()
	scores, right := drawn(1000, 20, nil)
	cause := errors.New("no more")
	ctx, stop := context.WithCancelCause(t.Context())
	if _, _, _, err := Calibrate(ctx, scores, right); err != nil { // of the most that a request may have
		t.Error(err)
	}
	ended := &endsAfter{Context: ctx, n: 20, end: func() { stop(cause) }}
	if c, _, _, err := Calibrate(ended, scores, right); !errors.Is(err, cause) || c != nil {
		t.Errorf("%+v %v", c, err)
	}
	if ended.n < -12 {
		t.Errorf("the fit went on for %d looks at its context", -ended.n)
	}
}

// An endsAfter is a context that ends when it was looked at n times.
type endsAfter struct {
	context.Context
	n   int
	end func()
}

func (e *endsAfter) Err() error {
	if e.n--; e.n == 0 {
		e.end()
	}
	return e.Context.Err()
}

// What cannot come has no chance, whatever its prior, and what cannot come by the prior only has all of it.
func TestScoresAreNumbers(t *testing.T) {
	t.Parallel()
	no := math.Inf(-1)
	of := func(sums ...float64) *Stem {
		s := &Stem{}
		for _, sum := range sums {
			s.branches = append(s.branches, &branch{ids: []int32{1, 2}, from: 1, sum: sum})
		}
		return s
	}
	st := of(no, no, -2, -3)
	got := st.Scores(of(no, -1, no, -1), func(_, tokens int) float64 { return float64(2 * tokens) })
	if want := []float64{no, no, mostScore, -1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, c := range []*Calibration{nil, {Temperature: LeastTemperature}, {Temperature: MostTemperature, Bias: []float64{0, 0, 0, 9}}} {
		all := st.Compare(got, c)
		if all[0].Probability != 0 || all[1].Probability != 0 || all[2].Probability != 1 || !(all[3].Probability < 1e-200) {
			t.Errorf("%+v: %+v", c, all)
		}
	}
	if _, before, after, err := Calibrate(t.Context(), [][]float64{got, got, got}, []int{0, 2, 2}); err != nil ||
		math.IsNaN(before.NLL+before.ECE+after.NLL+after.ECE) {
		t.Errorf("%+v %+v %v", before, after, err)
	}
}
