// Package exactmath provides logarithms and powers with identical results on every
// machine. Package math does not: math.Exp, which math.Pow uses, fuses multiply-adds on
// some CPUs, and math.Log is assembly on some. Results of Pow and Log are computed with 128
// bits and rounded once. That takes some ten microseconds: use them for values that are
// computed once.
package exactmath

import (
	"math"
	"math/big"
)

const precision = 128

// Pow returns x to the power y, for x above 0 and a result that is not subnormal. In
// all other cases it is math.Pow.
func Pow(x, y float64) float64 {
	want := math.Pow(x, y)
	if !(x > 0) || !regular(x) || !regular(y) || !regular(want) {
		return want // exact on every machine: 0, infinity, NaN, or 1
	}
	r, _ := exp(num().Mul(num().SetFloat64(y), log(x))).Float64()
	return r
}

// Log returns the natural logarithm of x.
func Log(x float64) float64 {
	if !(x > 0) || !regular(x) {
		return math.Log(x)
	}
	r, _ := log(x).Float64()
	return r
}

// counts reports whether adding a to sum changes it, or the bit below its last.
func counts(a, sum *big.Float) bool {
	return a.Sign() != 0 && (sum.Sign() == 0 || a.MantExp(nil) > sum.MantExp(nil)-precision-2)
}

func regular(x float64) bool { return math.Abs(x) >= 0x1p-1000 && math.Abs(x) <= 0x1p1000 }

func num() *big.Float { return new(big.Float).SetPrec(precision) }

func of(n int) *big.Float { return num().SetInt64(int64(n)) }

// log is, for x = m 2^e with m in [1/2, 1), e ln 2 + ln m.
func log(x float64) *big.Float {
	m, e := math.Frexp(x)
	f := num().SetFloat64(m)
	t := num().Quo(num().Sub(f, of(1)), num().Add(f, of(1)))
	return num().Add(num().Mul(of(e), ln2), atanh2(t))
}

// ln 2 = 2 atanh(1/3).
var ln2 = atanh2(num().Quo(of(1), of(3)))

// atanh2 returns 2 atanh(t) = ln((1 + t) / (1 - t)), |t| <= 1/3: the sum of
// 2 t^k / k over odd k.
func atanh2(t *big.Float) *big.Float {
	square := num().Mul(t, t)
	power := num().Mul(t, of(2))
	sum := num()
	for k := 1; counts(power, sum); k += 2 {
		sum.Add(sum, num().Quo(power, of(k)))
		power.Mul(power, square)
	}
	return sum
}

// exp is 2^n times the series of the remainder, which is at most ln 2.
func exp(x *big.Float) *big.Float {
	n, _ := num().Quo(x, ln2).Int64()
	rest := num().Sub(x, num().Mul(of(int(n)), ln2))
	term, sum := of(1), of(1)
	for k := 1; counts(term, sum); k++ {
		term.Quo(term.Mul(term, rest), of(k))
		sum.Add(sum, term)
	}
	return num().SetMantExp(sum, int(n))
}
