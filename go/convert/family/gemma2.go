package family

import "github.com/quern-llm/quern/go/convert/lang"

var gemma2 = lang.Family{
	Arch:  "gemma2",
	Names: "Gemma2ForCausalLM",
	Rules: lang.PlusOne(gemmaRules),
	Settings: lang.Settings{
		{"attention.sliding_window", 'n', "sliding_window"},
		{"attn_logit_softcapping", 'f', "attn_logit_softcapping"},
		{"final_logit_softcapping", 'f', "final_logit_softcapping"},
	},
	Skip:  []string{"lm_head."},
	Vocab: noSpace,
}

// gemmaRules are the rules of Gemma 2 and later.
var gemmaRules = around.And(ends, attention, dense)
