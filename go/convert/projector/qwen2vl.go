package projector

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// qwenOld is the encoder that Qwen2-VL and Qwen2.5-VL have.
var qwenOld = lang.Rules{
	{"visual.patch_embed.proj.weight", "v.patch_embd.weight v.patch_embd.weight.1", frames},
	{"visual.merger.ln_q", "v.post_ln", nil},
	{"visual.merger.mlp.#", "mm.#", nil},
}.And(within("visual.blocks.#.", "v.blk.#.", lang.Rules{
	{"norm1", "ln1", nil},
	{"norm2", "ln2", nil},
	{"attn.proj", "attn_out", nil},
	{"mlp.fc1", "ffn_up", nil},
	{"mlp.fc2", "ffn_down", nil},
}.And(gated)), lang.Rules{
	{"visual.blocks.#.attn.qkv.weight", "v.blk.#.attn_q.weight v.blk.#.attn_k.weight v.blk.#.attn_v.weight", thirds},
	{"visual.blocks.#.attn.qkv.bias", "v.blk.#.attn_q.bias v.blk.#.attn_k.bias v.blk.#.attn_v.bias", thirds},
})

// qwenPixels are the sizes of pictures of these encoders.
var qwenPixels = pixels{560, 14}

var qwen2vl = lang.Family{
	Arch:  arch,
	Names: "Qwen2VLForConditionalGeneration Qwen2VLModel Sarashina2VisionForCausalLM",
	Rules: qwenOld,
	Keys: func(k *lang.Keys) {
		v := vision(k, qwenPixels)
		k.N("vision.embedding_length", v.Count("embed_dim"))
		k.N("vision.feed_forward_length", v.Count("hidden_size")) // as llama.cpp has it; tensors have the number
		k.Set("projector_type", "qwen2vl_merger")
		k.F("vision.attention.layer_norm_epsilon", 1e-6)
		k.Take(v)
	},
}

var qwen25vl = lang.Family{
	Arch:  arch,
	Names: "Qwen2_5_VLForConditionalGeneration",
	Rules: qwenOld,
	Keys:  func(k *lang.Keys) { windowedKeys(k, "qwen2.5vl_merger") },
}

var qwen25omni = lang.Family{
	Arch:  arch,
	Names: "Qwen2_5OmniModel Qwen2_5OmniForConditionalGeneration",
	Rules: lang.Rules{
		{"audio_tower.ln_post", "a.post_ln", nil},
		{"audio_tower.proj", "mm.a.fc", nil},
		{"audio_tower.audio_bos_eos_token", "", nil}, // which transformers does not use
	}.And(qwenOld, whisper),
	Types: whisperTypes,
	Extra: waves,
	Keys: func(k *lang.Keys) {
		windowedKeys(k, "qwen2.5o")
		k.Take(heard(k))
	},
}

// windowedKeys sets what is said of an encoder with windows.
func windowedKeys(k *lang.Keys, kind string) {
	v := vision(k, qwenPixels)
	k.Set("projector_type", kind)
	k.B("use_silu", true)
	k.F("vision.attention.layer_norm_epsilon", 1e-6)
	k.N("vision.n_wa_pattern", windows(v))
	k.Take(v)
}

// windows returns how often a layer comes whose attention has no windows.
func windows(v *hf.Config) int {
	all, every := v.Numbers("fullatt_block_indexes"), 0
	for i, il := range all {
		if i == 0 {
			every = int(il) + 1
		} else if int(il)-int(all[i-1]) != every {
			v.Fail("fullatt_block_indexes is %v, want layers at equal distances", all)
		}
	}
	if every <= 0 {
		v.Fail("no fullatt_block_indexes, which say in which layers attention has no windows")
	}
	return every
}
