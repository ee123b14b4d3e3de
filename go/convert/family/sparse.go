package family

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// A maskedHead guesses masked words: a product, a function, a norm, and a score for each token of the vocabulary. SPLADE
// (Formal et al. 2021) makes sparse vectors of these scores.
type maskedHead struct {
	names      string // of architectures in config.json
	rules      lang.Rules
	skip       []string
	alike      string
	activation string // the key of the function in config.json; empty: it is gelu
}

var (
	headOfBERT = lang.Rules{
		{"cls.predictions.transform.dense", "cls", nil},
		{"cls.predictions.transform.LayerNorm", "cls.norm", nil},
		{"cls.predictions.decoder", "cls.output", nil},
		{"cls.predictions.bias", "cls.output.bias", nil},
	}
	headOfRoBERTa = lang.Rules{
		{"lm_head.dense", "cls", nil},
		{"lm_head.layer_norm", "cls.norm", nil},
		{"lm_head.decoder", "cls.output", nil},
		{"lm_head.bias", "cls.output.bias", nil},
	}
)

var maskedHeadsOf = []maskedHead{
	{"BertForMaskedLM DebertaForMaskedLM DebertaV2ForMaskedLM", headOfBERT, []string{"cls.seq_relationship."},
		"cls.predictions.decoder.bias cls.predictions.bias", "hidden_act"},
	{"RobertaForMaskedLM XLMRobertaForMaskedLM CamembertForMaskedLM MPNetForMaskedLM", headOfRoBERTa, nil,
		"lm_head.decoder.bias lm_head.bias", ""},
	{"DistilBertForMaskedLM", lang.Rules{
		{"vocab_transform", "cls", nil},
		{"vocab_layer_norm", "cls.norm", nil},
		{"vocab_projector", "cls.output", nil},
	}, nil, "", "activation"},
	{"ElectraForMaskedLM", lang.Rules{
		{"generator_predictions.dense", "cls", nil},
		{"generator_predictions.LayerNorm", "cls.norm", nil},
		{"generator_lm_head", "cls.output", nil},
	}, nil, "", ""},
	{"ModernBertForMaskedLM", lang.Rules{
		{"head.dense", "cls", nil},
		{"head.norm", "cls.norm", nil},
		{"decoder", "cls.output", nil},
	}, nil, "", "classifier_activation"},
}

// Sparse returns the family of a checkpoint whose vectors are sparse: f, with the head that guesses masked words, whose
// output matrix is the embedding unless config.json says otherwise.
func Sparse(c *hf.Config, f *lang.Family) (*lang.Family, error) {
	names := c.Texts("architectures")
	var head *maskedHead
	for i := range maskedHeadsOf {
		if len(names) > 0 && slices.Contains(strings.Fields(maskedHeadsOf[i].names), names[0]) {
			head = &maskedHeadsOf[i]
		}
	}
	if head == nil {
		var all []string
		for _, h := range maskedHeadsOf {
			all = append(all, strings.Fields(h.names)...)
		}
		c.Fail("architectures is %.80q, want one that makes sparse vectors: %s", names, strings.Join(all, " "))
		return f, c.Err()
	}
	if strings.HasPrefix(names[0], "Deberta") && !c.FlagOr("legacy", true) {
		c.Fail("legacy is false, want true: another head guesses masked words")
	}
	kind := *f
	kind.Rules = head.rules.And(f.Rules)
	kind.Skip = slices.DeleteFunc(slices.Clone(f.Skip), func(part string) bool {
		return slices.ContainsFunc(head.rules, func(r lang.Rule) bool { return strings.HasPrefix(r.From+".", part) })
	})
	kind.Skip = append(kind.Skip, head.skip...)
	if c.FlagOr("tie_word_embeddings", true) {
		for _, r := range head.rules {
			if r.To == "cls.output" {
				kind.Skip = append(kind.Skip, r.From+".weight")
			}
		}
	}
	kind.Alike = head.alike
	kind.Keys = func(k *lang.Keys) {
		f.Keys(k)
		k.Set("quern.classifier.pooling", "tokens")
		fn := "gelu"
		if head.activation != "" {
			fn = cmp.Or(k.Text(head.activation), fn)
		}
		k.SetActivation("quern.classifier.activation", fn)
	}
	return &kind, c.Err()
}
