package main

import (
	"math"
	"math/rand/v2"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/sample"
)

// samplingFlags control how tokens are chosen.
type samplingFlags struct {
	params sample.Params
	seed   int // -1: random
	flags  *pflag.FlagSet
}

func (f *samplingFlags) define(fs *pflag.FlagSet) {
	f.flags = fs
	f.params = sample.Defaults()
	p := &f.params
	floatVar(fs, &p.Temp, "temp", p.Temp, -100, 100, "temperature; 0 or less takes the likeliest token")
	intVar(fs, &p.TopK, "top-k", "", p.TopK, -1, math.MaxInt32, "choose among the K likeliest tokens; 0 or -1 is all")
	floatVar(fs, &p.TopP, "top-p", p.TopP, 0, 1, "choose among the likeliest that make up this probability; 1 is all")
	floatVar(fs, &p.MinP, "min-p", p.MinP, 0, 1, "leave out tokens less likely than this share of the likeliest; 0 is none")
	intVar(fs, &f.seed, "seed", "s", -1, -1, math.MaxInt64, "seed of the choices; -1 is a random one")
	auto(fs, "seed", &f.seed, "4294967295") // llama.cpp's unsigned equivalent of -1
	floatVar(fs, &p.RepeatPenalty, "repeat-penalty", p.RepeatPenalty, 0.01, 100, "make tokens seen already less likely; 1 does not")
	intVar(fs, &p.RepeatLastN, "repeat-last-n", "", p.RepeatLastN, -1, 1<<24, "tokens that the penalties look back at; -1 is all")
	floatVar(fs, &p.PresencePenalty, "presence-penalty", 0, -100, 100, "taken off the logit of each token seen")
	floatVar(fs, &p.FrequencyPenalty, "frequency-penalty", 0, -100, 100, "the same, for each time it was seen")
}

// seeded returns the sampling parameters, with a random seed for each run unless one
// was given.
func (f *samplingFlags) seeded() sample.Params {
	p := f.params
	p.Temp = max(p.Temp, 0)
	p.Seed = uint64(f.seed)
	if f.seed < 0 {
		p.Seed = rand.Uint64()
	}
	return p
}

// forModel returns the sampling parameters: those in the model's metadata, overridden by
// the flags. note is called with what is ignored of the metadata, and why.
func (f *samplingFlags) forModel(meta sample.Metadata, note func(string)) sample.Params {
	p, ignored := sample.Defaults().ForModel(meta)
	for _, line := range ignored {
		note(line)
	}
	return f.over(p)
}

// over returns p overridden by the flags that were given.
func (f *samplingFlags) over(p sample.Params) sample.Params {
	for name, set := range map[string]func(){
		"temp":              func() { p.Temp = max(f.params.Temp, 0) },
		"top-k":             func() { p.TopK = f.params.TopK },
		"top-p":             func() { p.TopP = f.params.TopP },
		"min-p":             func() { p.MinP = f.params.MinP },
		"repeat-penalty":    func() { p.RepeatPenalty = f.params.RepeatPenalty },
		"repeat-last-n":     func() { p.RepeatLastN = f.params.RepeatLastN },
		"presence-penalty":  func() { p.PresencePenalty = f.params.PresencePenalty },
		"frequency-penalty": func() { p.FrequencyPenalty = f.params.FrequencyPenalty },
	} {
		if f.flags.Changed(name) {
			set()
		}
	}
	return p
}
