package convert

import (
	"slices"
	"strings"
)

// bertRules is BERT's names.
var bertRules = []rule{
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

// maskedHeads are what encoders have for guessing words, and for sums of texts, which vectors are not made of.
var maskedHeads = []string{"cls.", "pooler.", "bert.pooler.", "bert.cls.", "roberta.pooler.", "lm_head.", "embeddings.position_ids"}

var encoders = []family{
	{
		arch:   "bert",
		names:  "BertModel BertForMaskedLM",
		rules:  bertRules,
		keys:   encoderKeys,
		prefix: "bert.",
		skip:   maskedHeads,
		vocab:  typesOfTexts,
	},
	{
		arch:  "bert",
		names: "XLMRobertaModel XLMRobertaForSequenceClassification RobertaModel RobertaForSequenceClassification",
		rules: with(bertRules, rule{"embeddings.position_embeddings", "position_embd", fromPad}),
		keys: func(k *keys) {
			encoderKeys(k)
			if n := k.countOr("pad_token_id", 0) + 1; k.has("pad_token_id") {
				k.n("context_length", max(k.count("max_position_embeddings")-n, 0))
			}
		},
		change: withTasks,
		rename: func(_ *config, name string) string {
			return strings.TrimSuffix(strings.Replace(name, ".parametrizations.", ".", 1), ".original")
		},
		prefix: "roberta.",
		skip:   slices.Concat(maskedHeads, []string{".lora_A", ".lora_B"}), // which are files of their own
		vocab:  typesOfTexts,
	},
	{
		arch:  "nomic-bert",
		names: "NomicBertModel",
		rules: slices.Concat([]rule{
			{"emb_ln", "token_embd_norm", nil},
			{"attn.Wqkv", "attn_qkv", nil},
			{"attn.out_proj", "attn_output", nil},
			{"norm1", "attn_output_norm", nil},
			{"norm2", "layer_output_norm", nil},
			{"mlp.fc11", "ffn_up", nil},
			{"mlp.fc12", "ffn_gate", nil},
			{"mlp.fc2", "ffn_down", nil},
		}, bertRules),
		keys: func(k *keys) {
			encoderKeys(k)
			k.drop("attention.head_count_kv")
		},
		change: withExperts,
		skip:   maskedHeads,
		vocab:  typesOfTexts,
	},
	{
		arch:  "jina-bert-v2",
		names: "JinaBertModel JinaBertForMaskedLM",
		rules: slices.Concat([]rule{
			{"mlp.gated_layers", "ffn_gate ffn_up", halves},
			{"mlp.up_gated_layer", "ffn_up ffn_gate", halves},
			{"mlp.wo", "ffn_down", nil},
			{"mlp.down_layer", "ffn_down", nil},
			{"mlp.layernorm", "layer_output_norm", nil},
			{"layer_norm_1", "attn_norm_2", nil},
			{"layer_norm_2", "layer_output_norm", nil},
			{"attention.self.layer_norm_q", "attn_q_norm", nil},
			{"attention.self.layer_norm_k", "attn_k_norm", nil},
		}, bertRules),
		keys:  encoderKeys,
		skip:  maskedHeads,
		vocab: jinaVocab,
	},
	{
		arch:  "llama-embed",
		names: "LlamaBidirectionalModel",
		rules: slices.Concat(ends, pairs, dense),
		keys: func(k *keys) {
			encoderKeys(k)
			commonKeys(k)
		},
		extra: llama3Factors,
	},
	{
		arch:  "modern-bert",
		names: "ModernBertModel ModernBertForMaskedLM",
		rules: []rule{
			{"embeddings.tok_embeddings", "token_embd", nil},
			{"embeddings.norm", "token_embd_norm", nil},
			{"final_norm", "output_norm", nil},
			{"attn_norm", "attn_norm", nil},
			{"attn.Wqkv", "attn_qkv", nil},
			{"attn.Wo", "attn_output", nil},
			{"mlp_norm", "ffn_norm", nil},
			{"mlp.Wi", "ffn_up", nil},
			{"mlp.Wo", "ffn_down", nil},
		},
		settings: []setting{
			{"attention.sliding_window", 'n', "local_attention"},
			{"attention.sliding_window_pattern", 'n', "global_attn_every_n_layers"},
		},
		keys: func(k *keys) {
			encoderKeys(k)
			vocabSize(k)
			k.set("rope.scaling.type", "none")
			k.f("attention.layer_norm_epsilon", k.numberOr("norm_eps", 1e-5))
			k.drop("attention.layer_norm_rms_epsilon")
		},
		skip: []string{"head.", "decoder.", "classifier."},
	},
	{
		arch:  "eurobert",
		names: "EuroBertModel EuroBertForMaskedLM JinaEmbeddingsV5Model",
		rules: slices.Concat(ends, attention, dense),
		keys: func(k *keys) {
			encoderKeys(k)
			k.set("rope.scaling.type", "none")
		},
		skip:  []string{"lm_head.", "head."},
		vocab: noBOS,
	},
	{
		arch:  "neo-bert",
		names: "NeoBERT NeoBERTLMHead NeoBERTForSequenceClassification",
		rules: []rule{
			{"encoder", "token_embd", nil},
			{"layer_norm", "enc.output_norm", nil},
			{"attention_norm", "attn_norm", nil},
			{"qkv", "attn_qkv", threes},
			{"wo", "attn_output", nil},
			{"ffn_norm", "ffn_norm", nil},
			{"ffn.w12", "ffn_up", nil},
			{"ffn.w3", "ffn_down", nil},
		},
		keys: func(k *keys) {
			encoderKeys(k)
			k.f("attention.layer_norm_rms_epsilon", k.numberOr("norm_eps", 1e-6))
			k.f("rope.freq_base", 10000)
			k.set("rope.scaling.type", "none")
			k.n("feed_forward_length", (2*k.count("intermediate_size")/3+7)/8*8)
			k.n("pooling_type", 2) // the first token's
		},
		rename: func(_ *config, name string) string {
			return strings.Replace(strings.TrimPrefix(name, "model."), "transformer_encoder.", "layers.", 1)
		},
		skip: []string{"decoder.", "dense.", "classifier."},
	},
}

// encoderKeys are those of models that attend to the whole text. How token vectors are pooled is read from the folder; see pooling.
func encoderKeys(k *keys) { k.b("attention.causal", false) }

// fromPad leaves out the rows of positions that no token has: those up to the number of the token for padding.
var fromPad = one(func(c *config, v view) (view, error) {
	before := uint64(0)
	if c.has("pad_token_id") {
		before = uint64(c.count("pad_token_id")) + 1
	}
	rows, each := v.rows()
	before = min(before, rows)
	return v.strided(before*each, dim{rows - before, each}, dim{each, 1}), nil
})

// withTasks is XLM-R with rotations in place of positions, and adapters for tasks, if the checkpoint has them.
func withTasks(c *config, f *family) *family {
	if !c.has("lora_adaptations") {
		return f
	}
	kind := *f
	kind.arch = "jina-bert-v3"
	kind.rules = slices.Concat([]rule{
		{"emb_ln", "token_embd_norm", nil},
		{"mixer.Wqkv", "attn_qkv", nil},
		{"mixer.out_proj", "attn_output", nil},
		{"norm1", "attn_output_norm", nil},
		{"norm2", "layer_output_norm", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
	}, f.rules)
	return &kind
}

// withExperts is nomic-embed-text with experts in some of its layers.
func withExperts(c *config, f *family) *family {
	if c.countOr("moe_every_n_layers", 0) == 0 {
		return f
	}
	kind := *f
	kind.arch = "nomic-bert-moe"
	kind.rules = with(f.rules,
		rule{"mlp.fc1", "ffn_up", nil},
		rule{"mlp.router.layer", "ffn_gate_inp", nil},
		rule{"mlp.experts.mlp.w1", "ffn_up_exps.weight", byExpert},
		rule{"mlp.experts.mlp.w2", "ffn_down_exps.weight", then(byExpert, transpose)},
		rule{"mlp.experts.bias", "", nil})
	kind.settings = []setting{{"moe_every_n_layers", 'n', "moe_every_n_layers"}, {"expert_used_count", 'n', "moe_top_k"}}
	return &kind
}

// jinaVocab puts the ends of texts that these models were trained with.
func jinaVocab(m *Model, v *vocabulary) {
	typesOfTexts(m, v)
	v.setAdd("bos", true)
	v.setAdd("eos", true)
}
