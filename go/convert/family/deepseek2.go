package family

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var deepseek2 = lang.Family{
	Arch:     "deepseek2",
	Names:    "DeepseekV2ForCausalLM DeepseekV3ForCausalLM Glm4MoeLiteForCausalLM",
	Rules:    latent.And(ends, attention, dense, mixture),
	Settings: latentSettings,
	Keys:     latentKeys,
	Change:   withoutNext,
	Fixed:    lang.Fixed{{"rope_interleave", "true"}},
}

var mistral4 = lang.Family{
	Arch:     "mistral4",
	Names:    "Mistral4ForCausalLM Mistral4ForConditionalGeneration",
	Rules:    latent.And(ends, attention, dense, mixture),
	Settings: latentSettings,
	Keys: func(k *lang.Keys) {
		latentKeys(k)
		r := k.RopeOf("full_attention")
		if r.Has("llama_4_scaling_beta") {
			k.F("attention.temperature_scale", r.Number("llama_4_scaling_beta"))
			k.N("attention.temperature_length", r.Count("original_max_position_embeddings"))
		}
		k.Take(r)
	},
	Fixed: lang.Fixed{{"rope_interleave", "true"}},
}

// withoutNext leaves out the layers that predict further tokens: files of this architecture do not have them.
func withoutNext(c *hf.Config, f *lang.Family) *lang.Family {
	n := c.Layers()
	kind := *f
	for i := range c.CountOr("num_nextn_predict_layers", 0) {
		if i == mostNext {
			c.Fail("num_nextn_predict_layers: want %d at most", mostNext)
			break
		}
		kind.Skip = append(slices.Clone(kind.Skip), fmt.Sprintf("model.layers.%d.", n+i))
	}
	return &kind
}
