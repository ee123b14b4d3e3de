package family

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var groveMoE = lang.Family{
	Arch:  "grovemoe",
	Names: "GroveMoeForCausalLM modeling_grove_moe.GroveMoeForCausalLM",
	Rules: lang.Rules{
		{"mlp.chunk_experts.*.gate_proj", "ffn_gate_chexps", nil},
		{"mlp.chunk_experts.*.up_proj", "ffn_up_chexps", nil},
		{"mlp.chunk_experts.*.down_proj", "ffn_down_chexps", nil},
	}.And(ends, attention, dense, mixture),
	Settings: expertSettings,
	Finish: func(d *lang.Draft, k *lang.Keys) { // the models' own code has these as constants
		t := d.Weights.Tensor("model.layers.0.mlp.chunk_experts.0.up_proj.weight")
		if t == nil || len(t.Shape) != 2 {
			k.Fail("layer 0 has no matrix mlp.chunk_experts.0.up_proj")
			return
		}
		k.N("expert_chunk_feed_forward_length", int(t.Shape[0]))
		k.N("experts_per_group", groveGroup)
		k.F("expert_group_scale", 0.05)
	},
	Count: func(c *hf.Config, name string) int {
		if strings.Contains(name, "chunk_experts") {
			return c.Experts() / groveGroup
		}
		return 0
	},
	Skip: []string{".expert_bias"}, // nothing reads these
}

// groveGroup is how many experts share one additional expert.
const groveGroup = 2
