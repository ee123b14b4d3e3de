package convert

var chameleon = Family{
	Arch:  "chameleon",
	Names: "ChameleonForConditionalGeneration ChameleonForCausalLM",
	Rules: Rules{
		{"self_attn.q_norm", "attn_q_norm", headPairs((*Config).Heads)},
		{"self_attn.k_norm", "attn_k_norm", headPairs((*Config).HeadsKV)},
	}.And(ends, pairs, dense),
	Keys: func(k *Keys) {
		commonKeys(k)
		k.B("swin_norm", k.Flag("swin_norm"))
	},
	Skip: []string{"model.vqmodel."},
}

// headPairs is permute of weights of norms, of which each head has its own.
func headPairs(heads func(*Config) int) op {
	return One(func(c *Config, v View) (View, error) {
		flat, err := v.As(v.Elems())
		if err != nil {
			return View{}, err
		}
		made, err := Permute(heads)(c, []View{flat})
		if err != nil {
			return View{}, err
		}
		h := uint64(max(heads(c), 1))
		return made[0].As(h, v.Elems()/h)
	})
}
