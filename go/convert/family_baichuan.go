package convert

var baichuan = Family{
	Arch:  "baichuan",
	Names: "BaichuanForCausalLM BaiChuanForCausalLM",
	Rules: Rules{
		{"self_attn.W_pack", "attn_q attn_k attn_v", Then(packed, Each3(Permute((*Config).Heads), Permute((*Config).HeadsKV), nil))},
	}.And(ends, attention, dense),
	Keys: func(k *Keys) { rotating(k, 1) },
}
