package convert

import (
	"math"
)

var phi3 = family{
	arch:  "phi3",
	names: "Phi3ForCausalLM",
	rules: rules{
		{"mlp.gate_up_proj", "ffn_up", nil},
	}.And(ends, attention, dense),
	keys:  phi3Keys,
	extra: phi3Factors,
}

func phi3Keys(k *keys) {
	rotating(k, 1)
	k.n("rope.scaling.original_context_length", k.countOr("original_max_position_embeddings", k.count("max_position_embeddings")))
	k.n("attention.sliding_window", k.countOr("sliding_window", 0)) // 0 tells Phi 4 from others
	k.drop("rope.scaling.type")
	if scale, old, kind := stretch(k.config); kind != "" {
		factor := 1.0
		switch {
		case scale > 1 && kind == "yarn":
			factor = 0.1*math.Log(scale) + 1
		case scale > 1:
			factor = math.Sqrt(1 + math.Log(scale)/math.Log(old))
		}
		k.f("rope.scaling.attn_factor", factor)
	}
}

// stretch returns by how much the context is longer than at first, what it was, and the kind of scaling that has factors for
// each channel, if there is one.
func stretch(c *config) (scale, old float64, kind string) {
	r := c.ropeOf("full_attention")
	defer c.take(r)
	old = float64(c.countOr("original_max_position_embeddings", c.count("max_position_embeddings")))
	if r.has("original_max_position_embeddings") {
		old = r.number("original_max_position_embeddings")
	}
	if r.has("long_factor") {
		kind = r.text("rope_type type")
	}
	return float64(c.count("max_position_embeddings")) / max(old, 1), old, kind
}

// phi3Factors are of long and of short contexts.
func phi3Factors(c *config) map[string]view {
	return longFactors(c, int(float64(c.headDim())*c.partial(1)))
}

// longFactors returns the factors for the given number of rotated channels.
func longFactors(c *config, channels int) map[string]view {
	r := c.ropeOf("full_attention")
	defer c.take(r)
	long, short := r.numbers("long_factor"), r.numbers("short_factor")
	if long == nil {
		return nil
	}
	if want := channels / 2; len(long) != want || len(short) != want {
		r.fail("%d long and %d short factors of rotations, want %d", len(long), len(short), want)
		return nil
	}
	return map[string]view{"rope_factors_long.weight": constant(long), "rope_factors_short.weight": constant(short)}
}
