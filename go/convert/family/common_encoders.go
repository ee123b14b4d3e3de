package family

import (
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// bertRules is BERT's names.
var bertRules = lang.Rules{
	{"embeddings.word_embeddings", "token_embd", nil},
	{"embeddings.token_type_embeddings", "token_types", nil},
	{"embeddings.position_embeddings", "position_embd", nil},
	{"embeddings.LayerNorm", "token_embd_norm", nil},
	{"attention.self.query", "attn_q", nil},
	{"attention.self.key", "attn_k", nil},
	{"attention.self.value", "attn_v", nil},
	{"attention.output.dense", "attn_output", nil},
	{"attention.output.LayerNorm", "attn_output_norm", nil},
	{"intermediate.dense", "ffn_up", nil},
	{"output.dense", "ffn_down", nil},
	{"output.LayerNorm", "layer_output_norm", nil},
	{"classifier", "cls.output", nil},
	{"classifier.dense", "cls", nil},
	{"classifier.out_proj", "cls.output", nil},
	{"pooler.dense", "cls", nil},
}

// maskedHeads are tensors that guess masked words or pool a text; vectors are made without them.
var maskedHeads = []string{"cls.", "pooler.", "bert.pooler.", "bert.cls.", "roberta.pooler.", "lm_head.",
	"embeddings.position_ids"}

// What encoders compute of a text, as the ends of their names in config.json say, beside its vectors.
const (
	ofTexts  = "ForSequenceClassification"
	ofTokens = "ForTokenClassification"
)

// heads reports whether the architecture of a checkpoint ends in this.
func heads(c *hf.Config, end string) bool {
	names := c.Texts("architectures")
	return len(names) > 0 && strings.HasSuffix(names[0], end)
}

// pooled is a family whose classifiers of texts begin with a pooler, which other checkpoints have for nothing.
func pooled(c *hf.Config, f *lang.Family) *lang.Family {
	if !heads(c, ofTexts) {
		return f
	}
	kind := *f
	kind.Skip = slices.DeleteFunc(slices.Clone(f.Skip), func(name string) bool { return strings.HasSuffix(name, "pooler.") })
	return &kind
}

// classifierKeys are for classifiers of texts, of which this part is classified, and of tokens. The activation is of their
// hidden layers.
func classifierKeys(k *lang.Keys, pooling, activation string) {
	switch {
	case heads(k.Config, ofTexts):
	case heads(k.Config, ofTokens):
		pooling = "tokens"
	default:
		return
	}
	k.Set("quern.classifier.pooling", pooling)
	k.SetActivation("quern.classifier.activation", activation)
	if k.Text("problem_type") == "multi_label_classification" {
		k.B("quern.classifier.multi_label", true)
	}
	names := k.Object("id2label")
	labels := make([]string, len(names))
	for id, name := range names {
		n, err := strconv.Atoi(id)
		text, isText := name.(string)
		if err != nil || n < 0 || n >= len(labels) || !isText {
			k.Fail("id2label has %.40q: %.40v, want texts with the numbers from 0 on", id, name)
			return
		}
		labels[n] = text
	}
	if len(labels) > 0 {
		k.Set("classifier.output_labels", labels)
	}
}

// encoderKeys are for models that attend in both directions. How vectors are pooled is read from other files.
func encoderKeys(k *lang.Keys) { k.B("attention.causal", false) }
