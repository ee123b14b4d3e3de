package convert

var baichuan = family{
	arch:  "baichuan",
	names: "BaichuanForCausalLM BaiChuanForCausalLM",
	rules: rules{
		{"self_attn.W_pack", "attn_q attn_k attn_v", then(packed, each3(permute((*config).heads), permute((*config).headsKV), nil))},
	}.And(ends, attention, dense),
	keys: func(k *keys) { rotating(k, 1) },
}
