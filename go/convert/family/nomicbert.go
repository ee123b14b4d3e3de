package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var nomicBERT = lang.Family{
	Arch:  "nomic-bert",
	Names: "NomicBertModel",
	Rules: lang.Rules{
		{"emb_ln", "token_embd_norm", nil},
		{"attn.Wqkv", "attn_qkv", nil},
		{"attn.out_proj", "attn_output", nil},
		{"norm1", "attn_output_norm", nil},
		{"norm2", "layer_output_norm", nil},
		{"mlp.fc11", "ffn_up", nil},
		{"mlp.fc12", "ffn_gate", nil},
		{"mlp.fc2", "ffn_down", nil},
	}.And(bertRules),
	Keys: func(k *lang.Keys) {
		encoderKeys(k)
		k.Drop("attention.head_count_kv")
	},
	Change: withExperts,
	Skip:   maskedHeads,
	Vocab:  typesOfTexts,
}

// withExperts returns another architecture if some layers have experts.
func withExperts(c *hf.Config, f *lang.Family) *lang.Family {
	if c.CountOr("moe_every_n_layers", 0) == 0 {
		return f
	}
	kind := *f
	kind.Arch = "nomic-bert-moe"
	kind.Rules = lang.Rules{
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.router.layer", "ffn_gate_inp", nil},
		{"mlp.experts.mlp.w1", "ffn_up_exps.weight", lang.ByExpert},
		{"mlp.experts.mlp.w2", "ffn_down_exps.weight", lang.Then(lang.ByExpert, lang.Transpose)},
		{"mlp.experts.bias", "", nil},
	}.And(f.Rules)
	kind.Settings = lang.Settings{{"moe_every_n_layers", 'n', "moe_every_n_layers"},
		{"expert_used_count", 'n', "moe_top_k"}}
	return &kind
}
