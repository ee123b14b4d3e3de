package convert

import (
	"fmt"
	"slices"
)

var deepseek2 = family{
	arch:     "deepseek2",
	names:    "DeepseekV2ForCausalLM DeepseekV3ForCausalLM Glm4MoeLiteForCausalLM",
	rules:    latent.And(ends, attention, dense, mixture),
	settings: latentSettings,
	keys:     latentKeys,
	change:   withoutNext,
}

var mistral4 = family{
	arch:     "mistral4",
	names:    "Mistral4ForCausalLM Mistral4ForConditionalGeneration",
	rules:    latent.And(ends, attention, dense, mixture),
	settings: latentSettings,
	keys: func(k *keys) {
		latentKeys(k)
		r := k.ropeOf("full_attention")
		if r.has("llama_4_scaling_beta") {
			k.f("attention.temperature_scale", r.number("llama_4_scaling_beta"))
			k.n("attention.temperature_length", r.count("original_max_position_embeddings"))
		}
		k.take(r)
	},
}

// withoutNext leaves out the layers behind the last, which predict tokens further on, and which files of the family do not have.
func withoutNext(c *config, f *family) *family {
	n := c.layers()
	kind := *f
	for i := range c.countOr("num_nextn_predict_layers", 0) {
		if i == mostNext {
			c.fail("num_nextn_predict_layers: want %d at most", mostNext)
			break
		}
		kind.skip = append(slices.Clone(kind.skip), fmt.Sprintf("model.layers.%d.", n+i))
	}
	return &kind
}
