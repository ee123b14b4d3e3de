package convert

import (
	"strings"
)

var groveMoE = family{
	arch:  "grovemoe",
	names: "GroveMoeForCausalLM modeling_grove_moe.GroveMoeForCausalLM",
	rules: rules{
		{"mlp.chunk_experts.*.gate_proj", "ffn_gate_chexps", nil},
		{"mlp.chunk_experts.*.up_proj", "ffn_up_chexps", nil},
		{"mlp.chunk_experts.*.down_proj", "ffn_down_chexps", nil},
	}.And(ends, attention, dense, mixture),
	settings: expertSettings,
	finish: func(d *draft, k *keys) { // what the models' own code has as constants
		t := d.weights.Tensor("model.layers.0.mlp.chunk_experts.0.up_proj.weight")
		if t == nil || len(t.Shape) != 2 {
			k.fail("layer 0 has no matrix mlp.chunk_experts.0.up_proj")
			return
		}
		k.n("expert_chunk_feed_forward_length", int(t.Shape[0]))
		k.n("experts_per_group", groveGroup)
		k.f("expert_group_scale", 0.05)
	},
	count: func(c *config, name string) int {
		if strings.Contains(name, "chunk_experts") {
			return c.experts() / groveGroup
		}
		return 0
	},
	skip: []string{".expert_bias"}, // which nothing reads
}

// groveGroup is how many experts of Grove MoE share one beside them.
const groveGroup = 2
