package projector

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// mimo is Qwen2.5-VL's encoder with fewer heads of keys and values, and sinks. MiMo-V2.5 has an encoder of sounds too, whose
// tokens a second checkpoint in a folder of its own makes: it is left out.
var mimo = lang.Family{
	Arch:  arch,
	Names: "MiMoV2ForCausalLM",
	Rules: lang.Rules{
		{"visual.blocks.#.attn.qkv.weight", "v.blk.#.attn_qkv.weight", nil},
		{"visual.blocks.#.attn.qkv.bias", "v.blk.#.attn_qkv.bias", nil},
		{"visual.blocks.#.attn.sinks", "v.blk.#.attn_sinks", nil},
	}.And(qwenOld),
	Rename: func(_ *hf.Config, name string) string {
		if strings.HasPrefix(name, "audio_encoder.") || strings.HasPrefix(name, "speech_embeddings.") {
			return ""
		}
		return plain(name)
	},
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{560, 16})
		k.Set("vision.projector_type", "mimovl")
		k.B("use_silu", true)
		k.N("vision.attention.head_count_kv", v.CountOr("num_key_value_heads", 8))
		k.N("vision.spatial_merge_size", v.Count("spatial_merge_size"))
		k.N("vision.window_size", v.Count("visual_token_window_size"))
		var modes []int32
		for _, x := range v.List("vit_window_attn_types") {
			mode, ok := x.(float64)
			if !ok || mode != -1 && mode != 0 && mode != 1 {
				v.Fail("vit_window_attn_types has %.40v, want -1, 0 and 1", x)
			}
			modes = append(modes, int32(mode))
		}
		k.Set("vision.wa_pattern_mode", modes)
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("rms_norm_eps", 1e-6))
		limits(k)
		k.Take(v)
	},
}
