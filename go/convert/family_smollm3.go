package convert

var smollm3 = family{
	arch:  "smollm3",
	names: "SmolLM3ForCausalLM",
	rules: ends.And(pairs, dense),
	keys: func(k *keys) {
		commonKeys(k)
		for i, v := range k.numbers("no_rope_layers") { // 0: a layer without rotations
			if (v == 0) != ((i+1)%4 == 0) {
				k.fail("no_rope_layers: layer %d is not as smollm3 has it, every fourth without rotations", i)
			}
		}
	},
}
