package family

import (
	"slices"

	"github.com/quern-llm/quern/go/convert/lang"
)

var minimax01 = lang.Family{
	Arch:  "minimax-01",
	Names: "MiniMaxText01ForCausalLM MiniMaxM1ForCausalLM",
	Rules: lang.Rules{
		{"self_attn.out_proj", "attn_output", nil},
		{"self_attn.output_gate", "attn_gate", nil},
		{"self_attn.norm", "attn_norm_2", nil},
	}.And(ends, attention, dense, blockSparse),
	Keys: func(k *lang.Keys) {
		k.N("rope.dimension_count", k.CountOr("rotary_dim", k.HeadDim()))
		k.F("residual_scale", k.Number("layernorm_full_attention_alpha"))
		for _, half := range []string{"full_attention", "linear_attention", "mlp"} {
			a, b := k.Number("layernorm_"+half+"_alpha"), k.Number("layernorm_"+half+"_beta")
			if a != k.Number("layernorm_full_attention_alpha") || b != 1 {
				k.Fail("layernorm_%s_alpha and _beta are %v and %v, want one alpha for all, and 1", half, a, b)
			}
		}
		kinds := k.Numbers("attn_type_list")
		if len(kinds) != k.Layers() {
			k.Fail("attn_type_list names %d layers of %d", len(kinds), k.Layers())
		}
		every := slices.Index(kinds, 1) + 1
		for i, kind := range kinds {
			if (kind == 1) != (every > 0 && (i+1)%every == 0) {
				k.Fail("attn_type_list: layer %d is not as %s has it, every so many with attention", i, k.Arch)
			}
		}
		k.N("full_attention_interval", max(every, 1))
	},
}
