package family

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/lang"
)

var hyv4 = lang.Family{
	Arch:  "hy_v4",
	Names: "HYV4ForCausalLM",
	Rules: lang.Rules{
		{"self_attn.linear_gate", "attn_gate", nil},
		{"self_attn.learnable_sink_param", "attn_sinks.weight", nil},
		{"hc_attn_layer.hc_pre.hc_base", "hc_attn_base.weight", nil},
		{"hc_attn_layer.hc_pre.hc_fn", "hc_attn_fn.weight", nil},
		{"hc_attn_layer.hc_pre.hc_scale", "hc_attn_scale.weight", nil},
		{"hc_mlp_layer.hc_pre.hc_base", "hc_ffn_base.weight", nil},
		{"hc_mlp_layer.hc_pre.hc_fn", "hc_ffn_fn.weight", nil},
		{"hc_mlp_layer.hc_pre.hc_scale", "hc_ffn_scale.weight", nil},
		{"hc_head.hc_head_base", "output_hc_base.weight", nil},
		{"hc_head.hc_head_fn", "output_hc_fn.weight", nil},
		{"hc_head.hc_head_scale", "output_hc_scale.weight", nil},

		// as transformers 5 writes them
		{"mlp.linear_gate", "ffn_gate", nil},
		{"mlp.shared_experts.linear_gate", "ffn_gate_shexp", nil},
		{"hc_pre.hc_attn_layer.hc_base", "hc_attn_base.weight", nil},
		{"hc_pre.hc_attn_layer.hc_fn", "hc_attn_fn.weight", nil},
		{"hc_pre.hc_attn_layer.hc_scale", "hc_attn_scale.weight", nil},
		{"hc_pre.hc_mlp_layer.hc_base", "hc_ffn_base.weight", nil},
		{"hc_pre.hc_mlp_layer.hc_fn", "hc_ffn_fn.weight", nil},
		{"hc_pre.hc_mlp_layer.hc_scale", "hc_ffn_scale.weight", nil},
		{"hc_pre.hc_head.hc_head_base", "output_hc_base.weight", nil},
		{"hc_pre.hc_head.hc_head_fn", "output_hc_fn.weight", nil},
		{"hc_pre.hc_head.hc_head_scale", "output_hc_scale.weight", nil},
	}.And(indexed, latent, ends, attention, dense, mixture),
	Settings: latentSettings.And(lang.Settings{
		{"hyper_connection.count", 'n', "hc_mult"},
		{"hyper_connection.epsilon", 'f', "hc_eps"},
		{"hyper_connection.magnitude", 'f', "hc_magnitude"},
	}),
	Keys: func(k *lang.Keys) {
		latentKeys(k)
		k.Gating("sigmoid")
		k.Want("n_group", "1")
		k.Want("topk_group", "1")
		k.Drop("expert_group_count", "expert_group_used_count")
		if !k.Has("first_k_dense_replace") {
			k.N("leading_dense_block_count", k.Leading())
		}
		n := k.Layers()
		if limit := k.NumberOr("swiglu_limit", 0); limit > 0 {
			k.Set("swiglu_clamp_exp", slices.Repeat([]float32{float32(limit)}, n))
		}
		kinds := k.Texts("indexer_types")
		if kinds == nil && slices.ContainsFunc(k.Texts("layer_types"),
			func(kind string) bool { return strings.HasSuffix(kind, "sparse_attention") }) {
			kinds = k.Texts("layer_types") // the first checkpoints have no indexer_types
		}
		if kinds == nil {
			return
		}
		if len(kinds) < n {
			k.Fail("indexer_types names %d layers of %d", len(kinds), n)
			return
		}
		indexKeys(k)
		own := make([]bool, n)
		for il := range own {
			own[il] = kinds[il] == "full" || strings.HasSuffix(kinds[il], "sparse_attention")
		}
		k.Bs("attention.indexer.types", own)
	},
	Skip:  []string{"model.mtp_layers."},
	Fixed: lang.Fixed{{"layer_types", "indexed_attention"}},
}
