package exactmath

import "math"

// ln2 in two parts, the first of which has few bits: its products with small whole numbers are exact.
const (
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
)

// QuickExp returns e to the power x, within some units in the last place; 0 and infinity beyond +-700. As QuickLog, it rounds
// each product before it is added.
func QuickExp(x float64) float64 {
	switch {
	case x < -700:
		return 0
	case x > 700:
		return math.Inf(1)
	case x-x != 0: // NaN
		return x
	}
	n := math.Round(x / math.Ln2)
	r := (x - float64(n*ln2High)) - float64(n*ln2Low) // at most 0.35
	sum := 1.0
	for k := 16.0; k >= 1; k-- { // 1 + r (1 + r / 2 (1 + r / 3 (...)))
		sum = 1 + float64(r*sum)/k
	}
	return math.Ldexp(sum, int(n))
}
