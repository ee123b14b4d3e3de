package convert

var minimaxm2 = Family{
	Arch:  "minimax-m2",
	Names: "MiniMaxM2ForCausalLM",
	Rules: ends.And(attention, dense, blockSparse),
	Keys: func(k *Keys) {
		k.N("expert_feed_forward_length", k.Count("intermediate_size"))
		k.N("rope.dimension_count", k.CountOr("rotary_dim", k.HeadDim()))
		k.Gating("sigmoid")
	},
}
