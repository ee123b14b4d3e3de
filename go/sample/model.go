package sample

import (
	"fmt"
	"strings"
)

// Metadata is what a model's file says about itself.
type Metadata interface {
	Value(key string) (any, bool)
}

// ForModel returns p with what the model's author recommends: the values under
// general.sampling in the model's file. The notes name those that are ignored,
// and why.
func (p Params) ForModel(meta Metadata) (Params, []string) {
	var notes []string
	const prefix = "general.sampling."
	number := func(key string) (float64, bool) {
		v, ok := meta.Value(prefix + key)
		if !ok {
			return 0, false
		}
		switch v := v.(type) {
		case float32:
			return float64(v), true
		case float64:
			return v, true
		case uint32:
			return float64(v), true
		case int32:
			return float64(v), true
		}
		notes = append(notes, fmt.Sprintf("%s%s is %T, want a number: ignored", prefix, key, v))
		return 0, false
	}
	for _, f := range []struct {
		key string
		set func(p *Params, v float64)
	}{
		{"temp", func(p *Params, v float64) { p.Temp = float32(v) }},
		{"top_k", func(p *Params, v float64) { p.TopK = int(v) }},
		{"top_p", func(p *Params, v float64) { p.TopP = float32(v) }},
		{"min_p", func(p *Params, v float64) { p.MinP = float32(v) }},
		{"penalty_last_n", func(p *Params, v float64) { p.RepeatLastN = int(v) }},
		{"penalty_repeat", func(p *Params, v float64) { p.RepeatPenalty = float32(v) }},
		{"xtc_probability", func(p *Params, v float64) { p.XTCProbability = float32(v) }},
		{"xtc_threshold", func(p *Params, v float64) { p.XTCThreshold = float32(v) }},
		{"mirostat", func(p *Params, v float64) { p.Mirostat = int(v) }},
		{"mirostat_tau", func(p *Params, v float64) { p.MirostatTau = float32(v) }},
		{"mirostat_eta", func(p *Params, v float64) { p.MirostatEta = float32(v) }},
	} {
		v, ok := number(f.key)
		if !ok {
			continue
		}
		changed := p
		f.set(&changed, v)
		if err := changed.Validate(); err != nil {
			notes = append(notes, fmt.Sprintf("%s%s: %v: ignored", prefix, f.key, err))
			continue
		}
		p = changed
	}
	if v, ok := meta.Value(prefix + "sequence"); ok {
		letters, note := sequence(v)
		if note != "" {
			notes = append(notes, prefix+"sequence: "+note+": ignored")
		} else {
			p.Chain = letters
		}
	}
	return p, notes
}

// sequence returns the letters of samplers given by name, with ; between, or why there
// are none.
func sequence(v any) (letters, note string) {
	text, ok := v.(string)
	if !ok {
		return "", fmt.Sprintf("%T, want names of samplers", v)
	}
	for name := range strings.SplitSeq(text, ";") {
		letter, ok := Named(name)
		if !ok {
			return "", fmt.Sprintf("%q is no sampler", name)
		}
		letters += string(letter)
	}
	if len(letters) > MaxChain {
		return "", fmt.Sprintf("%d samplers, want at most %d", len(letters), MaxChain)
	}
	return letters, ""
}
