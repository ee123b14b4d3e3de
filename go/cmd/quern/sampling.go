package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/sample"
)

// samplingFlags control how tokens are chosen.
type samplingFlags struct {
	params   sample.Params
	breakers []string // of DRY
	seed     int      // -1: random
	flags    *pflag.FlagSet
}

// A samplingFlag is a parameter, of which one of the two is.
type samplingFlag struct {
	name        string
	number      func(*sample.Params) *float32
	count       func(*sample.Params) *int
	least, most float32
	usage       string
}

var commonSampling = []samplingFlag{
	{"temp", func(p *sample.Params) *float32 { return &p.Temp }, nil, -100, 100, "temperature; 0 or less is greedy decoding"},
	{"top-k", nil, func(p *sample.Params) *int { return &p.TopK }, -1, math.MaxInt32, "keep the K most likely tokens; 0 or -1 is all"},
	{"top-p", func(p *sample.Params) *float32 { return &p.TopP }, nil, 0, 1, "keep the most likely tokens up to this cumulative probability; 1 is all"},
	{"min-p", func(p *sample.Params) *float32 { return &p.MinP }, nil, 0, 1, "drop tokens less likely than this share of the most likely; 0 drops none"},
	{"repeat-penalty", func(p *sample.Params) *float32 { return &p.RepeatPenalty }, nil, 0.01, 100, "penalty of repeated tokens; 1 is none"},
	{"repeat-last-n", nil, func(p *sample.Params) *int { return &p.RepeatLastN }, -1, 1 << 24, "tokens that the penalties look back; -1 is all"},
	{"presence-penalty", func(p *sample.Params) *float32 { return &p.PresencePenalty }, nil, -100, 100, "subtracted from the logits of tokens seen"},
	{"frequency-penalty", func(p *sample.Params) *float32 { return &p.FrequencyPenalty }, nil, -100, 100, "the same, for each time a token was seen"},
}

// rareSampling are left out of the help; docs/migrating.md has them.
var rareSampling = []samplingFlag{
	{"dynatemp-range", func(p *sample.Params) *float32 { return &p.DynRange }, nil, -100, 100, "vary the temperature by up to this, depending on the entropy"},
	{"dynatemp-exp", func(p *sample.Params) *float32 { return &p.DynExponent }, nil, 0, 100, "how the entropy maps to that range"},
	{"typical-p", func(p *sample.Params) *float32 { return &p.TypicalP }, nil, 0, 1, "locally typical sampling: keep tokens of typical surprise up to this cumulative probability; 1 is all"},
	{"top-n-sigma", func(p *sample.Params) *float32 { return &p.TopNSigma }, nil, -100, 100, "drop logits more than this many standard deviations below the largest; 0 or less drops none"},
	{"xtc-probability", func(p *sample.Params) *float32 { return &p.XTCProbability }, nil, 0, 1, "probability that XTC drops the most likely tokens"},
	{"xtc-threshold", func(p *sample.Params) *float32 { return &p.XTCThreshold }, nil, 0, 1, "XTC drops tokens of at least this probability, except the least likely of them"},
	{"dry-multiplier", func(p *sample.Params) *float32 { return &p.DryMultiplier }, nil, -100, 100, "DRY penalty of tokens that would continue a repeated sequence"},
	{"dry-base", func(p *sample.Params) *float32 { return &p.DryBase }, nil, 0, 100, "growth of the DRY penalty with each repeated token"},
	{"dry-allowed-length", nil, func(p *sample.Params) *int { return &p.DryAllowedLength }, 0, 1 << 24, "DRY allows repetitions up to this length"},
	{"dry-penalty-last-n", nil, func(p *sample.Params) *int { return &p.DryLastN }, -1, 1 << 24, "tokens that DRY looks back; -1 is all"},
	{"mirostat", nil, func(p *sample.Params) *int { return &p.Mirostat }, 0, 2, "Mirostat 1 or 2, instead of all samplers except temperature"},
	{"mirostat-ent", func(p *sample.Params) *float32 { return &p.MirostatTau }, nil, 0, 100, "target surprise of Mirostat, in bits"},
	{"mirostat-lr", func(p *sample.Params) *float32 { return &p.MirostatEta }, nil, 0, 100, "learning rate of Mirostat"},
	{"adaptive-target", func(p *sample.Params) *float32 { return &p.AdaptiveTarget }, nil, -100, 1, "adaptive-p: prefer tokens of about this probability; below 0 is off"},
	{"adaptive-decay", func(p *sample.Params) *float32 { return &p.AdaptiveDecay }, nil, 0, 0.99, "weight of earlier choices in adaptive-p"},
}

