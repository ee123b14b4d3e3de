package family

import "github.com/quern-llm/quern/go/convert/lang"

var phi3 = lang.Family{
	Arch:  "phi3",
	Names: "Phi3ForCausalLM",
	Rules: lang.Rules{
		{"mlp.gate_up_proj", "ffn_up", nil},
	}.And(ends, attention, dense),
	Keys: phi3Keys,
}

func phi3Keys(k *lang.Keys) {
	rotating(k, 1)
	k.N("rope.scaling.original_context_length", k.CountOr("original_max_position_embeddings",
		k.Count("max_position_embeddings")))
	k.N("attention.sliding_window", k.CountOr("sliding_window", 0)) // Phi 4 is recognized by 0
	k.Drop("rope.scaling.type")
}
