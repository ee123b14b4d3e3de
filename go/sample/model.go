package sample

import "fmt"

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
	for _, key := range []string{"mirostat", "xtc_probability"} {
		if v, ok := number(key); ok && v != 0 {
			notes = append(notes, fmt.Sprintf("%s%s is %v, which is not supported yet: ignored", prefix, key, v))
		}
	}
	return p, notes
}
