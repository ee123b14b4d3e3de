package nn

import (
	"slices"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// YaRNTruncate is the key that says whether the ends of YaRN's ramp are whole pairs.
const YaRNTruncate = Own + "rope.scaling.yarn_truncate"

// RopePattern is the key that says which layers have rotations.
const RopePattern = Own + "attention.rope_pattern"

// Rope reads the rotations of all layers (Su et al. 2021).
func (k *Keys) Rope(style kernel.Rope) { k.RopeOver(style, "rope.dimension_count") }

// RopeOver is Rope with another key for the number of rotated dimensions.
func (k *Keys) RopeOver(style kernel.Rope, rotated string) {
	scaling := k.scaling()
	base := k.FloatOr("rope.freq_base", 10000, 1.001, 1e15)
	for i := range k.Config.Layers {
		l := &k.Config.Layers[i]
		if l.NHead == 0 {
			continue
		}
		r := Rope{Style: style, Base: base, Scaling: scaling, Factors: "rope_freqs.weight"}
		if _, ok := k.File.Tensor(longFactors); ok {
			r.NCtxShort = k.IntOr("rope.scaling.original_context_length", k.Config.NCtx, 1, MaxCtx)
		}
		r.Dynamic = k.FloatOr("quern.rope.scaling.dynamic_factor", 0, 0, 1e6)
		r.NRot = k.IntOr(rotated, l.HeadDim, 2, max(l.HeadDim, 2))
		if r.NRot%2 != 0 {
			k.Fail(rotated, "%d, want an even number", r.NRot)
		}
		l.Rope = r
	}
}

// NoRope removes the rotations from all layers.
func (k *Keys) NoRope() {
	for il := range k.Config.Layers {
		k.Config.Layers[il].Rope = Rope{}
	}
}

// Temperature reads by how much queries grow with their position. span is the key of the number of positions of a step.
func (k *Keys) Temperature(span string) {
	scale := float32(k.FloatOr("attention.temperature_scale", 0, 0, 1e3))
	if scale == 0 {
		return
	}
	if !k.Has(span) {
		span = "rope.scaling.original_context_length"
	}
	t := kernel.Temperature{Scale: scale, Span: k.IntOr(span, k.Config.NCtx, 1, MaxCtx)}
	for il := range k.Config.Layers {
		k.Config.Layers[il].Temperature = t
	}
}

// scaling reads how the rotations are scaled for longer contexts.
func (k *Keys) scaling() Scaling {
	s := NoScaling
	const typ = "rope.scaling.type"
	switch {
	case k.Has(typ):
		var err error
		s.Type, err = k.File.Str(k.Name(typ))
		k.Check(err)
	case k.Has("rope.scaling.factor") || k.Has("rope.scale_linear"):
		s.Type = "linear" // what the key meant before there were types
	}
	if !slices.Contains([]string{"none", "linear", "yarn", "longrope"}, s.Type) {
		k.Fail(typ, "%.40q is not supported, supported are none linear yarn longrope", s.Type)
	}
	if k.Has("rope.scaling.attn_factor") {
		s.AttnFactor = k.Float("rope.scaling.attn_factor", 1e-3, 1e3)
	}
	if s.Type == "none" || s.Type == "longrope" {
		return s
	}
	s.Factor = k.FloatOr("rope.scaling.factor", k.FloatOr("rope.scale_linear", 1, 0, 1e6), 0, 1e6)
	if s.Factor == 0 { // some files write 0 for none
		s.Factor = 1
	}
	if s.Type != "yarn" {
		return s
	}
	s.NCtxOrig = k.IntOr("rope.scaling.original_context_length", k.Config.NCtx, 1, MaxCtx)
	s.ExtFactor = k.FloatOr("rope.scaling.yarn_ext_factor", 1, 0, 1)
	// The length of transformers' attention_factor. But 1 is that of configurations with attn_factor,
	// which multiplies the length that YaRN has.
	if n := k.FloatOr("rope.scaling.yarn_attn_factor", 1, 1e-3, 1e3); n != 1 {
		s.Length = n
	}
	s.Length = k.FloatOr("quern.rope.scaling.yarn_length", s.Length, 0, 1e3)
	s.LogMultiplier = k.FloatOr("rope.scaling.yarn_log_multiplier", 0, 0, 1e3)
	s.BetaFast = k.FloatOr("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6)
	s.BetaSlow = k.FloatOr("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6)
	s.Fractional = !k.BoolOr(YaRNTruncate, true)
	return s
}

// Sections reads how many pairs turn by each of a token's places: in time, in rows and in columns of pictures, and by
// the number of the picture. Pairs take three of them in turns, and what is left by time; or one after the other. Text has one
// position for all.
func (k *Keys) Sections(inTurns bool) {
	const key = "rope.dimension_sections"
	if !k.Has(key) {
		return
	}
	s, err := k.File.Ints(k.Name(key))
	k.Check(err)
	if len(s) < 3 {
		k.Fail(key, "%d elements, want at least 3", len(s))
	}
	var sections [kernel.Axes]int
	for axis, n := range s[:min(len(s), len(sections))] {
		sections[axis] = k.within(key, n, 0, MaxHeadDim)
	}
	if inTurns && sections[3] > 0 {
		k.Fail(key, "%v, want three sections that take turns", s)
	}
	for il := range k.Config.Layers {
		r := &k.Config.Layers[il].Rope
		if r.Style != kernel.RopeNone {
			r.Sections, r.InTurns = sections, inTurns
		}
	}
}

// NTK reads by how much the base of rotations grows (NTK-aware scaling). Most files have the grown base.
func (k *Keys) NTK() {
	const key = "rope.scaling.alpha"
	alpha := k.FloatOr(key, 0, 0, 1e6)
	if alpha == 0 {
		return
	}
	for il := range k.Config.Layers {
		l := &k.Config.Layers[il]
		if l.HeadDim <= 2 {
			k.Fail(key, "%v with heads of %d, want more than 2", alpha, l.HeadDim)
		}
		l.Rope.Base *= exactmath.Pow(alpha, float64(l.HeadDim)/float64(l.HeadDim-2))
	}
}
