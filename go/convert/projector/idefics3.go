package projector

import (
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

var idefics3 = lang.Family{
	Arch:  arch,
	Names: "Idefics3ForConditionalGeneration SmolVLMForConditionalGeneration",
	Rules: lang.Rules{{"connector.modality_projection.proj", "mm.model.fc", nil}}.And(vit),
	Types: lang.Types{{"v.patch_embd.", gguf.F32}},
	Keys: func(k *lang.Keys) {
		v := vision(k, pixels{224, 32})
		k.Set("projector_type", "idefics3")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		k.N("vision.projector.scale_factor", k.CountOr("scale_factor", 2))
		gelu(k, v)
		p := processor(k)
		size := p.Within("size")
		k.N("vision.preproc_image_size", size.CountOr("longest_edge", side(v, "image_size", 224)))
		p.Take(size)
		k.Take(p)
		k.Take(v)
	},
}
