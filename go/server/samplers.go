package server

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/sample"
)

// samplerList is the samplers to use. nil: all.
type samplerList []string

// ours are the known samplers, in their fixed order, with llama.cpp's one-letter names.
// Those that are not implemented are disabled by every value that their fields accept.
var ours = []struct {
	name, letter string
	built        bool
}{
	{"penalties", "e", true}, {"dry", "d", false}, {"top_n_sigma", "s", false}, {"top_k", "k", true},
	{"typ_p", "y", false}, {"top_p", "p", true}, {"min_p", "m", true}, {"xtc", "x", false},
	{"temperature", "t", true}, {"infill", "i", false},
}

const wantSamplers = "an array of names among penalties, top_k, top_p, min_p, temperature, in this order, or their letters such as kpmt"

func (l *samplerList) take(r *reader) error {
	names := []string{}
	if r.kind() == '"' {
		letters, err := r.text(wantSamplers)
		if err != nil {
			return err
		}
		for _, letter := range letters {
			names = append(names, string(letter))
		}
	} else {
		err := r.elements(wantSamplers, func(int) error {
			name, err := r.text(wantSamplers)
			names = append(names, name)
			return err
		})
		if err != nil {
			return err
		}
	}
	*l = samplerList{}
	last := -1
	for _, name := range names {
		at := -1
		for i, s := range ours {
			if name == s.name || name == s.letter || name == "typical_p" && s.letter == "y" {
				at = i
			}
		}
		if at < 0 {
			return fmt.Errorf("%s is no sampler, want %s", quote(name), wantSamplers)
		}
		if !ours[at].built {
			continue
		}
		if at <= last {
			return fmt.Errorf("%s comes after %s, want %s", quote(name), ours[last].name, wantSamplers)
		}
		last = at
		*l = append(*l, ours[at].name)
	}
	return nil
}

func (l *samplerList) value() any {
	shown := []string{}
	for _, s := range ours {
		if s.built && (*l == nil || slices.Contains(*l, s.name)) {
			shown = append(shown, s.name)
		}
	}
	return shown
}

func (l *samplerList) schema() schema {
	return schema{"description": wantSamplers, "anyOf": []schema{{"type": "string"}, {"type": "array", "items": schema{"type": "string"}}}}
}

// apply disables the samplers that are not in the list.
func (l samplerList) apply(p *sample.Params) {
	if l == nil {
		return
	}
	off := map[string]func(){
		"penalties":   func() { p.RepeatPenalty, p.FrequencyPenalty, p.PresencePenalty = 1, 0, 0 },
		"top_k":       func() { p.TopK = 0 },
		"top_p":       func() { p.TopP = 1 },
		"min_p":       func() { p.MinP = 0 },
		"temperature": func() { p.Temp = 1 },
	}
	for name, do := range off {
		if !slices.Contains(l, name) {
			do()
		}
	}
}
