package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var nanochat = lang.Family{
	Arch:  "nanochat",
	Names: "NanoChatForCausalLM",
	Rules: lang.Rules{
		{"self_attn.q_proj", "attn_q", turned((*hf.Config).Heads)},
		{"self_attn.k_proj", "attn_k", turned((*hf.Config).HeadsKV)},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
	}.And(ends, attention),
	Settings:   lang.Settings{{"final_logit_softcapping", 'f', "final_logit_softcapping"}},
	Keys:       commonKeys,
	Activation: "relu2",
}

// turned exchanges the halves of the rows of each head: nanochat rotates the other way round, and so the halves take
// each other's place.
func turned(heads func(*hf.Config) int) lang.Op {
	return lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
		rows, each := v.Rows()
		h := uint64(max(heads(c), 1))
		if rows%(2*h) != 0 {
			return lang.View{}, fmt.Errorf("%d rows for %d heads", rows, h)
		}
		half := rows / (2 * h) * each
		first, second := v.Strided(0, lang.Dim{h, 2 * half}, lang.Dim{half, 1}),
			v.Strided(half, lang.Dim{h, 2 * half}, lang.Dim{half, 1})
		both, err := lang.Beside(second, first)
		if err != nil {
			return lang.View{}, err
		}
		return both.As(v.Shape...)
	})
}
