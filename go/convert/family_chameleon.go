package convert

var chameleon = family{
	arch:  "chameleon",
	names: "ChameleonForConditionalGeneration ChameleonForCausalLM",
	rules: rules{
		{"self_attn.q_norm", "attn_q_norm", headPairs((*config).heads)},
		{"self_attn.k_norm", "attn_k_norm", headPairs((*config).headsKV)},
	}.And(ends, pairs, dense),
	keys: func(k *keys) {
		commonKeys(k)
		k.b("swin_norm", k.flag("swin_norm"))
	},
	skip: []string{"model.vqmodel."},
}

// headPairs is permute of weights of norms, of which each head has its own.
func headPairs(heads func(*config) int) op {
	return one(func(c *config, v view) (view, error) {
		flat, err := v.as(v.elems())
		if err != nil {
			return view{}, err
		}
		made, err := permute(heads)(c, []view{flat})
		if err != nil {
			return view{}, err
		}
		h := uint64(max(heads(c), 1))
		return made[0].as(h, v.elems()/h)
	})
}
