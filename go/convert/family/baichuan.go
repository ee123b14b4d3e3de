package family

import (
	"github.com/quern-llm/quern/go/convert/lang"
)

var baichuan = lang.Family{
	Arch:  "baichuan",
	Names: "BaichuanForCausalLM BaiChuanForCausalLM",
	Rules: lang.Rules{
		{"self_attn.W_pack", "attn_q attn_k attn_v", lang.Then(packed, paired)},
	}.And(ends, attention, dense),
	Keys: func(k *lang.Keys) { rotating(k, 1) },
}
