package convert

var gemma2 = family{
	arch:  "gemma2",
	names: "Gemma2ForCausalLM",
	rules: plusOne(gemmaRules),
	settings: settings{
		{"attention.sliding_window", 'n', "sliding_window"},
		{"attn_logit_softcapping", 'f', "attn_logit_softcapping"},
		{"final_logit_softcapping", 'f', "final_logit_softcapping"},
	},
	skip:  []string{"lm_head."},
	vocab: noSpace,
}

// gemmaRules are those of Gemma 2 and later.
var gemmaRules = around.And(ends, attention, dense)
