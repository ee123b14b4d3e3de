package family

import "github.com/quern-llm/quern/go/convert/lang"

var electra = lang.Family{
	Arch: "electra",
	Names: "ElectraModel ElectraForPreTraining ElectraForMaskedLM ElectraForSequenceClassification " +
		"ElectraForTokenClassification",
	Rules: lang.Rules{{"embeddings_project", "token_embd_proj", nil}}.And(bertRules),
	Keys: func(k *lang.Keys) {
		encoderKeys(k)
		classifierKeys(k, "cls", "gelu")
	},
	Prefix: "electra.",
	Skip: append([]string{"discriminator_predictions.", "generator_predictions.", "generator_lm_head.",
		"electra.embeddings.position_ids"}, maskedHeads...),
	Vocab:      typesOfTexts,
	Activation: "gelu",
	Fixed:      causalNot,
}
