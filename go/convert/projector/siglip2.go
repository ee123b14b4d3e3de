package projector

import (
	"math"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// youtuvl is SigLIP 2 with windows.
var youtuvl = lang.Family{
	Arch:  arch,
	Names: "YoutuVLForConditionalGeneration",
	Rules: lang.Rules{
		{"merger.ln_q", "mm.input_norm", nil},
		{"merger.mlp.#", "mm.#", nil},
	}.And(vit),
	Rename: func(_ *hf.Config, name string) string { return plain(strings.TrimPrefix(name, "siglip2.")) },
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{560, 16})
		k.Set("projector_type", "youtuvl")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		gelu(k, v)
		k.N("vision.spatial_merge_size", v.CountOr("spatial_merge_size", 2))
		if v.Has("window_size") {
			k.N("vision.window_size", v.Count("window_size"))
		}
		if !v.Has("fullatt_block_indexes") {
			v.Fail("no fullatt_block_indexes, which says where patches see all of the picture")
		}
		k.Set("vision.wa_layer_indexes", signed(k.Integers("fullatt_block_indexes", v.List("fullatt_block_indexes"))))
		k.Take(v)
	},
}

// phi4 is SigLIP 2 without its last layer: the projector was trained on what the one before makes.
var phi4 = lang.Family{
	Arch:  arch,
	Names: "Phi4ForCausalLMV",
	Rules: lang.Rules{
		{"vision_tower.embeddings.patch_embedding.weight", "v.patch_embd.weight", colours},
		{"vision_tower.post_layernorm", "", nil},
		{"mm_projector.#", "mm.#", nil},
	}.And(vit),
	Rename: func(c *hf.Config, name string) string {
		name = plain(strings.TrimPrefix(strings.TrimPrefix(name, "model."), "vision_tower."))
		name = strings.Replace(name, "vision_tower.vision_model.", "vision_tower.", 1)
		v := c.Within("vision_config")
		last := "vision_tower.encoder.layers." + strconv.Itoa(layers(v)-1) + "."
		c.Take(v)
		if strings.HasPrefix(name, last) {
			return ""
		}
		return name
	},
	Keys: func(k *lang.Keys) {
		p := processor(k)
		patch := side(p, "patch_size", 0)
		for _, limit := range []struct{ key, from string }{
			{"vision.image_min_pixels", "min_num_patches"}, {"vision.image_max_pixels", "max_num_patches"},
		} {
			n := p.CountOr(limit.from, k.CountOr(limit.from, 0))
			if n < 1 || n > math.MaxInt32/(patch*patch) {
				p.Fail("%s is %d, want 1 to %d", limit.from, n, math.MaxInt32/(patch*patch))
			}
			k.N(limit.key, n*patch*patch)
		}
		k.Take(p)
		k.Put("vision_config", with(k.Object("vision_config"), map[string]float64{"patch_size": float64(patch)}))
		v := vision(k, pixels{16 * patch, patch})
		n := layers(v)
		if n < 2 {
			v.Fail("%d layers, want 2 at least", n)
		}
		k.N("vision.block_count", n-1)
		k.Set("projector_type", "phi4")
		k.B("use_gelu", true)
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		k.Take(v)
	},
	Finish: func(d *lang.Draft, k *lang.Keys) {
		t := d.Target("v.position_embd.weight")
		if t == nil || len(t.Shape) != 2 {
			k.Fail("no matrix with the positions of patches, which say how large pictures are")
			return
		}
		n := int(math.Sqrt(float64(t.Shape[0])))
		if uint64(n)*uint64(n) != t.Shape[0] || n > maxSide {
			k.Fail("%d positions, want those of a square", t.Shape[0])
			return
		}
		p := processor(k)
		k.N("vision.image_size", n*side(p, "patch_size", 0))
		k.Take(p)
	},
}
