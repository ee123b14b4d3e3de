package family

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

var dots3note = lang.Family{
	Arch:  "dots3note",
	Names: "Dots3NoteForCausalLM Dots3NoteForConditionalGeneration Dots3NoteTextForCausalLM",
	Rules: lang.Rules{
		{"self_attn.q_a_layernorm", "attn_q_a_norm",
			lang.Times(func(c *hf.Config) float64 { return rescale(c, c.Count("q_lora_rank")) })},
		{"self_attn.kv_a_layernorm", "attn_kv_a_norm",
			lang.Times(func(c *hf.Config) float64 { return rescale(c, noteRank(c)) })},
		{"self_attn.kv_b_proj", "attn_k_b attn_v_b", noteKeysValues},
		{"self_attn.k_rope_only_layernorm", "attn_k_norm", nil},
		{"self_attn.g_proj", "attn_gate", nil},
	}.And(predicting, indexed, latent, ends, attention, dense, mixture),
	Settings: latentSettings.And(lang.Settings{{"attention.sliding_window", 'n', "sliding_window_size"}}),
	Keys:     noteKeys,
	Next:     countNoteNext,
	Skip:     []string{"vision_encoder.", "audio_encoder."},
	Rename: func(c *hf.Config, name string) string { // the embeddings of the layer that predicts a further token
		return strings.Replace(name, "model.mtp.embed_tokens.",
			fmt.Sprintf("model.layers.%d.embed_tokens.", c.Layers()), 1)
	},
	Vocab: func(_ *hf.Config, v *vocab.Vocabulary) {
		v.SetSpecial("eot", slices.Index(v.Tokens, "<|endofassistant|>"))
	},
}

// countNoteNext counts the layers that predict further tokens by their tensors, whatever config.json says.
func countNoteNext(c *hf.Config, names []string) {
	const key = "num_nextn_predict_layers"
	c.Remove(key)
	if n := numberedBy(names, "layers.", ".eh_proj.weight") - c.Layers(); n > 0 {
		c.Put(key, float64(n))
	}
}

// noteWindow reports whether a layer attends to a window, as all that predict further tokens do.
func noteWindow(c *hf.Config, il int) bool {
	kinds := c.Texts("layer_types")
	return il >= c.Layers() || il >= 0 && il < len(kinds) && kinds[il] == "sliding_attention"
}

// noteRank returns the length of the latent vector in the layer whose tensors are computed.
func noteRank(c *hf.Config) int {
	if noteWindow(c, c.Layer) {
		return c.Count("swa_kv_lora_rank")
	}
	return c.Count("kv_lora_rank")
}

// rescale returns the factor of a latent vector. In GGUF it is part of the norm before it.
func rescale(c *hf.Config, rank int) float64 {
	if !c.Flag("apply_mla_qkv_lora_rescale") {
		return 1
	}
	return math.Sqrt(float64(c.Count("hidden_size")) / float64(max(rank, 1)))
}

// noteKeysValues is keysValues with the sizes of the layer.
var noteKeysValues lang.Op = func(c *hf.Config, in []lang.View) ([]lang.View, error) {
	if !noteWindow(c, c.Layer) {
		return keysValues(c, in)
	}
	near := c.Part(map[string]any{})
	for name, from := range map[string]string{"num_attention_heads": "swa_num_attention_heads",
		"qk_nope_head_dim": "swa_qk_nope_head_dim", "v_head_dim": "swa_v_head_dim"} {
		near.Put(name, float64(c.Count(from)))
	}
	return keysValues(near, in)
}

// noteKeys sets the sizes of layers with and without a window.
func noteKeys(k *lang.Keys) {
	latentKeys(k)
	indexKeys(k)
	n := k.Layers()
	if kinds := k.Texts("layer_types"); len(kinds) < n {
		k.Fail("layer_types names %d layers of %d", len(kinds), n)
	}
	windows, index := make([]bool, n), make([]bool, n)
	for il := range n {
		windows[il] = noteWindow(k.Config, il)
		index[il] = !windows[il]
	}
	k.Bs("attention.sliding_window_pattern", windows)
	k.Bs("attention.indexer.types", index)
	further(k)
	windows = append(windows, slices.Repeat([]bool{true}, min(k.CountOr("num_nextn_predict_layers", 0), mostNext))...)
	k.Ns("attention.head_count", lang.Where(windows, k.Count("swa_num_attention_heads"), k.Heads()))
	rank, turning := k.Count("swa_kv_lora_rank"), k.Count("swa_qk_rope_head_dim")
	k.N("attention.kv_lora_rank_swa", rank)
	k.N("attention.key_length_swa", rank+turning)
	k.N("attention.value_length_swa", rank)
	k.N("attention.key_length_mla_swa", k.Count("swa_qk_nope_head_dim")+turning)
	k.N("attention.value_length_mla_swa", k.Count("swa_v_head_dim"))
	if turning != k.Count("qk_rope_head_dim") || k.CountOr("swa_q_lora_rank",
		k.Count("q_lora_rank")) != k.Count("q_lora_rank") {
		k.Fail("swa_qk_rope_head_dim and swa_q_lora_rank differ from those of layers without a window; want the same")
	}
	k.Gating("sigmoid")
	k.Want("k_rope_only_layernorm", "true")
	k.Want("use_dynamic_rsf", "false")
	for _, gate := range []string{"attention_gate_type", "swa_attention_gate_type"} {
		k.Want(gate, "headwise")
	}
	k.Drop("expert_group_count", "expert_group_used_count") // there is one group
	k.Want("n_group", "1")
	k.Want("indexer_rope_interleave", "true")
}
