package family

import (
	"math"

	"github.com/quern-llm/quern/go/convert/lang"
)

var gemma2 = lang.Family{
	Arch:  "gemma2",
	Names: "Gemma2ForCausalLM",
	Rules: lang.PlusOne(gemmaRules),
	Settings: lang.Settings{
		{"attention.sliding_window", 'n', "sliding_window"},
		{"attn_logit_softcapping", 'f', "attn_logit_softcapping"},
		{"final_logit_softcapping", 'f', "final_logit_softcapping"},
	},
	Keys: func(k *lang.Keys) {
		windows(k, allBut(2))
		scoreScale(k)
		for _, cap := range []string{"attn_logit_softcapping", "final_logit_softcapping"} {
			if k.Null(cap) { // files without the keys have caps
				k.F(cap, 0)
			}
		}
	},
	Tied:       true,
	Vocab:      noSpace,
	Activation: "gelu_new",
}

// scoreScale sets the scale of scores.
func scoreScale(k *lang.Keys) {
	if n := k.NumberOr("query_pre_attn_scalar", 0); n > 0 {
		k.F("attention.scale", 1/math.Sqrt(n))
	}
}

// gemmaRules are the rules of Gemma 2 and later.
var gemmaRules = around.And(ends, attention, dense)
