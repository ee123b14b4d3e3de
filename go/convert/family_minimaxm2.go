package convert

var minimaxm2 = family{
	arch:  "minimax-m2",
	names: "MiniMaxM2ForCausalLM",
	rules: ends.And(attention, dense, blockSparse),
	keys: func(k *keys) {
		k.n("expert_feed_forward_length", k.count("intermediate_size"))
		k.n("rope.dimension_count", k.countOr("rotary_dim", k.headDim()))
		k.gating("sigmoid")
	},
}
