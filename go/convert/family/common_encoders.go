package family

import "github.com/quern-llm/quern/go/convert/lang"

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
}

// maskedHeads are tensors that guess masked words or pool a text; vectors are made without them.
var maskedHeads = []string{"cls.", "pooler.", "bert.pooler.", "bert.cls.", "roberta.pooler.", "lm_head.",
	"embeddings.position_ids"}

// encoderKeys are for models that attend in both directions. How vectors are pooled is read from other files.
func encoderKeys(k *lang.Keys) { k.B("attention.causal", false) }
