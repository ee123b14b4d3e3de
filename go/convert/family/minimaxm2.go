package family

import "github.com/quern-llm/quern/go/convert/lang"

var minimaxm2 = lang.Family{
	Arch:  "minimax-m2",
	Names: "MiniMaxM2ForCausalLM",
	Rules: ends.And(attention, dense, blockSparse),
	Keys: func(k *lang.Keys) {
		k.N("expert_feed_forward_length", k.Count("intermediate_size"))
		k.N("rope.dimension_count", k.CountOr("rotary_dim", k.HeadDim()))
		k.Gating("sigmoid")
	},
}