func (f *samplingFlags) define(fs *pflag.FlagSet) {
	f.flags = fs
	f.params = sample.Defaults()
	p := &f.params
	for _, list := range [][]samplingFlag{commonSampling, rareSampling} {
		for _, s := range list {
			if s.number != nil {
				floatVar(fs, s.number(p), s.name, *s.number(p), s.least, s.most, s.usage)
			} else {
				intVar(fs, s.count(p), s.name, "", *s.count(p), int(s.least), int(s.most), s.usage)
			}
		}
	}
	intVar(fs, &f.seed, "seed", "s", -1, -1, math.MaxInt64, "seed of the sampler; -1 is random")
	auto(fs, "seed", &f.seed, "4294967295") // llama.cpp's unsigned equivalent of -1
	fs.Var(&chainValue{&p.Chain, false}, "samplers", "`NAMES` of the samplers in order, separated by ;")
	fs.Var(&chainValue{&p.Chain, true}, "sampler-seq", "the same, in `LETTERS` such as edskypmxt")
	f.breakers = sample.DefaultBreakers
	fs.Var(&breakersValue{p: &f.breakers}, "dry-sequence-breaker", "`TEXT` that ends a repetition, or none; repeatable")
	for _, s := range rareSampling {
		fs.Lookup(s.name).Hidden = true
	}
	for _, name := range []string{"samplers", "sampler-seq", "dry-sequence-breaker"} {
		fs.Lookup(name).Hidden = true
	}
}

// seeded returns the sampling parameters for a vocabulary, with a random seed for each
// run unless one was given.
func (f *samplingFlags) seeded(v *sample.Vocabulary) sample.Params {
	p := f.params
	p.Temp = max(p.Temp, 0)
	p.Seed = uint64(f.seed)
	if f.seed < 0 {
		p.Seed = rand.Uint64()
	}
	if p.DryMultiplier != 0 && len(f.breakers) > 0 {
		p.DryBreakers = v.Breakers(f.breakers)
	}
	if strings.Contains(p.Chain, "i") {
		p.Infill = v.Infill()
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
	for _, list := range [][]samplingFlag{commonSampling, rareSampling} {
		for _, s := range list {
			switch {
			case !f.flags.Changed(s.name):
			case s.number != nil:
				*s.number(&p) = *s.number(&f.params)
			default:
				*s.count(&p) = *s.count(&f.params)
			}
		}
	}
	if f.flags.Changed("samplers") || f.flags.Changed("sampler-seq") {
		p.Chain = f.params.Chain
	}
	p.Temp = max(p.Temp, 0)
	return p
}

// chainValue is a list of samplers.
type chainValue struct {
	letters *string
	short   bool
}

func (v *chainValue) Set(s string) error {
	if v.short {
		for _, letter := range s {
			if sample.NameOf(letter) == "" {
				return fmt.Errorf("%q is no sampler, want letters of %s", letter, sample.Letters)
			}
		}
	} else {
		letters := ""
		for name := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ';' || r == ',' }) {
			letter, ok := sample.Named(name)
			if !ok {
				return fmt.Errorf("%q is no sampler, want names such as %s", name, chainNames(sample.DefaultChain))
			}
			letters += string(letter)
		}
		s = letters
	}
	if len(s) > sample.MaxChain {
		return fmt.Errorf("want at most %d samplers", sample.MaxChain)
	}
	*v.letters = s
	return nil
}

func (v *chainValue) String() string {
	letters := *v.letters
	if letters == "" {
		letters = sample.DefaultChain
	}
	if v.short {
		return letters
	}
	return chainNames(letters)
}

func (v *chainValue) Type() string { return "TEXT" }

func chainNames(letters string) string {
	var names []string
	for _, letter := range letters {
		names = append(names, sample.NameOf(letter))
	}
	return strings.Join(names, ";")
}

// breakersValue collects texts. The first one replaces the defaults.
type breakersValue struct {
	p     *[]string
	given bool
}

func (v *breakersValue) Set(s string) error {
	if !v.given {
		*v.p, v.given = nil, true
	}
	switch {
	case s == "none":
		return nil
	case s == "" || len(s) > sample.MaxBreakerLength:
		return fmt.Errorf("want 1 to %d bytes, or none", sample.MaxBreakerLength)
	case len(*v.p) == sample.MaxBreakers:
		return fmt.Errorf("want it at most %d times", sample.MaxBreakers)
	}
	*v.p = append(*v.p, s)
	return nil
}

func (v *breakersValue) String() string { return strings.Join(*v.p, "") }
func (v *breakersValue) Type() string   { return "TEXT" }
