package nn

import (
	"cmp"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// A Rope is how a layer rotates its queries and keys. Equal ones share a table.
type Rope struct {
	Style   kernel.Rope // of the zero value: none
	NRot    int         // rotated dimensions of a head
	Base    float64
	Scaling Scaling
	Factors string // a tensor that divides the frequencies, where the file has it
	Of      int    // dimensions that the tensor is for; 0: NRot

	// Of LongRoPE (Ding et al. 2024), whose factors are those of shortFactors, and in contexts of
	// more positions than that, those of longFactors. See Config.For.
	NCtxShort int

	// The factor of dynamic NTK: in contexts of more positions than those of the training, the base grows. 0: it does
	// not.
	Dynamic float64

	// Pairs that turn by each of a token's places (M-RoPE, Wang et al. 2024, "Qwen2-VL"), one place after the other, or
	// in turns. Zeros: all turn by its position.
	Sections [kernel.Axes]int
	InTurns  bool

	Back  bool // it is undone
	Shift int  // what is added to positions
	At    int  // the first dimension that is rotated
	Plane Plane
}

// A Plane says by which places of a token, not its position, pairs turn: see kernel.Batch.Place. The zero value is none.
type Plane struct {
	Axes    [2]int32 // of the first half of the pairs, and of the second
	Mixed   bool     // of every other pair, rather
	Between bool     // the frequencies of the second lie between those of the first
}

// Places of the patches of a picture.
const (
	Down, Across = int32(1), int32(2) // rows and columns of patches
)

// axes returns the axis of each of n pairs; nil: there are none.
func (p Plane) axes(n int) []int32 {
	if p == (Plane{}) {
		return nil
	}
	list := make([]int32, n)
	for i := range list {
		_, of := p.pair(i, n)
		list[i] = p.Axes[of]
	}
	return list
}

// pair returns which pair of n is meant by the frequency of pair i, and of which axis it is. Both axes have frequencies from
// the first on, and with them half of those that there would be.
func (p Plane) pair(i, n int) (at float64, axis int) {
	switch {
	case p.Axes[0] == p.Axes[1]:
		return float64(i), 0
	case p.Mixed:
		at, axis = float64(i/2*2), i%2
	default:
		at, axis = float64(i%(n/2)*2), i/(n/2)
	}
	if p.Between {
		at += float64(axis)
	}
	return at, axis
}

const (
	shortFactors = "rope_factors_short.weight"
	longFactors  = "rope_factors_long.weight"
)

// Scaling says how rotations are scaled for contexts longer than those of the first training.
type Scaling struct {
	Type   string  // "none", "linear" or "yarn"
	Factor float64 // by which the positions are compressed

	AttnFactor float64 // by which rotated pairs grow; 0: 1

	// Of yarn.
	Length             float64 // that rotated pairs have before AttnFactor; 0: by YaRN's formula
	NCtxOrig           int
	ExtFactor          float64
	LogMultiplier      float64 // 0: none
	Mscale             float64 // of the numerator; 0: 1
	BetaFast, BetaSlow float64
	Fractional         bool // the ends of its ramp are not rounded to whole pairs
}

// NoScaling leaves the positions as they are.
var NoScaling = Scaling{Type: "none", Factor: 1}

// Freqs returns by how much each pair of dimensions turns from one position to
// the next. factors divide the frequencies where a model has them (Llama 3.1
// and later), else they are nil.
//
// Pair i turns by base^(-2i/n_rot). Linear scaling divides that by the factor,
// as if positions lay closer. YaRN (Peng et al. 2023) does so only for pairs
// that turn slowly: those that turn more than BetaFast times within the original
// context keep their frequency, those below BetaSlow are divided, and in
// between, by index of the pair, there is a ramp, whose ends are rounded outwards unless it is Fractional.
func (r Rope) Freqs(factors []float32) []float64 {
	s := r.Scaling
	low, high := 0.0, 0.0
	if s.Type == "yarn" {
		low, high = r.pairThatTurns(s.BetaFast), r.pairThatTurns(s.BetaSlow)
		if !s.Fractional {
			low, high = math.Floor(low), math.Ceil(high)
		}
		low, high = max(0, low), min(float64(r.NRot-1), high)
	}
	// Conversions keep products from being fused with the sums around them, which
	// some CPUs would do and others not.
	freqs := make([]float64, r.NRot/2)
	for i := range freqs {
		at, _ := r.Plane.pair(i, r.NRot/2)
		f := exactmath.Pow(r.Base, -2*at/float64(r.NRot))
		if factors != nil {
			f /= float64(factors[i])
		}
		keep := 0.0 // the share that is not divided
		if s.Type == "yarn" {
			ramp := (float64(i) - low) / max(0.001, high-low)
			keep = float64((1 - min(max(ramp, 0), 1)) * s.ExtFactor)
		}
		freqs[i] = float64(f/s.Factor*(1-keep)) + float64(f*keep)
		if r.Back {
			freqs[i] = -freqs[i]
		}
	}
	return freqs
}

// sections returns by which of a token's places each pair turns; nil: all by its position.
func (r Rope) sections() []int32 {
	var turns []int32 // of pairs, which begin again where they end
	for axis, n := range r.Sections {
		turns = append(turns, slices.Repeat([]int32{int32(axis)}, n)...)
	}
	if len(turns) == 0 {
		return nil
	}
	axes := make([]int32, r.NRot/2)
	for pair := range axes {
		axes[pair] = turns[pair%len(turns)]
		if r.InTurns {
			axes[pair] = int32(pair % 3)
			if pair/3 >= r.Sections[pair%3] { // that section is used up
				axes[pair] = 0
			}
		}
	}
	return axes
}

// Scale returns the factor of the lengths of rotated pairs.
func (r Rope) Scale() float32 {
	s := r.Scaling
	length := cmp.Or(s.AttnFactor, 1)
	switch {
	case s.Type == "yarn" && s.Length != 0:
		length *= s.Length
	case s.Type == "yarn" && s.ExtFactor != 0:
		length *= 1 + float64(0.1*cmp.Or(s.Mscale, 1)*exactmath.Log(s.Factor))
		length /= 1 + float64(0.1*s.LogMultiplier*exactmath.Log(s.Factor))
	}
	return float32(length)
}

// pairThatTurns returns the fractional index of the pair that turns this many times within the original context.
func (r Rope) pairThatTurns(times float64) float64 {
	return float64(r.NRot) * exactmath.Log(float64(r.Scaling.NCtxOrig)/(times*2*math.Pi)) / (2 * exactmath.Log(r.Base))
}
