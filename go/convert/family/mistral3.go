package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var mistral3 = lang.Family{
	Arch:   "mistral3",
	Names:  "Mistral3ForConditionalGeneration Ministral3ForCausalLM",
	Change: overLatents,
	Rules:  ends.And(pairs, dense),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		k.Want("model_type", "ministral3", "mistral", "mistral3")
		r := k.RopeOf("full_attention")
		if r.Has("mscale_all_dim") {
			k.F("rope.scaling.yarn_log_multiplier", r.Number("mscale_all_dim"))
		}
		if r.Has("llama_4_scaling_beta") {
			k.F("attention.temperature_scale", r.Number("llama_4_scaling_beta"))
		}
		k.Take(r)
	},
}

// overLatents returns the family of Mistral 4, whose checkpoints have Mistral 3's name.
func overLatents(c *hf.Config, f *lang.Family) *lang.Family {
	if c.Text("model_type") != "mistral4" {
		return f
	}
	return &mistral4
}
