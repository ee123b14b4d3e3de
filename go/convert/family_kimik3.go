package convert

import (
	"fmt"
	"slices"
	"strings"
)

var kimiK3 = family{
	arch:  "kimi-k3",
	names: "KimiK3ForConditionalGeneration",
	rules: rules{
		{"self_attn.A_log", "ssm_a", then(negExp, ofHeads)},
		{"self_attn.g_proj", "ssm_g", nil},
		{"self_attn.gate_proj", "attn_gate", nil}, // which is g_proj as well: see the names below
		{"self_attention_res_norm.weight self_attention_res_proj.weight", "attn_res_score.weight", product},
		{"mlp_res_norm.weight mlp_res_proj.weight", "ffn_res_score.weight", product},
		{"output_attn_res_norm.weight output_attn_res_proj.weight", "output_res_score.weight", product},
		{"block_sparse_moe.routed_expert_down_proj", "ffn_routed_down", nil},
		{"block_sparse_moe.routed_expert_up_proj", "ffn_routed_up", nil},
		{"block_sparse_moe.routed_expert_norm", "ffn_routed_norm", nil},
	}.And(kimi, latent, ends, attention, dense, blockSparse),
	settings: latentSettings.And(settings{
		{"expert_weights_norm", 'b', "moe_renormalize"},
		{"expert_latent_length", 'n', "routed_expert_hidden_size"},
		{"activation.situ_beta", 'f', "activation_situ_beta"},
		{"activation.situ_linear_beta", 'f', "activation_situ_linear_beta"},
		{"attn_res.block_size", 'n', "attn_res_block_size"},
	}),
	prefix: "language_model.model. language_model. model.",
	skip:   []string{"vision_tower.", "mm_projector."},
	keys: func(k *keys) {
		latentKeys(k)
		k.want("hidden_act", "situ")
		k.want("mla_use_nope", "true")
		k.gating("sigmoid")
		l := k.within("linear_attn_config")
		kimiLayers(k, l)
		if l.has("gate_lower_bound") {
			k.f("kda.gate_lower_bound", l.number("gate_lower_bound"))
		}
		k.drop("expert_group_count", "expert_group_used_count")
	},
	rename: func(c *config, name string) string {
		s := parse(name, nil)
		if s.layer < 0 || !slices.ContainsFunc(c.within("linear_attn_config").list("full_attn_layers"), func(v any) bool { n, ok := asCount(v); return ok && n == s.layer+1 }) {
			return name
		}
		return strings.Replace(name, ".self_attn.g_proj.", ".self_attn.gate_proj.", 1)
	},
}

// ofHeads keeps of a vector the numbers of heads: checkpoints have some more, which nothing reads.
var ofHeads = one(func(c *config, v view) (view, error) {
	n := uint64(c.heads())
	if v.elems() < n {
		return view{}, fmt.Errorf("the shape %v, want a number for each of %d heads", v.shape, n)
	}
	return v.strided(0, dim{n, 1}).as(n)
})
