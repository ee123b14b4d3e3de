package convert

import "slices"

var minimax01 = family{
	arch:  "minimax-01",
	names: "MiniMaxText01ForCausalLM MiniMaxM1ForCausalLM",
	rules: rules{
		{"self_attn.out_proj", "attn_output", nil},
		{"self_attn.output_gate", "attn_gate", nil},
		{"self_attn.norm", "attn_norm_2", nil},
	}.And(ends, attention, dense, blockSparse),
	keys: func(k *keys) {
		k.n("rope.dimension_count", k.countOr("rotary_dim", k.headDim()))
		k.f("residual_scale", k.number("layernorm_full_attention_alpha"))
		for _, half := range []string{"full_attention", "linear_attention", "mlp"} {
			a, b := k.number("layernorm_"+half+"_alpha"), k.number("layernorm_"+half+"_beta")
			if a != k.number("layernorm_full_attention_alpha") || b != 1 {
				k.fail("layernorm_%s_alpha and _beta are %v and %v, want one alpha for all, and 1", half, a, b)
			}
		}
		kinds := k.numbers("attn_type_list")
		if len(kinds) != k.layers() {
			k.fail("attn_type_list names %d layers of %d", len(kinds), k.layers())
		}
		every := slices.Index(kinds, 1) + 1
		for i, kind := range kinds {
			if (kind == 1) != (every > 0 && (i+1)%every == 0) {
				k.fail("attn_type_list: layer %d is not as %s has it, every so many with attention", i, k.arch)
			}
		}
		k.n("full_attention_interval", max(every, 1))
	},
}
