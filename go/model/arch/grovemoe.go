package arch

import . "github.com/quern-llm/quern/go/model/nn"

// groveMoE is GroveMoE (Wu et al. 2025): Qwen 3 with experts, of which neighbours share a small one more (adjugate
// experts). A token's experts bring those along, with their own weights. (llama.cpp gives these what the others have
// made as their input, and other weights.)
var groveMoE = Arch{
	Name: "grovemoe",
	config: func(k *Keys) {
		c := k.Config
		qwen3moeKeys(k, "rope.dimension_count")
		c.Adjugate = Adjugate{
			Of:    k.Int("experts_per_group", 1, max(c.NExpert, 1)),
			NFF:   k.IntOr("expert_chunk_feed_forward_length", 0, 0, MaxFF),
			Scale: float32(k.Float("expert_group_scale", 0, 1e3)),
		}
		if c.NExpert%c.Adjugate.Of != 0 {
			k.Fail("experts_per_group", "%d, want a divisor of the %d experts", c.Adjugate.Of, c.NExpert)
		}
		if c.Adjugate.NFF == 0 {
			c.Adjugate.NFF = c.Layers[0].HeadDim
		}
	},
	build: qwen3moe.build,
}
