package projector

import (
	"math"

	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

var gemma3 = lang.Family{
	Arch:  arch,
	Names: "Gemma3ForConditionalGeneration",
	Rules: lang.Rules{
		{"multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight", nil},
		{"multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm", lang.AddOne},
	}.And(vit),
	Types: lang.Types{{"mm.input_projection.", gguf.F16}, {"v.patch_embd.", gguf.F32}},
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{896, 14})
		k.Set("projector_type", "gemma3")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		gelu(k, v)
		p := processor(k)
		rows := int(math.Sqrt(float64(p.CountOr("image_seq_length", 256))))
		if n := side(v, "image_size", 896) / side(v, "patch_size", 14) / max(rows, 1); n != 4 && n > 0 {
			k.N("vision.projector.scale_factor", n) // 4 patches side by side, unless it is said
		}
		k.Take(p)
		k.Take(v)
	},
}
