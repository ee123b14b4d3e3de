package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

var dots3note = family{
	arch:  "dots3note",
	names: "Dots3NoteForCausalLM Dots3NoteForConditionalGeneration Dots3NoteTextForCausalLM",
	rules: rules{
		{"self_attn.q_a_layernorm", "attn_q_a_norm", times(func(c *config) float64 { return rescale(c, c.count("q_lora_rank")) })},
		{"self_attn.kv_a_layernorm", "attn_kv_a_norm", times(func(c *config) float64 { return rescale(c, noteRank(c)) })},
		{"self_attn.kv_b_proj", "attn_k_b attn_v_b", noteKeysValues},
		{"self_attn.k_rope_only_layernorm", "attn_k_norm", nil},
		{"self_attn.g_proj", "attn_gate", nil},
	}.And(predicting, indexed, latent, ends, attention, dense, mixture),
	settings: latentSettings.And(settings{{"attention.sliding_window", 'n', "sliding_window_size"}}),
	keys:     noteKeys,
	next:     countNoteNext,
	skip:     []string{"vision_encoder.", "audio_encoder."},
	rename: func(c *config, name string) string { // of the layer that predicts further tokens
		return strings.Replace(name, "model.mtp.embed_tokens.", fmt.Sprintf("model.layers.%d.embed_tokens.", c.layers()), 1)
	},
	vocab: func(_ *config, v *vocabulary) { v.setSpecial("eot", slices.Index(v.tokens, "<|endofassistant|>")) },
}

// countNoteNext counts the layers that predict further tokens by their tensors, whatever config.json says.
func countNoteNext(c *config, names []string) {
	const key = "num_nextn_predict_layers"
	c.remove(key)
	if n := numberedBy(names, "layers.", ".eh_proj.weight") - c.layers(); n > 0 {
		c.put(key, float64(n))
	}
}

// noteWindow reports whether a layer of dots3-note attends to a window, as those that predict further tokens do.
func noteWindow(c *config, il int) bool {
	kinds := c.texts("layer_types")
	return il >= c.layers() || il >= 0 && il < len(kinds) && kinds[il] == "sliding_attention"
}

// noteRank returns how long the latent is of the layer whose tensors are made.
func noteRank(c *config) int {
	if noteWindow(c, c.layer) {
		return c.count("swa_kv_lora_rank")
	}
	return c.count("kv_lora_rank")
}

// rescale returns what dots3-note multiplies a latent by, which is in the norm before it in GGUF.
func rescale(c *config, rank int) float64 {
	if !c.flag("apply_mla_qkv_lora_rescale") {
		return 1
	}
	return math.Sqrt(float64(c.count("hidden_size")) / float64(max(rank, 1)))
}

// noteKeysValues is keysValues of layers with a window or without one.
var noteKeysValues op = func(c *config, in []view) ([]view, error) {
	if !noteWindow(c, c.layer) {
		return keysValues(c, in)
	}
	near := c.part(map[string]any{})
	for name, from := range map[string]string{"num_attention_heads": "swa_num_attention_heads", "qk_nope_head_dim": "swa_qk_nope_head_dim", "v_head_dim": "swa_v_head_dim"} {
		near.put(name, float64(c.count(from)))
	}
	return keysValues(near, in)
}

// noteKeys sets the sizes of both kinds of dots3-note's layers.
func noteKeys(k *keys) {
	latentKeys(k)
	indexKeys(k)
	n := k.layers()
	if kinds := k.texts("layer_types"); len(kinds) < n {
		k.fail("layer_types names %d layers of %d", len(kinds), n)
	}
	windows, index := make([]bool, n), make([]bool, n)
	for il := range n {
		windows[il] = noteWindow(k.config, il)
		index[il] = !windows[il]
	}
	k.bs("attention.sliding_window_pattern", windows)
	k.bs("attention.indexer.types", index)
	further(k)
	windows = append(windows, slices.Repeat([]bool{true}, min(k.countOr("num_nextn_predict_layers", 0), mostNext))...)
	k.ns("attention.head_count", where(windows, k.count("swa_num_attention_heads"), k.heads()))
	rank, turning := k.count("swa_kv_lora_rank"), k.count("swa_qk_rope_head_dim")
	k.n("attention.kv_lora_rank_swa", rank)
	k.n("attention.key_length_swa", rank+turning)
	k.n("attention.value_length_swa", rank)
	k.n("attention.key_length_mla_swa", k.count("swa_qk_nope_head_dim")+turning)
	k.n("attention.value_length_mla_swa", k.count("swa_v_head_dim"))
	if turning != k.count("qk_rope_head_dim") || k.countOr("swa_q_lora_rank", k.count("q_lora_rank")) != k.count("q_lora_rank") {
		k.fail("swa_qk_rope_head_dim and swa_q_lora_rank differ from those of layers without a window; want the same")
	}
	k.gating("sigmoid")
	k.want("k_rope_only_layernorm", "true")
	k.want("use_dynamic_rsf", "false")
	for _, gate := range []string{"attention_gate_type", "swa_attention_gate_type"} {
		k.want(gate, "headwise")
	}
	k.drop("expert_group_count", "expert_group_used_count") // one group
	k.want("n_group", "1")
}
