package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var baichuan = lang.Family{
	Arch:  "baichuan",
	Names: "BaichuanForCausalLM BaiChuanForCausalLM",
	Rules: lang.Rules{
		{"self_attn.W_pack", "attn_q attn_k attn_v", lang.Then(packed, lang.Each3(lang.Permute((*hf.Config).Heads), lang.Permute((*hf.Config).HeadsKV), nil))},
	}.And(ends, attention, dense),
	Keys: func(k *lang.Keys) { rotating(k, 1) },
}
