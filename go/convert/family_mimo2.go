package convert

import (
	"slices"
	"strings"
)

var mimo2 = family{
	arch:  "mimo2",
	names: "MiMoV2FlashForCausalLM MiMoV2ForCausalLM",
	rules: rules{
		{"self_attn.attention_sink_bias", "attn_sinks.weight", nil},
		{"pre_mlp_layernorm", "ffn_norm", nil}, // of layers that predict tokens further on
		{"final_layernorm", "nextn.shared_head_norm", nil},
	}.And(predicting, ends, attention, dense, mixture),
	settings: settings{
		{"expert_count", 'n', "n_routed_experts"},
		{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
		{"attention.sliding_window", 'n', "sliding_window"},
		{"attention.value_length", 'n', "v_head_dim"},
		{"attention.value_scale", 'f', "attention_value_scale"},
	},
	keys: func(k *keys) {
		rotating(k, 1)
		k.f("attention.layer_norm_rms_epsilon", k.numberOr("layernorm_epsilon rms_norm_eps", 1e-5))
		windows := make([]bool, k.layers())
		kinds := k.config.list("hybrid_layer_pattern")
		if len(kinds) != len(windows) {
			k.fail("hybrid_layer_pattern names %d layers of %d", len(kinds), len(windows))
		}
		for i := range min(len(kinds), len(windows)) {
			windows[i] = kinds[i] == 1.0
		}
		nextKeys(k)
		windows = append(windows, slices.Repeat([]bool{true}, min(k.countOr(nextLayers, 0), mostNext))...)
		k.ns("attention.head_count_kv", where(windows, k.count("swa_num_key_value_heads"), k.headsKV()))
		k.ns("attention.sliding_window_pattern", where(windows, 1, 0))
		k.drop("expert_group_count", "expert_group_used_count")
	},
	next:    countNext,
	rename:  nextOfQwen,
	stripes: mimoStripes,
	skip:    []string{"speech_embeddings."},
}

// mimoStripes says how the queries, keys and values of MiMo V2.5 were cut: for as many machines as layers without a window have
// key-value heads, whatever those of the layer are.
func mimoStripes(c *config, name string) stripes {
	if !strings.HasSuffix(name, ".self_attn.qkv_proj.weight") {
		return stripes{}
	}
	shared, kinds := c.headsKV(), c.list("hybrid_layer_pattern")
	if il := parse(nextOfQwen(c, plain(name)), nil).layer; il >= len(kinds) || il >= 0 && kinds[il] == 1.0 {
		shared = c.count("swa_num_key_value_heads")
	}
	return stripes{
		n:    uint64(c.headsKV()),
		rows: []uint64{uint64(c.heads() * c.headDim()), uint64(shared * c.headDim()), uint64(shared * c.count("v_head_dim"))},
	}
}
