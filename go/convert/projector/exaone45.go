package projector

import "github.com/quern-llm/quern/go/convert/lang"

// exaone45 is Qwen2.5-VL's encoder with fewer heads of keys and values.
var exaone45 = lang.Family{
	Arch:  arch,
	Names: "Exaone4_5_ForConditionalGeneration",
	Rules: lang.Rules{
		{"visual.blocks.#.attn.qkv.weight", "v.blk.#.attn_qkv.weight", nil},
		{"visual.blocks.#.attn.qkv.bias", "v.blk.#.attn_qkv.bias", nil},
	}.And(qwenOld),
	Keys: func(k *lang.Keys) {
		v := vision(k, qwenPixels)
		k.Set("projector_type", "exaone4_5")
		k.B("use_silu", true)
		limits(k)
		if v.Has("num_key_value_heads") {
			k.N("vision.attention.head_count_kv", v.Count("num_key_value_heads"))
		}
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("rms_norm_eps", k.NumberOr("rms_norm_eps", 1e-6)))
		if v.Has("window_size") {
			k.N("vision.window_size", v.Count("window_size"))
		}
		if len(v.List("fullatt_block_indexes")) > 0 {
			k.N("vision.n_wa_pattern", windows(v))
		}
		k.Take(v)
	},
}
