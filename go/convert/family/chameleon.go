package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var chameleon = lang.Family{
	Arch:  "chameleon",
	Names: "ChameleonForConditionalGeneration ChameleonForCausalLM",
	Rules: lang.Rules{
		{"self_attn.q_norm", "attn_q_norm", headPairs((*hf.Config).Heads)},
		{"self_attn.k_norm", "attn_k_norm", headPairs((*hf.Config).HeadsKV)},
	}.And(ends, pairs, dense),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		k.B("swin_norm", k.Flag("swin_norm"))
	},
	Skip: []string{"model.vqmodel."},
}

// headPairs is lang.Permute for the weights of norms that each head has of its own.
func headPairs(heads func(*hf.Config) int) lang.Op {
	return lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
		flat, err := v.As(v.Elems())
		if err != nil {
			return lang.View{}, err
		}
		made, err := lang.Permute(heads)(c, []lang.View{flat})
		if err != nil {
			return lang.View{}, err
		}
		h := uint64(max(heads(c), 1))
		return made[0].As(h, v.Elems()/h)
	})
}
