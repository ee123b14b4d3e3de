package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// windowShare returns the share of a head's channels that rotate in layers with a window.
func windowShare(c *hf.Config) float64 {
	r := c.RopeOf("sliding_attention")
	defer c.Take(r)
	return r.NumberOr("partial_rotary_factor", 1)
}

// windows sets which layers have a window, as config.json says it: a list of their kinds, the first one with a window,
// or else all. Where usual is not nil, it says of which layers files without a list are.
func windows(k *lang.Keys, usual func(il int) bool) {
	n, on, first := k.CountOr("sliding_window", 0), k.FlagOr("use_sliding_window", true), k.CountOr("max_window_layers", 0)
	kinds := k.Has("layer_types")
	if n == 0 || !on {
		k.Drop("attention.sliding_window")
		return
	}
	is := make([]bool, k.Layers())
	if !k.Has("use_sliding_window") {
		first = 0
	}
	for il := range is {
		is[il] = il >= first
	}
	if kinds {
		is = k.TypesOf("sliding_attention")
	} else if every := k.CountOr(everyNth, 0); every > 0 {
		for il := range is {
			is[il] = allBut(every)(il)
		}
	} else if usual != nil {
		return
	}
	for il := range is {
		if usual == nil || is[il] != usual(il) {
			k.N("attention.sliding_window", n)
			k.Bs("attention.sliding_window_pattern", is)
			return
		}
	}
}

// everyNth is what config.json calls the number n of which each n-th layer has no window.
const everyNth = "sliding_window_pattern _sliding_window_pattern global_attn_every_n_layers"

// windowed is windows for families whose layers have none otherwise.
func windowed(k *lang.Keys) { windows(k, nil) }

// allBut is false for every n-th layer, n-1 first, and true for the others.
func allBut(n int) func(il int) bool { return func(il int) bool { return (il+1)%n != 0 } }

// rotated returns which layers have rotations: those that a list says, or all but every n-th.
func rotated(k *lang.Keys) []bool {
	is, list := make([]bool, k.Layers()), k.Integers("no_rope_layers", k.List("no_rope_layers"))
	every := max(k.CountOr("no_rope_layer_interval", 4), 1)
	if len(list) > 0 && len(list) != len(is) {
		k.Fail("no_rope_layers has %d layers of %d", len(list), len(is))
		return is
	}
	for il := range is {
		is[il] = allBut(every)(il)
		if len(list) > 0 {
			is[il] = list[il] != 0 // 0 is a layer without
		}
	}
	return is
}

// layerBases returns which layers have rotations, and their base, if config.json lists bases; otherwise nil.
func layerBases(k *lang.Keys) (rotates []bool, base float64) {
	bases := k.Numbers("layer_rope_theta")
	if bases == nil {
		return nil, 0
	}
	if len(bases) != k.Layers() {
		k.Fail("layer_rope_theta has %d layers of %d", len(bases), k.Layers())
	}
	for _, b := range bases {
		rotates = append(rotates, b > 0)
		if base == 0 {
			base = float64(b)
		}
		if b > 0 && float64(b) != base {
			k.Fail("layer_rope_theta has %v and %v, want one base, or 0 for none", base, b)
		}
	}
	if base == 0 {
		base = k.Theta()
	}
	return rotates, base
}

// windowsApart sets which layers have a window, and how many of their channels rotate.
func windowsApart(k *lang.Keys) {
	rotating(k, 1)
	if k.CountOr("sliding_window", 0) == 0 {
		return
	}
	k.N("attention.sliding_window", k.Count("sliding_window"))
	k.Bs("attention.sliding_window_pattern", k.TypesOf("sliding_attention"))
	k.N("rope.dimension_count_swa", int(float64(k.HeadDim())*windowShare(k.Config)))
}
