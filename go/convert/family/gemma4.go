package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

var gemma4 = lang.Family{
	Arch:  "gemma4",
	Names: "Gemma4ForConditionalGeneration Gemma4ForCausalLM Gemma4UnifiedForConditionalGeneration",
	Rules: lang.Rules{
		{"layer_scalar", "layer_output_scale.weight", nil},
		{"post_feedforward_layernorm_1", "post_ffw_norm_1", nil},
		{"post_feedforward_layernorm_2", "post_ffw_norm_2", nil},
		{"pre_feedforward_layernorm_2", "pre_ffw_norm_2", nil},
		{"router.proj", "ffn_gate_inp", nil},
		{"router.scale", "ffn_gate_inp.scale", nil},
		{"router.per_expert_scale", "ffn_down_exps.scale", nil},
		{"experts.gate_up_proj", "ffn_gate_up_exps.weight", nil},
		{"experts.down_proj", "ffn_down_exps.weight", nil},
	}.And(perLayer, gemmaRules),
	Settings: lang.Settings{
		{"final_logit_softcapping", 'f', "final_logit_softcapping"},
		{"attention.sliding_window", 'n', "sliding_window"},
		{"expert_feed_forward_length", 'n', "expert_intermediate_size moe_intermediate_size"},
	},
	Keys:       gemma4Keys,
	Extra:      gemma4Factors,
	Tied:       true,
	Vocab:      gemma4Vocab,
	Activation: "gelu_new",
	Fixed:      lang.Fixed{{"use_bidirectional_attention", "vision false"}},
}

// gemma4Keys sets what differs between layers with and without a window.
func gemma4Keys(k *lang.Keys) {
	windows := k.TypesOf("sliding_attention")
	shared, layers := k.CountOr("num_kv_shared_layers", 0), len(windows)
	k.N("attention.shared_kv_layers", shared)
	k.N("embedding_length_per_layer_input", k.CountOr("hidden_size_per_layer_input", 0))
	k.Bs("attention.sliding_window_pattern", windows)
	full, window := fullHead(k.Config), k.CountOf("head_dim", windows)
	k.N("attention.key_length", full)
	k.N("attention.value_length", full)
	k.N("attention.key_length_swa", window)
	k.N("attention.value_length_swa", window)
	k.N("rope.dimension_count", full)
	k.N("rope.dimension_count_swa", int(float64(window)*windowShare(k.Config)))
	if k.Flag("use_double_wide_mlp") {
		wide := make([]bool, layers)
		for i := range wide {
			wide[i] = i >= layers-shared
		}
		n := k.Count("intermediate_size")
		k.Ns("feed_forward_length", lang.Where(wide, 2*n, n))
	}
	here, whole := k.CountOf("num_key_value_heads", windows), k.CountOf("num_key_value_heads", others(windows))
	if n := k.CountOr("num_global_key_value_heads", whole); n != here && n > 0 {
		k.Ns("attention.head_count_kv", lang.Where(windows, here, n))
	}
	if k.Experts() == 0 {
		k.Drop("expert_count", "expert_used_count", "expert_feed_forward_length")
	}
}

// fullHead returns the number of channels of a head in layers without a window.
func fullHead(c *hf.Config) int {
	if c.Has("global_head_dim") {
		return c.Count("global_head_dim")
	}
	return c.CountOf("head_dim", others(c.TypesOf("sliding_attention")))
}

// others returns the layers that a list has not.
func others(is []bool) []bool {
	not := make([]bool, len(is))
	for i := range is {
		not[i] = !is[i]
	}
	return not
}

// gemma4Factors returns factors that keep some channels of layers without a window from rotating: their period is
// longer than any text.
func gemma4Factors(c *hf.Config) map[string]lang.View {
	r := c.RopeOf("full_attention")
	defer c.Take(r)
	n := c.Channels(fullHead(c))
	turning := int(float64(n) * r.NumberOr("partial_rotary_factor", 1) / 2)
	factors := make([]float32, n/2)
	for i := range factors {
		factors[i] = 1
		if i >= turning {
			factors[i] = 1e30
		}
	}
	return map[string]lang.View{"rope_freqs.weight": lang.Constant(factors)}
}

// gemma4Vocab makes tokens visible that clients parse.
func gemma4Vocab(_ *hf.Config, v *vocab.Vocabulary) {
	for i, text := range v.Tokens {
		switch text {
		case "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", `<|"|>`:
			v.Types[i] = vocab.UserDefined
		}
	}
	v.Set("add_space_prefix", false)
	v.SetAdd("bos", true)
}
