package projector

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// museGlimmer has queries and keys that rotate neighbouring channels in GGUF, and patches of one picture: those of a film's
// frames are added, since a picture is the same frame again and again.
var museGlimmer = lang.Family{
	Arch:  arch,
	Names: "MuseGlimmerForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_tower.patch_embedder.patch_embedding.weight", "v.patch_embd.weight", framesTogether},
		{"vision_tower.patch_embedder.position_embedding_table", "v.position_embd", nil},
		{"vision_tower.ln_pre", "v.pre_ln", nil},
		{"vision_tower.ln_post", "v.post_ln", nil},
		{"vision_adapter.fc1", "mm.0", nil},
		{"vision_adapter.fc2", "mm.1", nil},
		{"multi_modal_projector", "mm.2", nil}, // vision_projection in checkpoints
	}.And(within("vision_tower.layers.#.", "v.blk.#.", lang.Rules{
		{"norm1", "ln1", nil},
		{"norm2", "ln2", nil},
		{"attn.q_proj", "attn_q", lang.Permute(visionHeads)},
		{"attn.k_proj", "attn_k", lang.Permute(visionHeads)},
		{"attn.v_proj", "attn_v", nil},
		{"attn.proj", "attn_out", nil},
		{"mlp.fc1", "ffn_up", nil},
		{"mlp.fc2", "ffn_down", nil},
	})),
	Keys: func(k *lang.Keys) {
		of := encoder(k, "vision_config")
		size := side(of, "pos_emb_height", 0) * side(of, "patch_size", 0) * side(of, "merge_size", 0)
		k.Put("vision_config", with(k.Object("vision_config"), map[string]float64{"image_size": float64(size)}))
		k.Take(of)
		v := vision(k, pixels{0, 0})
		k.Set("projector_type", "muse-glimmer")
		k.F("vision.attention.layer_norm_epsilon", v.Number("layer_norm_eps"))
		v.Want("hidden_act", "gelu")
		k.N("vision.spatial_merge_size", v.Count("merge_size"))
		k.Take(v)
	},
}

// framesTogether adds the patches of the frames that are one row.
var framesTogether = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	of := c.Within("vision_config")
	frames := uint64(of.CountOr("patch_temporal", 2))
	c.Take(of)
	if len(v.Shape) != 2 || frames == 0 || v.Shape[1]%(3*frames) != 0 {
		return lang.View{}, fmt.Errorf("the shape %v, want patches of %d frames of 3 colours", v.Shape, frames)
	}
	parts, err := lang.CutAxis(v, 1, frames, false)
	if err != nil {
		return lang.View{}, err
	}
	sum := parts[0]
	for _, p := range parts[1:] {
		if sum, err = zipped(sum, p, func(a, b float32) float32 { return a + b }); err != nil {
			return lang.View{}, err
		}
	}
	n := uint64(math.Sqrt(float64(v.Shape[1] / (3 * frames))))
	return sum.As(v.Shape[0], 3, n, n)
})
