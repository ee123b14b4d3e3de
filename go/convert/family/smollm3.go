package family

import "github.com/quern-llm/quern/go/convert/lang"

var smollm3 = lang.Family{
	Arch:  "smollm3",
	Names: "SmolLM3ForCausalLM",
	Rules: ends.And(pairs, dense),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		for i, v := range k.Numbers("no_rope_layers") { // 0 is a layer without rotations
			if (v == 0) != ((i+1)%4 == 0) {
				k.Fail("no_rope_layers: layer %d is not as smollm3 has it, every fourth without rotations", i)
			}
		}
	},
	Fixed: lang.Fixed{{"layer_types", "full_attention"}, {"use_sliding_window", "false"}},
}
