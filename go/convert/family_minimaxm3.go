package convert

import "slices"

var minimaxm3 = family{
	arch:  "minimax-m3",
	names: "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration",
	rules: plusOne(rules{
		{"self_attn.index_q_proj", "indexer.q_proj", nil},
		{"self_attn.index_k_proj", "indexer.k_proj", nil},
		{"self_attn.index_q_norm", "indexer.q_norm", nil},
		{"self_attn.index_k_norm", "indexer.k_norm", nil},
		{"block_sparse_moe.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", halves},
		{"block_sparse_moe.experts.down_proj", "ffn_down_exps.weight", nil},
		{"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp", nil},
		{"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp", nil},
		{"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp", nil},
	}.And(ends, attention, dense, blockSparse)),
	settings: settings{
		{"feed_forward_length", 'n', "dense_intermediate_size intermediate_size"},
		{"expert_feed_forward_length", 'n', "intermediate_size"},
		{"expert_shared_count", 'n', "n_shared_experts"},
		{"expert_weights_scale", 'f', "routed_scaling_factor"},
	},
	keys: func(k *keys) {
		k.gating("sigmoid")
		k.want("use_gemma_norm", "true")
		k.want("qk_norm_type", "per_head")
		k.want("swiglu_alpha", "1.702") // as the model is computed
		k.want("swiglu_limit", "7")
		k.b("expert_weights_norm", true)
		k.n("rope.dimension_count", k.countOr("rotary_dim", k.headDim()))
		sparse := k.numbers("moe_layer_freq")
		lead := max(slices.Index(sparse, 1), 0)
		if len(sparse) != k.layers() || slices.Contains(sparse[lead:], 0) {
			k.fail("moe_layer_freq: want dense layers, and then others, %d in all", k.layers())
		}
		k.n("leading_dense_block_count", lead)
		s := k.within("sparse_attention_config")
		s.want("sparse_init_block", "0")
		s.want("sparse_score_type", "max")
		k.n("attention.indexer.head_count", s.count("sparse_num_index_heads"))
		k.n("attention.indexer.key_length", s.count("sparse_index_dim"))
		k.n("attention.indexer.top_k", s.count("sparse_topk_blocks"))
		k.n("attention.indexer.block_size", s.count("sparse_block_size"))
		k.n("attention.indexer.local_blocks", s.count("sparse_local_block"))
		k.take(s)
	},
	skip: []string{"mtp.", "model.mtp.", "patch_merge_mlp."},
}
