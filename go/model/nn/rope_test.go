package nn

import (
	"math"
	"testing"

	"github.com/quern-llm/quern/go/internal/exactmath"
)

// Frequencies are the same on all CPUs: no product is fused with a sum.
func TestRopeIsRoundedAtEachStep(t *testing.T) {
	const nRot, theta, factor, ext, attn = 4096, 500000, 3.7, 0.83, 1.3
	r := Rope{NRot: nRot, Base: theta, Scaling: Scaling{
		Type: "yarn", Factor: factor, NCtxOrig: 4096, ExtFactor: ext, AttnFactor: attn, BetaFast: 32, BetaSlow: 1,
	}}
	freqs, scale := r.Freqs(nil), r.Scale()
	low, high := math.Floor(r.pairThatTurns(32)), math.Ceil(r.pairThatTurns(1))
	for i, got := range freqs {
		f := exactmath.Pow(theta, -2*float64(i)/nRot)
		keep := mul(1-min(max((float64(i)-low)/(high-low), 0), 1), ext)
		if want := add(mul(f/factor, add(1, -keep)), mul(f, keep)); got != want {
			t.Errorf("pair %d turns by %x, want %x", i, got, want)
		}
	}
	if want := float32(mul(attn, add(1, mul(0.1, exactmath.Log(factor))))); scale != want {
		t.Errorf("scale %x, want %x", scale, want)
	}
}

// Functions that are not inlined round their results. (On amd64 the test has
// something to find with GOAMD64=v3.)

//go:noinline
func mul(a, b float64) float64 { return a * b }

//go:noinline
func add(a, b float64) float64 { return a + b }
