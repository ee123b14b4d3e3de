package family

import (
	"math"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var phi3 = lang.Family{
	Arch:  "phi3",
	Names: "Phi3ForCausalLM",
	Rules: lang.Rules{
		{"mlp.gate_up_proj", "ffn_up", nil},
	}.And(ends, attention, dense),
	Keys:  phi3Keys,
	Extra: phi3Factors,
}

func phi3Keys(k *lang.Keys) {
	rotating(k, 1)
	k.N("rope.scaling.original_context_length", k.CountOr("original_max_position_embeddings",
		k.Count("max_position_embeddings")))
	k.N("attention.sliding_window", k.CountOr("sliding_window", 0)) // Phi 4 is recognized by 0
	k.Drop("rope.scaling.type")
	if scale, old, kind := stretch(k.Config); kind != "" {
		factor := 1.0
		switch {
		case scale > 1 && kind == "yarn":
			factor = 0.1*math.Log(scale) + 1
		case scale > 1:
			factor = math.Sqrt(1 + math.Log(scale)/math.Log(old))
		}
		k.F("rope.scaling.attn_factor", factor)
	}
}

// stretch returns how many times longer the context is than it was at first, how long it was, and the type of scaling
// if it has factors for each channel.
func stretch(c *hf.Config) (scale, old float64, kind string) {
	r := c.RopeOf("full_attention")
	defer c.Take(r)
	old = float64(c.CountOr("original_max_position_embeddings", c.Count("max_position_embeddings")))
	if r.Has("original_max_position_embeddings") {
		old = r.Number("original_max_position_embeddings")
	}
	if r.Has("long_factor") {
		kind = r.Text("rope_type type")
	}
	return float64(c.Count("max_position_embeddings")) / max(old, 1), old, kind
}

// phi3Factors returns the factors for long and for short contexts.
func phi3Factors(c *hf.Config) map[string]lang.View {
	return longFactors(c, int(float64(c.HeadDim())*c.Partial(1)))
}

// longFactors returns the factors for this number of rotating channels.
func longFactors(c *hf.Config, channels int) map[string]lang.View {
	r := c.RopeOf("full_attention")
	defer c.Take(r)
	long, short := r.Numbers("long_factor"), r.Numbers("short_factor")
	if long == nil {
		return nil
	}
	if want := channels / 2; len(long) != want || len(short) != want {
		r.Fail("%d long and %d short factors of rotations, want %d", len(long), len(short), want)
		return nil
	}
	return map[string]lang.View{"rope_factors_long.weight": lang.Constant(long),
		"rope_factors_short.weight": lang.Constant(short)}
}
