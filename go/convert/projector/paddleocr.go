package projector

import (
	"math"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var paddleOCR = lang.Family{
	Arch:  arch,
	Names: "PaddleOCRVLForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_tower.embeddings.packing_position_embedding", "", nil}, // of sequences of pictures, which no program makes
		{"mlp_AR.pre_norm", "mm.input_norm", nil},
		{"mlp_AR.linear_1", "mm.1", nil},
		{"mlp_AR.linear_2", "mm.2", nil},
	}.And(vit),
	Rename: func(_ *hf.Config, name string) string {
		return plain(strings.TrimPrefix(strings.TrimPrefix(name, "model."), "visual."))
	},
	Keys: func(k *lang.Keys) {
		p := processor(k)
		most := p.Count("max_pixels")
		k.Take(p)
		v := vision(k, pixels{384, 14})
		k.N("vision.image_size", int(math.Sqrt(float64(most))))
		k.Set("projector_type", "paddleocr")
		limits(k)
		gelu(k, v)
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("rms_norm_eps", 1e-6))
		k.Take(v)
	},
}
