package family

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var mimo2 = lang.Family{
	Arch:  "mimo2",
	Names: "MiMoV2FlashForCausalLM MiMoV2ForCausalLM",
	Rules: lang.Rules{
		{"self_attn.attention_sink_bias", "attn_sinks.weight", nil},
		{"pre_mlp_layernorm", "ffn_norm", nil}, // in layers that predict further tokens
		{"final_layernorm", "nextn.shared_head_norm", nil},
	}.And(predicting, ends, attention, dense, mixture),
	Settings: lang.Settings{
		{"expert_count", 'n', "n_routed_experts"},
		{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
		{"attention.sliding_window", 'n', "sliding_window"},
		{"attention.value_length", 'n', "v_head_dim"},
		{"attention.value_scale", 'f', "attention_value_scale"},
		{"expert_weights_scale", 'f', "routed_scaling_factor"},
	},
	Keys: func(k *lang.Keys) {
		rotating(k, 1)
		k.F("attention.layer_norm_rms_epsilon", k.NumberOr("layernorm_epsilon rms_norm_eps", 1e-5))
		windows := make([]bool, k.Layers())
		if kinds := k.List("hybrid_layer_pattern"); kinds == nil && k.Has("layer_types") {
			windows = k.TypesOf("sliding_attention")
		} else if len(kinds) != len(windows) {
			k.Fail("hybrid_layer_pattern names %d layers of %d", len(kinds), len(windows))
		} else {
			for i := range windows {
				windows[i] = kinds[i] == 1.0
			}
		}
		nextKeys(k)
		windows = append(windows, slices.Repeat([]bool{true}, min(k.CountOr(nextLayers, 0), mostNext))...)
		near := k.HeadsKV()
		if !k.Has("hybrid_layer_pattern") { // what transformers 5 leaves out is twice as many
			near *= 2
		}
		k.Ns("attention.head_count_kv", lang.Where(windows, k.CountOr("swa_num_key_value_heads", near), k.HeadsKV()))
		if k.Has("sliding_window_size") { // which a token sees beside itself
			k.N("attention.sliding_window", k.Count("sliding_window_size")+1)
		}
		k.Ns("attention.sliding_window_pattern", lang.Where(windows, 1, 0))
		if k.CountOr("n_group", 1) <= 1 {
			k.Drop("expert_group_count", "expert_group_used_count")
		}
	},
	Fixed:   lang.Fixed{{"norm_topk_prob", "true"}},
	Next:    countNext,
	Rename:  nextOfQwen,
	Stripes: mimoStripes,
	Skip:    []string{"speech_embeddings."},
}

// mimoStripes says how the queries, keys and values of MiMo V2.5 were divided: among as many machines as layers without
// a window have heads of keys, in all layers.
func mimoStripes(c *hf.Config, name string) lang.Stripes {
	if !strings.HasSuffix(name, ".self_attn.qkv_proj.weight") {
		return lang.Stripes{}
	}
	shared, kinds := c.HeadsKV(), c.List("hybrid_layer_pattern")
	if il := lang.Parse(nextOfQwen(c, lang.Plain(name)), nil).Layer; il >= len(kinds) || il >= 0 && kinds[il] == 1.0 {
		shared = c.Count("swa_num_key_value_heads")
	}
	return lang.Stripes{
		N: uint64(c.HeadsKV()),
		Rows: []uint64{uint64(c.Heads() * c.HeadDim()), uint64(shared * c.HeadDim()),
			uint64(shared * c.Count("v_head_dim"))},
	}
}
