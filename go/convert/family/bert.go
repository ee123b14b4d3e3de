package family

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var bert = lang.Family{
	Arch:  "bert",
	Names: "BertModel BertForMaskedLM BertForSequenceClassification BertForTokenClassification HF_ColBERT",
	Rules: lang.Rules{{"linear", "dense_2", nil}}.And(bertRules),
	Keys: func(k *lang.Keys) {
		encoderKeys(k)
		classifierKeys(k, "cls", "tanh")
		if heads(k.Config, "HF_ColBERT") { // each token has a vector, of a product
			k.N("pooling_type", 0)
		}
	},
	Change:     pooled,
	Prefix:     "bert.",
	Skip:       maskedHeads,
	Vocab:      typesOfTexts,
	Activation: "gelu",
	Fixed:      causalNot,
}

// distilBERT is BERT without types of texts, under names of its own.
var distilBERT = lang.Family{
	Arch: "bert",
	Names: "DistilBertModel DistilBertForMaskedLM DistilBertForSequenceClassification " +
		"DistilBertForTokenClassification",
	Rules: lang.Rules{
		{"attention.q_lin", "attn_q", nil},
		{"attention.k_lin", "attn_k", nil},
		{"attention.v_lin", "attn_v", nil},
		{"attention.out_lin", "attn_output", nil},
		{"sa_layer_norm", "attn_output_norm", nil},
		{"ffn.lin1", "ffn_up", nil},
		{"ffn.lin2", "ffn_down", nil},
		{"output_layer_norm", "layer_output_norm", nil},
		{"pre_classifier", "cls", nil},
	}.And(bertRules),
	Keys: func(k *lang.Keys) {
		encoderKeys(k)
		classifierKeys(k, "cls", "relu")
		k.F("attention.layer_norm_epsilon", 1e-12)
	},
	Prefix:     "distilbert.",
	Skip:       []string{"vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "embeddings.position_ids"},
	Activation: "gelu",
}

var xlmRoberta = lang.Family{
	Arch: "bert",
	Names: "XLMRobertaModel XLMRobertaForSequenceClassification XLMRobertaForTokenClassification XLMRobertaForMaskedLM " +
		"RobertaModel RobertaForSequenceClassification RobertaForTokenClassification RobertaForMaskedLM " +
		"CamembertModel CamembertForSequenceClassification CamembertForTokenClassification CamembertForMaskedLM",
	Rules: lang.Rules{{"embeddings.position_embeddings", "position_embd", fromPad}}.And(bertRules),
	Keys: func(k *lang.Keys) {
		encoderKeys(k)
		classifierKeys(k, "cls", "tanh")
		positionsFromPad(k)
	},
	Change: withTasks,
	Rename: func(_ *hf.Config, name string) string {
		return strings.TrimSuffix(strings.Replace(name, ".parametrizations.", ".", 1), ".original")
	},
	Prefix:     "roberta.",
	Skip:       slices.Concat(maskedHeads, []string{".lora_A", ".lora_B"}), // adapters for tasks are converted on their own
	Vocab:      typesOfTexts,
	Activation: "gelu",
	Fixed:      causalNot,
}

// positionsFromPad sets how many positions there are where fromPad leaves out the first.
func positionsFromPad(k *lang.Keys) {
	if n := k.CountOr("pad_token_id", 0) + 1; k.Has("pad_token_id") {
		k.N("context_length", max(k.Count("max_position_embeddings")-n, 0))
	}
}

// fromPad leaves out the first rows of a table of positions: positions are counted from behind the number of the
// padding token.
var fromPad = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	before := uint64(0)
	if c.Has("pad_token_id") {
		before = uint64(c.Count("pad_token_id")) + 1
	}
	rows, each := v.Rows()
	before = min(before, rows)
	return v.Strided(before*each, lang.Dim{rows - before, each}, lang.Dim{each, 1}), nil
})

// withTasks is XLM-R with rotations instead of a table of positions, and with adapters for tasks, if the checkpoint has
// them.
func withTasks(c *hf.Config, f *lang.Family) *lang.Family {
	if !c.Has("lora_adaptations") {
		return f
	}
	kind := *f
	kind.Arch = "jina-bert-v3"
	kind.Rules = lang.Rules{
		{"emb_ln", "token_embd_norm", nil},
		{"mixer.Wqkv", "attn_qkv", nil},
		{"mixer.out_proj", "attn_output", nil},
		{"norm1", "attn_output_norm", nil},
		{"norm2", "layer_output_norm", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
	}.And(f.Rules)
	return &kind
}
