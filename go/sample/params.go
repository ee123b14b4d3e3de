package sample

import (
	"fmt"
	"math"
	"strings"
)

// Params say how to choose.
type Params struct {
	Chain   string // letters of samplers, in their order, repeats included; "": DefaultChain, and adaptive-p if it has a target
	Seed    uint64 // of the random draws; every value is valid, none means random
	MinKeep int    // the fewest tokens that typical, top-p, min-p and XTC leave; 0 or 1: one

	Temp        float32 // divides the logits; 0 or less takes the largest
	DynRange    float32 // the temperature is Temp plus or minus this, by the entropy; 0 or less: Temp
	DynExponent float32 // how the entropy, as a share of the largest possible, maps to that range

	TopK      int     // keep the k largest; 0 or less keeps all
	TopP      float32 // keep the fewest, largest first, whose probabilities reach p; 1 or more keeps all
	MinP      float32 // keep those at least p times as probable as the largest; 0 or less keeps all
	TypicalP  float32 // keep the fewest, nearest to the entropy first, whose probabilities exceed p; 1 or more keeps all
	TopNSigma float32 // keep those within n standard deviations of the largest logit; 0 or less keeps all

	XTCProbability float32 // how often the tokens above the threshold go, all but the least likely of them
	XTCThreshold   float32 // above 0.5 disables it

	RepeatLastN      int     // the penalties look at this many last tokens; 0 is none, -1 is all
	RepeatPenalty    float32 // divides a positive logit, multiplies a negative one; 1 is neutral
	FrequencyPenalty float32 // taken off the logit for each time the token occurs
	PresencePenalty  float32 // taken off the logit once if the token occurs

	DryMultiplier    float32   // of the penalty on going on with a repeated sequence; 0 is neutral
	DryBase          float32   // the penalty grows by this factor with each repeated token; below 1 is neutral
	DryAllowedLength int       // sequences shorter than this are free
	DryLastN         int       // DRY looks at this many last tokens; 0 is none, -1 is all
	DryBreakers      *Breakers // no repetition reaches across these; nil: none

	Mirostat    int     // 1 or 2: Mirostat of that version instead of the chain, but for the temperature
	MirostatTau float32 // the surprise to hold, in bits
	MirostatEta float32 // how fast it is corrected

	AdaptiveTarget float32 // adaptive-p: probability of the tokens to choose; less than 0 disables it
	AdaptiveDecay  float32 // of the memory of what was chosen

	Infill *Infill // for the infill sampler; nil disables it
}

// Defaults returns llama.cpp's, with seed 0.
func Defaults() Params {
	return Params{
		Temp: 0.8, DynExponent: 1, TopK: 40, TopP: 0.95, MinP: 0.05, TypicalP: 1, TopNSigma: -1,
		XTCThreshold: 0.1, RepeatLastN: 64, RepeatPenalty: 1,
		DryBase: 1.75, DryAllowedLength: 2, DryLastN: 64,
		MirostatTau: 5, MirostatEta: 0.1, AdaptiveTarget: -1, AdaptiveDecay: 0.9,
	}
}

// MaxChain is how many samplers a chain may have.
const MaxChain = 32

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
		{"dynamic temperature range", float64(p.DynRange), -100, 100},
		{"dynamic temperature exponent", float64(p.DynExponent), 0, 100},
		{"top-k", float64(p.TopK), -1, math.MaxInt32},
		{"top-p", float64(p.TopP), 0, 1},
		{"min-p", float64(p.MinP), 0, 1},
		{"typical-p", float64(p.TypicalP), 0, 1},
		{"top-n-sigma", float64(p.TopNSigma), -100, 100},
		{"min-keep", float64(p.MinKeep), 0, math.MaxInt32},
		{"XTC probability", float64(p.XTCProbability), 0, 1},
		{"XTC threshold", float64(p.XTCThreshold), 0, 1},
		{"repeat-last-n", float64(p.RepeatLastN), -1, maxLastN},
		{"repeat penalty", float64(p.RepeatPenalty), 0.01, 100},
		{"frequency penalty", float64(p.FrequencyPenalty), -100, 100},
		{"presence penalty", float64(p.PresencePenalty), -100, 100},
		{"DRY multiplier", float64(p.DryMultiplier), -100, 100},
		{"DRY base", float64(p.DryBase), 0, 100},
		{"DRY allowed length", float64(p.DryAllowedLength), 0, maxLastN},
		{"DRY last-n", float64(p.DryLastN), -1, maxLastN},
		{"Mirostat", float64(p.Mirostat), 0, 2},
		{"Mirostat tau", float64(p.MirostatTau), 0, 100},
		{"Mirostat eta", float64(p.MirostatEta), 0, 100},
		{"adaptive-p target", float64(p.AdaptiveTarget), -100, 1},
		{"adaptive-p decay", float64(p.AdaptiveDecay), 0, 0.99},
	} {
		// 0.01 as a float32 is slightly less than 0.01, 0.99 slightly more.
		if !(f.v >= float64(float32(f.lo)) && f.v <= max(f.hi, float64(float32(f.hi)))) { // NaN is out of every range
			return fmt.Errorf("%s %v is outside %v to %v", f.name, float32(f.v), f.lo, f.hi)
		}
	}
	if len(p.Chain) > MaxChain {
		return fmt.Errorf("%d samplers, want at most %d", len(p.Chain), MaxChain)
	}
	for _, letter := range p.Chain {
		if NameOf(letter) == "" {
			return fmt.Errorf("%q is no sampler, want letters of %s", letter, Letters)
		}
	}
	return nil
}

// DefaultChain is llama.cpp's.
const DefaultChain = "edskypmxt"

// Letters are those of all samplers.
const Letters = DefaultChain + "ai"

// names are those of the samplers, by letter.
var names = map[rune]string{
	'e': "penalties", 'd': "dry", 's': "top_n_sigma", 'k': "top_k", 'y': "typ_p", 'p': "top_p", 'm': "min_p", 'x': "xtc",
	't': "temperature", 'a': "adaptive_p", 'i': "infill",
}

// NameOf returns the name of the sampler with this letter, "" if there is none.
func NameOf(letter rune) string { return names[letter] }

// Named returns the letter of the sampler with this name. As in llama.cpp, case does not
// matter, nor whether - or nothing takes the place of _, and some have a second name.
func Named(name string) (letter rune, ok bool) {
	plain := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
	switch plain {
	case "nucleus":
		return 'p', true
	case "temp":
		return 't', true
	case "typ", "typicalp", "typical":
		return 'y', true
	}
	for _, letter := range Letters {
		if strings.ReplaceAll(names[letter], "_", "") == plain {
			return letter, true
		}
	}
	return 0, false
}
