package exactmath

import "math"

// Sin returns the sine of x, within 4e-16, and quickly: for |x| up to 1e5. Each product is rounded before it is added,
// so that no machine fuses the two.
func Sin(x float64) float64 { return quarter(x, 0) }

// Cos is the cosine, as Sin.
func Cos(x float64) float64 { return quarter(x, 1) }

// quarter returns the sine of x plus so many quarter turns.
func quarter(x float64, turns int) float64 {
	// pi/2 in three parts, of which the first two have 33 bits: their products with a small integer are exact.
	const a, b, c = 0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69
	n := math.RoundToEven(x * (2 / math.Pi))
	r := x - float64(n*a)
	r -= float64(n * b)
	r -= float64(n * c)
	turns += int(n)
	q := float64(r * r)
	s := 1.0
	if turns&1 == 0 {
		s = r
	}
	// Maclaurin's series, from the last term that counts: of the sine with odd factorials, of the cosine with even ones.
	sum := 0.0
	for k := 18; k >= 2; k -= 2 {
		sum = -float64(q / float64(k*(k+1-2*(turns&1))) * (1 + sum))
	}
	v := s + float64(s*sum)
	if turns&2 != 0 {
		return -v
	}
	return v
}
