package sound

import (
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
)

// At returns the samples at another rate, between 1000 and 192000: through a low-pass of a Kaiser window with beta = 5 over
// ten periods on each side, as scipy.signal.resample_poly. Sums are in float64 and in one order.
func (m *Mono) At(rate int) []float32 {
	if rate == m.Rate {
		return m.Samples
	}
	divisor := gcd(rate, m.Rate)
	up, down := rate/divisor, m.Rate/divisor
	taps, half := lowPass(up, down)
	n := (len(m.Samples)*up + down - 1) / down
	dst := make([]float32, n)
	for i := range dst {
		// Sample k is at k up, in steps of both rates' common multiple; the filter's middle at i down.
		at := i * down
		first, last := max((at-half+up-1)/up, 0), min((at+half)/up, len(m.Samples)-1)
		if at < half {
			first = 0
		}
		var sum float64
		for k := first; k <= last; k++ {
			sum += float64(taps[at-k*up+half] * float64(m.Samples[k]))
		}
		dst[i] = float32(sum)
	}
	return dst
}

// lowPass returns the filter between rates of up and down, and where its middle is.
func lowPass(up, down int) (taps []float64, half int) {
	const beta, periods = 5, 10
	widest := max(up, down)
	half = periods * widest
	taps = make([]float64, 2*half+1)
	var sum float64
	for i := range taps {
		x := float64(i-half) / float64(widest)
		sinc := 1.0
		if x != 0 {
			sinc = exactmath.Sin(math.Pi*x) / (math.Pi * x)
		}
		edge := float64(i-half) / float64(half)
		taps[i] = sinc * bessel(beta*math.Sqrt(1-float64(edge*edge)))
		sum += taps[i]
	}
	for i := range taps { // of all that fall on the samples of one phase the sum is 1
		taps[i] = taps[i] / sum * float64(up)
	}
	return taps, half
}

// bessel returns the modified Bessel function of the first kind and order 0, by its series, for x below 30.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > sum*1e-17; k++ {
		half := x / (2 * k)
		term *= float64(half * half)
		sum += term
	}
	return sum
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
