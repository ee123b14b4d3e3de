package exactmath

import "math"

// QuickLog returns the natural logarithm of a positive finite x, within some units in the last place. Each product is
// rounded before it is added: a compiler may not fuse what is converted.
func QuickLog(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	if fraction < math.Sqrt2/2 {
		fraction, exponent = 2*fraction, exponent-1
	}
	s := (fraction - 1) / (fraction + 1) // the logarithm of the fraction is 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.172
	square, sum := float64(s*s), 0.0
	for odd := 21.0; odd >= 1; odd -= 2 {
		sum = float64(sum*square) + 1/odd
	}
	return float64(float64(exponent)*math.Ln2) + float64(float64(2*s)*sum)
}

// Log1p returns the natural logarithm of 1 + x of a positive x, as QuickLog.
func Log1p(x float64) float64 {
	y := 1 + x
	if y == 1 || x-x != 0 { // NaN, or infinite
		return x
	}
	return float64(QuickLog(y)*x) / (y - 1) // what was lost by adding 1
}
