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
