package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var minimaxM3 = lang.Family{
	Arch:  arch,
	Names: "MiniMaxM3SparseForConditionalGeneration MiniMaxM3VLForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_tower.embeddings.patch_embedding.weight", "v.patch_embd.weight v.patch_embd.weight.1", frames},
		{"vision_tower.encoder.layers.#.self_attn.q_proj", "v.blk.#.attn_q", byAxis},
		{"vision_tower.encoder.layers.#.self_attn.k_proj", "v.blk.#.attn_k", byAxis},
		{"multi_modal_projector.linear_1", "mm.1", nil},
		{"multi_modal_projector.linear_2", "mm.2", nil},
		{"patch_merge_mlp.linear_1", "mm.merger.fc1", nil},
		{"patch_merge_mlp.linear_2", "mm.merger.fc2", nil},
	}.And(vit),
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{2016, 14})
		k.Set("projector_type", "minimax_m3")
		k.B("use_gelu", true)
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-5))
		merge := v.Within("img_token_compression_config")
		k.N("vision.spatial_merge_size", merge.CountOr("spatial_merge_size", 2))
		v.Take(merge)
		k.Take(v)
	},
}

// byAxis orders the channels of a head by the axes of pictures: in checkpoints those that rotate by time, row and column are
// followed by those that each is rotated with, in GGUF both of an axis are together. What doesn't rotate is behind.
var byAxis = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	heads := uint64(visionHeads(c))
	rows, each := v.Rows()
	if heads == 0 || rows == 0 || rows%heads != 0 {
		return lang.View{}, fmt.Errorf("%d rows for %d heads", rows, heads)
	}
	d := rows / heads
	n := 2 * (d / 2) / 3 / 2 // channels of an axis that rotate with as many others
	var parts []lang.View
	part := func(from, n uint64) {
		if n > 0 {
			p := v.Strided(from*each, lang.Dim{N: heads, Stride: d * each}, lang.Dim{N: n * each, Stride: 1})
			parts = append(parts, p)
		}
	}
	for axis := range uint64(3) {
		part(axis*n, n)
		part((3+axis)*n, n)
	}
	part(6*n, d-6*n)
	ordered, err := lang.Beside(parts...)
	if err != nil {
		return lang.View{}, err
	}
	return ordered.As(v.Shape...)
})
