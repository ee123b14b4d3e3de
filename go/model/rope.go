package model

import (
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
)

// ropeFreqs returns by how much each pair of dimensions turns from one position
// to the next, and the length by which rotated pairs grow. factors divide the
// frequencies where a model has them (Llama 3.1 and later).
//
// Pair i turns by theta^(-2i/n_rot). Linear scaling divides that by the factor,
// as if positions lay closer. YaRN (Peng et al. 2023) does so only for pairs
// that turn slowly: those that turn more than BetaFast times within the original
// context keep their frequency, those below BetaSlow are divided, and in
// between, by index of the pair, there is a ramp.
func ropeFreqs(c *Config, factors []float32) (freqs []float64, scale float32) {
	s := c.Rope
	low, high := 0.0, 0.0
	if s.Type == "yarn" {
		low = max(0, math.Floor(pairThatTurns(c, s.BetaFast)))
		high = min(float64(c.NRot-1), math.Ceil(pairThatTurns(c, s.BetaSlow)))
	}
	// Conversions keep products from being fused with the sums around them, which
	// some CPUs would do and others not.
	freqs = make([]float64, c.NRot/2)
	for i := range freqs {
		f := exactmath.Pow(c.RopeTheta, -2*float64(i)/float64(c.NRot))
		if factors != nil {
			f /= float64(factors[i])
		}
		keep := 0.0 // the share that is not divided
		if s.Type == "yarn" {
			ramp := (float64(i) - low) / max(0.001, high-low)
			keep = float64((1 - min(max(ramp, 0), 1)) * s.ExtFactor)
		}
		freqs[i] = float64(f/s.Factor*(1-keep)) + float64(f*keep)
	}
	scale = 1
	if s.Type == "yarn" {
		length := s.AttnFactor
		if s.ExtFactor != 0 {
			length *= 1 + float64(0.1*exactmath.Log(s.Factor))
		}
		scale = float32(length)
	}
	return freqs, scale
}

// pairThatTurns returns the index, not whole, of the pair that turns this many
// times within the original context.
func pairThatTurns(c *Config, times float64) float64 {
	return float64(c.NRot) * exactmath.Log(float64(c.Rope.NCtxOrig)/(times*2*math.Pi)) / (2 * exactmath.Log(c.RopeTheta))
}
