package arch

import (
	"slices"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// rope reads the rotations of all layers.
func (k *keys) rope(style kernel.Rope) { k.ropeOver(style, "rope.dimension_count") }

// ropeOver is rope where another key says over how many dimensions.
func (k *keys) ropeOver(style kernel.Rope, rotated string) {
	scaling := k.scaling()
	base := k.floatOr("rope.freq_base", 10000, 1.001, 1e15)
	for i := range k.c.Layers {
		l := &k.c.Layers[i]
		if l.NHead == 0 {
			continue
		}
		r := Rope{Style: style, Base: base, Scaling: scaling, Factors: "rope_freqs.weight"}
		if _, ok := k.f.Tensor(longFactors); ok {
			r.NCtxShort = k.intOr("rope.scaling.original_context_length", k.c.NCtx, 1, maxCtx)
		}
		r.NRot = k.intOr(rotated, l.HeadDim, 2, max(l.HeadDim, 2))
		if r.NRot%2 != 0 {
			k.fail(rotated, "%d, want an even number", r.NRot)
		}
		l.Rope = r
	}
}

// noRope takes the rotations from all layers.
func (k *keys) noRope() {
	for il := range k.c.Layers {
		k.c.Layers[il].Rope = Rope{}
	}
}

// temperature reads by what queries grow with their position, over as many positions as a
// key says.
func (k *keys) temperature(span string) {
	scale := float32(k.floatOr("attention.temperature_scale", 0, 0, 1e3))
	if scale == 0 {
		return
	}
	if !k.has(span) {
		span = "rope.scaling.original_context_length"
	}
	t := kernel.Temperature{Scale: scale, Span: k.intOr(span, k.c.NCtx, 1, maxCtx)}
	for il := range k.c.Layers {
		k.c.Layers[il].Temperature = t
	}
}

// scaling reads how the rotations are stretched.
func (k *keys) scaling() Scaling {
	s := noScaling
	const typ = "rope.scaling.type"
	switch {
	case k.has(typ):
		var err error
		s.Type, err = k.f.Str(k.name(typ))
		k.keep(err)
	case k.has("rope.scaling.factor") || k.has("rope.scale_linear"):
		s.Type = "linear" // what the key meant before there were types
	}
	if !slices.Contains([]string{"none", "linear", "yarn", "longrope"}, s.Type) {
		k.fail(typ, "%.40q is not supported, supported are none linear yarn longrope", s.Type)
	}
	if k.has("rope.scaling.attn_factor") {
		s.AttnFactor = k.float("rope.scaling.attn_factor", 1e-3, 1e3)
	}
	if s.Type == "none" || s.Type == "longrope" {
		return s
	}
	s.Factor = k.floatOr("rope.scaling.factor", k.floatOr("rope.scale_linear", 1, 0, 1e6), 0, 1e6)
	if s.Factor == 0 { // some files write 0 for none
		s.Factor = 1
	}
	if s.Type != "yarn" {
		return s
	}
	s.NCtxOrig = k.intOr("rope.scaling.original_context_length", k.c.NCtx, 1, maxCtx)
	s.ExtFactor = k.floatOr("rope.scaling.yarn_ext_factor", 1, 0, 1)
	// The length of transformers' attention_factor. But 1 is that of configurations with attn_factor,
	// which multiplies the length that YaRN has.
	if n := k.floatOr("rope.scaling.yarn_attn_factor", 1, 1e-3, 1e3); n != 1 {
		s.Length = n
	}
	s.LogMultiplier = k.floatOr("rope.scaling.yarn_log_multiplier", 0, 0, 1e3)
	s.BetaFast = k.floatOr("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6)
	s.BetaSlow = k.floatOr("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6)
	return s
}

// textSections checks that the sections of the rotations, which are for the positions of
// text, of images' rows and of their columns, leave no pair without one: for text, where all
// three are the same, they are then plain rotations. Pairs take the sections in turn.
func (k *keys) textSections() {
	const key = "rope.dimension_sections"
	if !k.has(key) {
		return
	}
	s, err := k.f.Ints(k.name(key))
	k.keep(err)
	if len(s) < 3 {
		k.fail(key, "%d elements, want at least 3", len(s))
	}
	for _, l := range k.c.Layers {
		for pair := range int64(l.Rope.NRot / 2) {
			if pair/3 >= s[pair%3] {
				k.fail(key, "%v leaves pair %d of %d without a position", s, pair, l.Rope.NRot/2)
			}
		}
	}
}

// ntk reads by how much the base of rotations grows (NTK-aware scaling). Most files have the grown one.
func (k *keys) ntk() {
	const key = "rope.scaling.alpha"
	alpha := k.floatOr(key, 0, 0, 1e6)
	if alpha == 0 {
		return
	}
	for il := range k.c.Layers {
		l := &k.c.Layers[il]
		if l.HeadDim <= 2 {
			k.fail(key, "%v with heads of %d, want more than 2", alpha, l.HeadDim)
		}
		l.Rope.Base *= exactmath.Pow(alpha, float64(l.HeadDim)/float64(l.HeadDim-2))
	}
}
