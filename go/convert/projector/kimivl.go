package projector

import (
	"fmt"
	"math"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// moonViT is the encoder of Kimi's models.
var moonViT = lang.Rules{
	{"vision_tower.patch_embed.proj", "v.patch_embd", nil},
	{"vision_tower.encoder.final_layernorm", "v.post_ln", nil},
}.And(within("vision_tower.encoder.blocks.#.", "v.blk.#.", lang.Rules{
	{"norm0", "ln1", nil},
	{"norm1", "ln2", nil},
	{"wo", "attn_out", nil},
	{"mlp.fc0", "ffn_up", nil},
	{"mlp.fc1", "ffn_down", nil},
}))

var kimivl = lang.Family{
	Arch:  arch,
	Names: "KimiVLForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_tower.patch_embed.pos_emb", "v.position_embd", rows},
		{"vision_tower.encoder.blocks.#.wqkv.weight",
			"v.blk.#.attn_q.weight v.blk.#.attn_k.weight v.blk.#.attn_v.weight", thirds},
		{"vision_tower.encoder.blocks.#.wqkv.bias",
			"v.blk.#.attn_q.bias v.blk.#.attn_k.bias v.blk.#.attn_v.bias", thirds},
		{"multi_modal_projector.pre_norm", "mm.input_norm", nil},
		{"multi_modal_projector.linear_1", "mm.1", nil},
		{"multi_modal_projector.linear_2", "mm.2", nil},
	}.And(moonViT),
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{64 * 14, 14})
		k.N("vision.image_size", 64*14) // pictures of any size
		k.Set("projector_type", "kimivl")
		k.B("use_gelu", true)
		k.N("vision.projector.scale_factor", 2)
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-5))
		k.Take(v)
	},
}

var kimik25 = lang.Family{
	Arch:  arch,
	Names: "KimiK25ForConditionalGeneration Glm5vForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_tower.patch_embed.pos_emb", "v.position_embd", nil},
		{"vision_tower.encoder.blocks.#.wqkv", "v.blk.#.attn_qkv", axes},
		{"mm_projector.pre_norm", "mm.input_norm", nil},
		{"mm_projector.linear_1", "mm.1", nil},
		{"mm_projector.linear_2", "mm.2", nil},
	}.And(moonViT),
	Rename: func(_ *hf.Config, name string) string {
		return strings.NewReplacer("mm_projector.proj.0.", "mm_projector.linear_1.", "mm_projector.proj.2.",
			"mm_projector.linear_2.", "mm_projector.proj.linear_", "mm_projector.linear_").Replace(plain(name))
	},
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{64 * 14, 14})
		patch, grid := side(v, "patch_size", 14), side(v, "init_pos_emb_height", 64)
		k.N("vision.image_size", grid*patch)
		k.Set("projector_type", "kimik25")
		k.B("use_gelu", v.Text("projector_hidden_act") == "gelu" || !v.Has("projector_hidden_act"))
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("projector_ln_eps", 1e-5))
		merge := 2
		if list := k.Integers("merge_kernel_size", v.List("merge_kernel_size")); len(list) > 0 {
			merge = int(list[0])
		}
		k.N("vision.projector.scale_factor", merge)
		p := processor(k)
		k.N("vision.image_min_pixels", 8*patch*patch)
		most := p.CountOr("in_patch_limit", 16384) * patch * patch
		if most > math.MaxInt32 {
			p.Fail("in_patch_limit says %d pixels, the most is %d", most, math.MaxInt32)
		}
		k.N("vision.image_max_pixels", most)
		k.Take(p)
		k.Take(v)
	},
}

// rows makes positions of a grid one after the other.
var rows = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	if len(v.Shape) != 3 {
		return lang.View{}, fmt.Errorf("the shape %v, want a grid", v.Shape)
	}
	return v.As(v.Shape[0]*v.Shape[1], v.Shape[2])
})

// axes orders the queries and keys in one matrix with values by the axes of pictures: in checkpoints each two channels
// that rotate along one axis take turns with two along the other.
var axes lang.Op = func(c *hf.Config, in []lang.View) ([]lang.View, error) {
	heads := uint64(visionHeads(c))
	parts, err := lang.CutAxis(in[0], 0, 3, false)
	if err != nil {
		return nil, err
	}
	for i, p := range parts[:2] {
		n, each := p.Rows()
		if heads == 0 || n%(4*heads) != 0 {
			return nil, fmt.Errorf("%d rows for %d heads", n, heads)
		}
		d := n / heads
		ordered := p.Strided(0, lang.Dim{N: heads, Stride: d * each}, lang.Dim{N: 2, Stride: 2 * each},
			lang.Dim{N: d / 4, Stride: 4 * each}, lang.Dim{N: 2, Stride: each}, lang.Dim{N: each, Stride: 1})
		if parts[i], err = ordered.As(p.Shape...); err != nil {
			return nil, err
		}
	}
	return lang.Together(c, parts)
}
