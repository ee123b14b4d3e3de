// Package sample turns logits into a token: penalties for repeated tokens, then
// top-k, top-p, min-p, temperature, and a random draw, in llama.cpp's order and with
// its defaults. A temperature of 0 takes the likeliest token.
//
// The same seed, tokens and logits give the same choice. Grammar masks and
// biases are for the caller to write into the logits: a token at -Inf is never
// chosen, and neither is one at NaN.
package sample

import (
	"fmt"
	"math"
)

// Params say how to choose.
type Params struct {
	Temp float32 // divides the logits; 0 or less takes the largest
	TopK int     // keep the k largest; 0 or less keeps all
	TopP float32 // keep the fewest, largest first, whose probabilities reach p; 1 or more keeps all
	MinP float32 // keep those at least p times as probable as the largest; 0 or less keeps all
	Seed uint64  // of the random draws; every value is valid, none means random

	RepeatLastN      int     // the penalties look at this many last tokens; 0 is none, -1 is all
	RepeatPenalty    float32 // divides a positive logit, multiplies a negative one; 1 is neutral
	FrequencyPenalty float32 // taken off the logit for each time the token occurs
	PresencePenalty  float32 // taken off the logit once if the token occurs
}

// Defaults returns llama.cpp's, with seed 0.
func Defaults() Params {
	return Params{Temp: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatLastN: 64, RepeatPenalty: 1}
}

// maxLastN is far above any context. It bounds the memory that a request can take.
const maxLastN = 1 << 24

// Validate returns an error that names the first parameter out of its range.
func (p Params) Validate() error {
	for _, f := range []struct {
		name   string
		v      float64
		lo, hi float64
	}{
		{"temperature", float64(p.Temp), 0, 100},
		{"top-k", float64(p.TopK), -1, math.MaxInt32},
		{"top-p", float64(p.TopP), 0, 1},
		{"min-p", float64(p.MinP), 0, 1},
		{"repeat-last-n", float64(p.RepeatLastN), -1, maxLastN},
		{"repeat penalty", float64(p.RepeatPenalty), 0.01, 100},
		{"frequency penalty", float64(p.FrequencyPenalty), -100, 100},
		{"presence penalty", float64(p.PresencePenalty), -100, 100},
	} {
		// 0.01 as a float32 is slightly less than 0.01.
		if !(f.v >= float64(float32(f.lo)) && f.v <= f.hi) { // NaN is out of every range
			return fmt.Errorf("%s %v is outside %v to %v", f.name, float32(f.v), f.lo, f.hi)
		}
	}
	return nil
}
