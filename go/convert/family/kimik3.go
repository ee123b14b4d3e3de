package family

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var kimiK3 = lang.Family{
	Arch:  "kimi-k3",
	Names: "KimiK3ForConditionalGeneration",
	Rules: lang.Rules{
		{"self_attn.A_log", "ssm_a", lang.Then(lang.NegExp, ofHeads)},
		{"self_attn.g_proj", "ssm_g", nil},
		{"self_attn.gate_proj", "attn_gate", nil}, // this is called g_proj too: see Rename
		{"self_attention_res_norm.weight self_attention_res_proj.weight", "attn_res_score.weight", lang.Product},
		{"mlp_res_norm.weight mlp_res_proj.weight", "ffn_res_score.weight", lang.Product},
		{"output_attn_res_norm.weight output_attn_res_proj.weight", "output_res_score.weight", lang.Product},
		{"block_sparse_moe.routed_expert_down_proj", "ffn_routed_down", nil},
		{"block_sparse_moe.routed_expert_up_proj", "ffn_routed_up", nil},
		{"block_sparse_moe.routed_expert_norm", "ffn_routed_norm", nil},
	}.And(kimi, latent, ends, attention, dense, blockSparse),
	Settings: latentSettings.And(lang.Settings{
		{"expert_weights_norm", 'b', "moe_renormalize"},
		{"expert_latent_length", 'n', "routed_expert_hidden_size"},
		{"activation.situ_beta", 'f', "activation_situ_beta"},
		{"activation.situ_linear_beta", 'f', "activation_situ_linear_beta"},
		{"attn_res.block_size", 'n', "attn_res_block_size"},
	}),
	Prefix: "language_model.model. language_model. model.",
	Skip:   []string{"vision_tower.", "mm_projector."},
	Keys: func(k *lang.Keys) {
		latentKeys(k)
		k.Want("mla_use_nope", "true")
		k.Gating("sigmoid")
		l := k.Within("linear_attn_config")
		kimiLayers(k, l)
		if l.Has("gate_lower_bound") {
			k.F("kda.gate_lower_bound", l.Number("gate_lower_bound"))
		}
		k.Drop("expert_group_count", "expert_group_used_count")
	},
	Rename: func(c *hf.Config, name string) string {
		s := lang.Parse(name, nil)
		attends := func(v any) bool { n, ok := hf.AsCount(v); return ok && n == s.Layer+1 }
		if s.Layer < 0 || !slices.ContainsFunc(c.Within("linear_attn_config").List("full_attn_layers"), attends) {
			return name
		}
		return strings.Replace(name, ".self_attn.g_proj.", ".self_attn.gate_proj.", 1)
	},
	Activation: "situ",
}

// ofHeads keeps one number for each head. Checkpoints have more, which nothing reads.
var ofHeads = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	n := uint64(c.Heads())
	if v.Elems() < n {
		return lang.View{}, fmt.Errorf("the shape %v, want a number for each of %d heads", v.Shape, n)
	}
	return v.Strided(0, lang.Dim{n, 1}).As(n)
})
