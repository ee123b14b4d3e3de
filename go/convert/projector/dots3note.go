package projector

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

// dots3note is dots.ocr's encoder with norms of queries and keys and with experts in some layers, and a transformer of sounds.
var dots3note = lang.Family{
	Arch:  arch,
	Names: "Dots3NoteForCausalLM Dots3NoteForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_tower.patch_embed.proj", "v.patch_embd", nil},
		{"vision_tower.patch_embed.norm", "v.pre_ln", nil},
		{"vision_tower.post_trunk_norm", "mm.post_norm", nil},
		{"vision_tower.adapter.ln_q", "mm.input_norm", nil},
		{"vision_tower.adapter.mlp.#", "mm.#", nil},
		{"audio_encoder.audio_adapter.proj.#", "mm.a.mlp.#", nil},
		{"audio_encoder.audio_adapter.norm", "mm.a.norm_pre", nil},
	}.And(within("vision_tower.blocks.#.", "v.blk.#.", lang.Rules{
		{"norm_1", "ln1", nil},
		{"norm_2", "ln2", nil},
		{"attn.qkv", "attn_qkv", nil},
		{"attn.proj", "attn_out", nil},
		{"attn.q_norm", "attn_q_norm", nil},
		{"attn.k_norm", "attn_k_norm", nil},
		{"mlp.fc1", "ffn_gate", nil},
		{"mlp.fc2", "ffn_down", nil},
		{"mlp.fc3", "ffn_up", nil},
		{"mlp.gate_weight", "ffn_gate_inp.weight", nil},
		{"mlp.router_bias", "exp_probs_b.weight", nil},
		{"mlp.experts.*.fc1", "ffn_gate_exps", nil},
		{"mlp.experts.*.fc2", "ffn_down_exps", nil},
		{"mlp.experts.*.fc3", "ffn_up_exps", nil},
	}), within("audio_encoder.dots_encoder.speech_encoder.", "a.", lang.Rules{
		{"conv2d1", "conv2d.1", nil},
		{"conv2d2", "conv2d.2", nil},
		{"conv2d3", "conv2d.3", nil},
		{"conv_out", "conv_out", nil},
		{"layer_norm", "post_ln", nil},
	}), within("audio_encoder.dots_encoder.speech_encoder.layers.#.", "a.blk.#.", lang.Rules{
		{"self_attn_layer_norm", "ln1", nil},
		{"final_layer_norm", "ln2", nil},
		{"self_attn.q_proj", "attn_q", nil},
		{"self_attn.k_proj", "attn_k", nil},
		{"self_attn.v_proj", "attn_v", nil},
		{"self_attn.out_proj", "attn_out", nil},
		{"fc2", "ffn_down", nil},
	}), lang.Rules{
		{"audio_encoder.dots_encoder.speech_encoder.layers.#.fc1.weight", "a.blk.#.ffn_gate.weight a.blk.#.ffn_up.weight", lang.Halves},
		{"audio_encoder.dots_encoder.speech_encoder.layers.#.fc1.bias", "a.blk.#.ffn_gate.bias a.blk.#.ffn_up.bias", lang.Halves},
	}),
	Types: lang.Types{{"v.blk.#.ffn_gate_inp.", gguf.F32}, {"v.blk.#.exp_probs_b.", gguf.F32}, {"a.conv2d.", gguf.F32}, {"a.conv_out.", gguf.F32}},
	Rename: func(_ *hf.Config, name string) string {
		return strings.Replace(plain(name), "audio_adapter.proj.0.", "audio_adapter.norm.", 1)
	},
	Count: func(c *hf.Config, _ string) int { return routed(c)[c.Layer] },
	Keys: func(k *lang.Keys) {
		k.Put("vision_config", without(k.Object("vision_config"), "hidden_size")) // which is that of the rows
		v := vision(k, pixels{1, 14})
		k.N("vision.image_size", 0) // pictures of any size
		for name, want := range map[string]string{
			"adapter_type": "patch_merger", "pre_pixel_shuffle": "true", "router_scoring_func": "sigmoid", "router_scale": "1",
			"temporal_patch_size": "1", "use_bias": "false", "use_qk_norm": "true",
		} {
			v.Want(name, want)
		}
		k.Set("vision.projector_type", "dots3note_v")
		k.B("use_silu", true)
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("rms_norm_eps", 1e-5))
		k.N("vision.spatial_merge_size", v.CountOr("spatial_merge_size", 2))
		limits(k)
		counts := make([]int32, layers(v))
		for il, n := range routed(k.Config) {
			if il < len(counts) {
				counts[il] = int32(n)
			}
		}
		k.Set("vision.expert_count_per_layer", counts)
		k.N("vision.expert_used_count", v.Count("capacity_factor"))
		k.Take(v)
		given := k.Within("audio_config")
		for name, want := range map[string]string{
			"use_conv2d_stem": "true", "use_rope": "true", "use_rms_norm": "true", "use_causal": "false", "merge_factor": "1", "chunk_seconds": "60",
		} {
			given.Want(name, want)
		}
		k.Take(given)
		of := k.Object("audio_config")
		k.Put("audio_config", of["whisper_config"])
		a := audio(k)
		a.Want("activation_function", "swiglu")
		k.Set("audio.projector_type", "dots3note_a")
		k.N("audio.num_mel_bins", a.Count("num_mel_bins"))
		k.F("audio.attention.layer_norm_epsilon", 1e-6)
		k.Take(a)
	},
}

// routed returns how many experts layers of pictures have, by their numbers; 0: it is no layer with experts.
func routed(c *hf.Config) map[int]int {
	v := c.Within("vision_config")
	all := map[int]int{}
	for il, x := range v.List("pyramid_num_routed") {
		n, ok := x.(float64)
		if !ok || n != float64(int32(n)) || n > 1<<12 {
			v.Fail("pyramid_num_routed has %.40v, want integers", x)
		}
		all[il] = max(int(n), 0)
	}
	c.Take(v)
	return all
}
