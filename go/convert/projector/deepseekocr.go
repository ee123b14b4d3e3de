package projector

import (
	"math"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

// sam is the encoder of Segment Anything, and the convolutions behind it.
var sam = lang.Rules{
	{"sam_model.pos_embed", "v.sam.pos_embd.weight", nil},
	{"sam_model.patch_embed.proj", "v.sam.patch_embd", nil},
	{"sam_model.neck.#", "v.sam.neck.#", nil},
	{"sam_model.net_2", "v.sam.net_2", nil},
	{"sam_model.net_3", "v.sam.net_3", nil},
	{"image_newline", "v.image_newline", nil},
	{"view_seperator", "v.view_seperator", lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) { return v.As(1, v.Elems()) })},
	{"projector.layers", "mm.model.fc", nil},
}.And(within("sam_model.blocks.#.", "v.sam.blk.#.", lang.Rules{
	{"norm1", "pre_ln", nil},
	{"norm2", "post_ln", nil},
	{"attn.rel_pos_h", "attn.pos_h.weight", nil},
	{"attn.rel_pos_w", "attn.pos_w.weight", nil},
	{"attn.qkv", "attn.qkv", nil},
	{"attn.proj", "attn.out", nil},
	{"mlp.lin1", "mlp.lin1", nil},
	{"mlp.lin2", "mlp.lin2", nil},
}))

// samTypes are those of positions, and of what is not behind layers of SAM.
var samTypes = lang.Types{
	{"v.patch_embd.", gguf.F32}, {"v.position_embd.", gguf.F32}, {"v.sam.pos_embd.", gguf.F32}, {"v.sam.neck.", gguf.F32},
	{"v.sam.net_", gguf.F32}, {"v.sam.blk.#.attn.pos_", gguf.F32},
}

// deepseekOCR is SAM, and CLIP over what it makes.
var deepseekOCR = lang.Family{
	Arch:  arch,
	Names: "DeepseekOCRForCausalLM UnlimitedOCRForCausalLM",
	Rules: sam.And(lang.Rules{
		{"vision_tower.embeddings.class_embedding", "v.class_embd", nil},
		{"vision_tower.embeddings.patch_embedding", "v.patch_embd", nil},
		{"vision_tower.embeddings.position_embedding", "v.position_embd", nil},
		{"vision_tower.pre_layrnorm", "v.pre_ln", nil}, // so called in checkpoints
	}, within("vision_tower.transformer.layers.#.", "v.blk.#.", lang.Rules{
		{"layer_norm1", "ln1", nil},
		{"layer_norm2", "ln2", nil},
		{"self_attn.qkv_proj", "attn_qkv", nil},
		{"self_attn.out_proj", "attn_out", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
	})),
	Types: samTypes,
	Keys: func(k *lang.Keys) {
		v := k.Within("vision_config")
		widths := v.Within("width")
		of := widths.Within("clip-l-14-224")
		heads := of.Count("heads")
		sizes := map[string]float64{ // of feed-forwards as llama.cpp has them; tensors have the number
			"hidden_size": float64(of.Count("width")), "intermediate_size": float64(4 * heads), "num_hidden_layers": float64(of.Count("layers")),
			"num_attention_heads": float64(heads), "image_size": float64(side(of, "image_size", 224)), "patch_size": float64(side(of, "patch_size", 14)),
		}
		widths.Take(of)
		v.Take(widths)
		k.Take(v)
		tiles := 9
		if names := k.Texts("architectures"); len(names) > 0 && names[0] == "UnlimitedOCRForCausalLM" {
			tiles = 32
		}
		ocrKeys(k, "deepseekocr", sizes, tiles)
	},
}

// deepseekOCR2 is SAM, and a transformer of Qwen 2 whose queries read what it makes.
var deepseekOCR2 = lang.Family{
	Arch:  arch,
	Names: "DeepseekOCR2ForCausalLM",
	Rules: sam.And(lang.Rules{
		{"qwen2_model.model.model.norm", "v.post_ln", nil},
		{"qwen2_model.query_768", "v.resample_query_768", nil},
		{"qwen2_model.query_1024", "v.resample_query_1024", nil},
	}, within("qwen2_model.model.model.layers.#.", "v.blk.#.", lang.Rules{
		{"input_layernorm", "ln1", nil},
		{"post_attention_layernorm", "ln2", nil},
		{"self_attn.q_proj", "attn_q", nil},
		{"self_attn.k_proj", "attn_k", nil},
		{"self_attn.v_proj", "attn_v", nil},
		{"self_attn.o_proj", "attn_out", nil},
	}.And(gated))),
	Types: samTypes,
	Keys: func(k *lang.Keys) {
		v := k.Within("vision_config")
		widths := v.Within("width")
		of := widths.Within("qwen2-0-5b")
		sizes := map[string]float64{ // what config.json leaves out is what the publisher's code has
			"hidden_size": float64(of.Count("dim")), "intermediate_size": float64(v.CountOr("intermediate_size", 4864)),
			"num_hidden_layers": float64(v.CountOr("layers", 24)), "num_attention_heads": float64(v.CountOr("num_attention_heads", 14)),
			"image_size": float64(side(v, "image_size", 1024)), "patch_size": float64(side(v, "patch_size", 16)),
		}
		widths.Take(of)
		v.Take(widths)
		k.Take(v)
		ocrKeys(k, "deepseekocr2", sizes, 6)
		k.N("vision.attention.head_count_kv", 2)
	},
}

// ocrKeys sets what both have, for an encoder of these sizes behind SAM, of a picture and at most so many tiles.
func ocrKeys(k *lang.Keys, kind string, sizes map[string]float64, tiles int) {
	of := k.Within("vision_config")
	widths := of.Within("width")
	s := widths.Within("sam_vit_b")
	k.N("vision.sam.block_count", s.Count("layers"))
	k.N("vision.sam.embedding_length", s.Count("width"))
	k.N("vision.sam.head_count", s.Count("heads"))
	widths.Take(s)
	of.Take(widths)
	k.Take(of)
	whole := orEmpty(k.Object("vision_config"))
	for _, name := range []string{"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "image_size", "patch_size", "width"} {
		whole = without(whole, name)
	}
	k.Put("vision_config", with(whole, sizes))
	v := vision(k, pixels{224, 14})
	k.Set("projector_type", kind)
	k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
	k.B("use_gelu", true)
	p := processor(k)
	rows := int(math.Sqrt(float64(p.CountOr("image_seq_length", 256))))
	if merge := int(sizes["image_size"]/sizes["patch_size"]) / max(rows, 1); merge > 0 && merge != 4 {
		k.N("vision.projector.scale_factor", merge)
	}
	k.Take(p)
	k.N("vision.window_size", v.CountOr("window_size", 14))
	k.N("vision.preproc_min_tiles", 2)
	k.N("vision.preproc_max_tiles", tiles)
	k.Take(v)
}
