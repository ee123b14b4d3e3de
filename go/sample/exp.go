package sample

import "math"

// weight returns e to the x, for x a logit's distance from the largest one,
// times 1/temperature: at most 0. It is 0 for NaN and for what is negligible.
// It has to stay small enough to be inlined: called, it takes three times as long.
func weight(x float64) float64 {
	if x > -negligible {
		return exp(x)
	}
	return 0
}

// negligible is where a weight no longer counts: a million of exp(-60) change
// no sum that begins with 1.
const negligible = 60

// exp returns e to the x for x in [-negligible, 0], with a relative error below
// 1e-12. Over a vocabulary it takes half the time of math.Exp.
//
// With k the integer nearest to 256·x/ln 2 and r = x - k·ln 2/256, it is
// 2^(k/256) · e^r. As |r| <= ln 2/512, the first term left out of the series,
// r^4/24, is below 2e-13. Conversions keep products from being fused with the
// sums around them, which some CPUs would do: a seed gives one text on all.
func exp(x float64) float64 {
	k := int(float64(x*(256/math.Ln2)) - 0.5) // towards 0, so to the nearest as x <= 0
	r := float64(x) - float64(float64(k)*(math.Ln2/256))
	power := math.Float64bits(roots[k&255]) + uint64(k>>8)<<52 // into the exponent
	return math.Float64frombits(power) * (1 + float64(r*(1+float64(r*(1./2+float64(r*(1./6)))))))
}

// roots are 2^(i/256): products of square roots of square roots of 2, which are
// the same on every CPU, as those of math.Exp2 are not.
var roots = func() (t [256]float64) {
	t[0] = 1
	root := 2.0
	for step := 128; step > 0; step /= 2 {
		root = math.Sqrt(root) // 2^(step/256)
		for i := 0; i < 256; i += 2 * step {
			t[i+step] = t[i] * root
		}
	}
	return t
}()

// log returns the natural logarithm of x, at least 0, with a relative error near that of
// a float64: the series of ln((1+t)/(1-t)) for what x is above a power of 2. Like exp,
// it gives the same result on every CPU.
func log(x float64) float64 {
	if !(x > 0) || x > math.MaxFloat64 {
		return math.Log(x) // -Inf, +Inf or NaN
	}
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	t := (m - 1) / (m + 1) // at most 0.172
	square, sum := float64(t*t), 0.0
	for k := 21; k >= 1; k -= 2 {
		sum = 1/float64(k) + float64(square*sum)
	}
	return float64(float64(e)*math.Ln2) + float64(2*float64(t*sum))
}

// power returns x to the y, for x at least 0.
func power(x, y float64) float64 {
	if x == 0 || y == 0 {
		return math.Pow(x, y) // exact
	}
	z := float64(y * log(x))
	switch {
	case z < -700:
		return 0
	case z <= 0:
		return exp(z)
	case z <= 700:
		return 1 / exp(-z)
	}
	return math.Inf(1)
}
