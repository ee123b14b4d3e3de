package convert

import "slices"

var baichuan = family{
	arch:  "baichuan",
	names: "BaichuanForCausalLM BaiChuanForCausalLM",
	rules: slices.Concat([]rule{
		{"self_attn.W_pack", "attn_q attn_k attn_v", then(packed, each3(permute((*config).heads), permute((*config).headsKV), nil))},
	}, ends, attention, dense),
	keys: func(k *keys) { rotating(k, 1) },
}
