package family

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var step35 = lang.Family{
	Arch:  "step35",
	Names: "Step3p5ForCausalLM",
	Rules: lang.PlusOne(lang.Rules{
		{"self_attn.g_proj", "attn_gate", nil},
		{"moe.gate", "ffn_gate_inp", nil},
		{"moe.router_bias", "exp_probs_b.bias", nil},
		{"moe.gate_proj", "ffn_gate_exps", nil},
		{"moe.up_proj", "ffn_up_exps", nil},
		{"moe.down_proj", "ffn_down_exps", nil},
		{"share_expert.gate_proj", "ffn_gate_shexp", nil},
		{"share_expert.up_proj", "ffn_up_shexp", nil},
		{"share_expert.down_proj", "ffn_down_shexp", nil},
	}.And(predicting, ends, attention, dense)),
	Settings: lang.Settings{
		{"attention.sliding_window", 'n', "sliding_window"},
		{"expert_count", 'n', "moe_num_experts"},
		{"expert_used_count", 'n', "moe_top_k"},
		{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
		{"expert_shared_feed_forward_length", 'n', "share_expert_dim"},
		{"expert_weights_scale", 'f', "moe_router_scaling_factor"},
		{"expert_weights_norm", 'b', "norm_expert_weight"},
	},
	Keys:   stepKeys,
	Change: stepBases,
	Rename: func(_ *hf.Config, name string) string { // in layers that predict further tokens
		name = strings.Replace(name, ".transformer.shared_head.", ".shared_head.", 1)
		return strings.Replace(name, ".shared_head.output.", ".shared_head.head.", 1)
	},
}

// stepBases splits the list of rotation bases, one for each layer, into one for each kind of layer.
func stepBases(c *hf.Config, f *lang.Family) *lang.Family {
	bases, isList := c.Value("rope_theta").([]any)
	if !isList {
		return f
	}
	c.Remove("rope_theta")
	kinds := c.Texts("layer_types")
	for i, base := range bases {
		name := "rope_theta"
		if i < len(kinds) && kinds[i] == "sliding_attention" {
			name = "local_rope_theta"
		}
		if was := c.Value(name); was != nil && was != base {
			c.Fail("rope_theta has %v and %v for layers of one kind; want one", was, base)
		}
		c.Put(name, base)
	}
	return f
}

// stepKeys sets what differs between layers. Lists continue with the layers that predict further tokens.
func stepKeys(k *lang.Keys) {
	rotating(k, 1)
	further(k)
	n := k.Layers() + min(k.CountOr("num_nextn_predict_layers", 0), mostNext)
	windows := make([]bool, n)
	kinds, shares := k.Texts("layer_types"), k.Numbers("partial_rotary_factors")
	for i := range windows {
		windows[i] = i < len(kinds) && kinds[i] == "sliding_attention"
		if share := lang.Where(windows[i:i+1], 2, 1)[0]; i < len(shares) && 2*shares[i] != float32(share) {
			k.Fail("partial_rotary_factors has %v for layer %d, want %v", shares[i], i, float32(share)/2)
		}
	}
	other := k.Within("attention_other_setting")
	heads, shared := k.Heads(), k.CountOr("num_attention_groups num_key_value_heads", k.Heads())
	k.Ns("attention.head_count", lang.Where(windows, other.CountOr("num_attention_heads", heads), heads))
	k.Ns("attention.head_count_kv", lang.Where(windows, other.CountOr("num_attention_groups", shared), shared))
	k.Take(other)
	k.Bs("attention.sliding_window_pattern", windows)
	k.F("attention.layer_norm_rms_epsilon", k.NumberOr("rms_norm_eps", 1e-5))
	if list, _, _ := strings.Cut(k.Text("moe_layers_enum"), ","); list != "" {
		if first, ok := hf.Digits(strings.TrimSpace(list)); ok {
			k.N("leading_dense_block_count", first)
		}
	}
	k.Want("moe_every_n_layer", "1")
	k.Limits("swiglu_clamp_exp", "swiglu_limits", n)
	k.Limits("swiglu_clamp_shexp", "swiglu_limits_shared", n)
}
