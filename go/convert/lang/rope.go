package lang

import (
	"math"

	"github.com/quern-llm/quern/go/convert/hf"
)

// rope sets the keys of rotary position embeddings.
func (k *Keys) rope() {
	if theta := k.Theta(); theta > 0 {
		k.F("rope.freq_base", theta)
	}
	local := k.NumberOr("local_rope_theta rope_local_theta rope_theta_local swa_rope_theta rope_local_base_freq", 0)
	if r := k.RopeOf("sliding_attention"); r.Has("rope_theta") && k.Within("rope_parameters").Has("sliding_attention") {
		local = r.Number("rope_theta")
	}
	if local > 0 {
		k.F("rope.freq_base_swa", local)
	}
	r := k.RopeOf("full_attention")
	defer k.Config.Take(r)
	switch kind := r.Text("rope_type type"); kind {
	case "", "default", "llama3", "mrope", "proportional", "xdrope":
	case "dynamic":
		if !r.Has("alpha") { // which is how Hunyuan's base is grown for all lengths
			k.F("quern.rope.scaling.dynamic_factor", r.NumberOr("factor", 1))
		}
	case "linear":
		k.Set("rope.scaling.type", "linear")
		k.F("rope.scaling.factor", r.Number("factor"))
	case "yarn":
		if r.Has("long_factor") { // a former name of LongRoPE
			k.longRope(r)
		} else {
			k.yarn(r)
		}
	case "su", "longrope":
		k.longRope(r)
	default:
		k.Fail("rotations of the type %q are not known", kind)
	}
	if sections := r.List("mrope_section xdrope_section"); sections != nil {
		list := k.Integers("mrope_section", sections)
		for len(list) < 4 {
			list = append(list, 0)
		}
		all := make([]int32, 4)
		for i := range all {
			all[i] = int32(list[i])
		}
		k.Set("rope.dimension_sections", all)
	}
}

// original returns the context of the first training, as rotations of this kind count it.
func (k *Keys) original(r *hf.Config) int {
	return k.CountOr("original_max_position_embeddings",
		r.CountOr("original_max_position_embeddings", k.CountOr("max_position_embeddings", 0)))
}

// stretch returns how many times longer the context is than that of the first training.
func (k *Keys) stretch(r *hf.Config) float64 {
	return r.NumberOr("factor", float64(k.CountOr("max_position_embeddings", 0))/float64(max(k.original(r), 1)))
}

// yarn sets the keys of YaRN.
func (k *Keys) yarn(r *hf.Config) {
	factor := k.stretch(r)
	k.Set("rope.scaling.type", "yarn")
	k.F("rope.scaling.factor", factor)
	k.N("rope.scaling.original_context_length", k.original(r))
	for _, s := range (Settings{
		{"rope.scaling.yarn_ext_factor", 'f', "extrapolation_factor"},
		{"rope.scaling.yarn_attn_factor", 'f', "attention_factor attn_factor"},
		{"rope.scaling.yarn_beta_fast", 'f', "beta_fast"},
		{"rope.scaling.yarn_beta_slow", 'f', "beta_slow"},
	}) {
		if r.Has(s.From) {
			k.F(s.Key, r.Number(s.From))
		}
	}
	if r.Has("truncate") {
		k.B("quern.rope.scaling.yarn_truncate", r.Flag("truncate"))
	}
	length, of, all := r.NumberOr("attention_factor", 0), r.NumberOr("mscale", 0), r.NumberOr("mscale_all_dim", 0)
	if length == 0 && of != 0 && all != 0 && factor > 1 {
		length = (0.1*of*math.Log(factor) + 1) / (0.1*all*math.Log(factor) + 1)
	}
	if length != 0 {
		k.F("quern.rope.scaling.yarn_length", length)
	}
}

// longRope sets the keys of LongRoPE; see also factors.
func (k *Keys) longRope(r *hf.Config) {
	old, factor := k.original(r), k.stretch(r)
	k.Set("rope.scaling.type", "longrope")
	k.N("rope.scaling.original_context_length", old)
	length := 1.0
	if factor > 1 && old > 1 {
		length = math.Sqrt(1 + math.Log(factor)/math.Log(float64(old)))
	}
	k.F("rope.scaling.attn_factor", r.NumberOr("attention_factor", length))
}

// factors computes the tensors that divide the frequencies of rotations.
func (k *Keys) factors() {
	r := k.RopeOf("full_attention")
	defer k.Config.Take(r)
	kind := r.Text("rope_type type")
	long, short := r.Numbers("long_factor"), r.Numbers("short_factor")
	if kind != "llama3" && long == nil {
		return
	}
	channels := int(float64(k.HeadDim()) * k.Partial(1))
	for _, kv := range k.KVs {
		if n, ok := kv.Value.(uint32); ok && kv.Key == k.Arch+".rope.dimension_count" {
			channels = k.Channels(int(n))
		}
	}
	if kind == "llama3" {
		k.Factors = map[string]View{"rope_freqs.weight": Constant(k.llama3(r, channels))}
		return
	}
	if want := channels / 2; len(long) != want || len(short) != want {
		r.Fail("%d long and %d short factors of rotations, want %d", len(long), len(short), want)
		return
	}
	k.Factors = map[string]View{"rope_factors_long.weight": Constant(long), "rope_factors_short.weight": Constant(short)}
}

// llama3 returns the factors that Llama 3 divides its rotations' frequencies by.
func (k *Keys) llama3(r *hf.Config, channels int) []float32 {
	base, factor := k.Theta(), r.NumberOr("factor", 8)
	if base == 0 {
		base = 10000
	}
	low, high := r.NumberOr("low_freq_factor", 1), r.NumberOr("high_freq_factor", 4)
	old := k.NumberOr("original_max_position_embeddings", r.NumberOr("original_max_position_embeddings", 8192))
	factors := make([]float32, channels/2)
	for i := range factors {
		wave := 2 * math.Pi * math.Pow(base, float64(2*i)/float64(channels))
		switch {
		case wave < old/high:
			factors[i] = 1
		case wave > old/low:
			factors[i] = float32(factor)
		default:
			smooth := (old/wave - low) / (high - low)
			factors[i] = float32(1 / ((1-smooth)/factor + smooth))
		}
	}
	return factors
}
