package family

import (
	"slices"

	"github.com/quern-llm/quern/go/convert/lang"
)

var minimaxm3 = lang.Family{
	Arch:  "minimax-m3",
	Names: "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration",
	Rules: lang.PlusOne(lang.Rules{
		{"self_attn.index_q_proj", "indexer.q_proj", nil},
		{"self_attn.index_k_proj", "indexer.k_proj", nil},
		{"self_attn.index_q_norm", "indexer.q_norm", nil},
		{"self_attn.index_k_norm", "indexer.k_norm", nil},
		{"block_sparse_moe.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", lang.Halves},
		{"block_sparse_moe.experts.down_proj", "ffn_down_exps.weight", nil},
		{"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp", nil},
		{"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp", nil},
		{"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp", nil},
	}.And(ends, attention, dense, blockSparse)),
	Settings: lang.Settings{
		{"feed_forward_length", 'n', "dense_intermediate_size intermediate_size"},
		{"expert_feed_forward_length", 'n', "intermediate_size"},
		{"expert_shared_count", 'n', "n_shared_experts"},
		{"expert_weights_scale", 'f', "routed_scaling_factor"},
	},
	Keys: func(k *lang.Keys) {
		k.Gating("sigmoid")
		k.Want("use_gemma_norm", "true")
		k.Want("qk_norm_type", "per_head")
		k.Want("swiglu_alpha", "1.702") // the only value that is computed
		k.Want("swiglu_limit", "7")
		k.B("expert_weights_norm", true)
		if k.Partial(0) > 0 { // which transformers reads alone
			rotating(k, 1)
		} else {
			k.N("rope.dimension_count", k.CountOr("rotary_dim", k.HeadDim()))
		}
		sparse := k.Numbers("moe_layer_freq")
		lead := max(slices.Index(sparse, 1), 0)
		if len(sparse) != k.Layers() || slices.Contains(sparse[lead:], 0) {
			k.Fail("moe_layer_freq: want dense layers, and then others, %d in all", k.Layers())
		}
		k.N("leading_dense_block_count", lead)
		of := k.Within("sparse_attention_config")
		if chosen := of.Numbers("sparse_attention_freq"); chosen != nil && !slices.Equal(chosen, sparse) {
			k.Fail("layers that attend to chosen spans are others than those with experts; want the same")
		}
		k.Take(of)
		s := k.Within("sparse_attention_config")
		s.Want("sparse_init_block", "0")
		s.Want("sparse_score_type", "max")
		k.N("attention.indexer.head_count", s.Count("sparse_num_index_heads"))
		k.N("attention.indexer.key_length", s.Count("sparse_index_dim"))
		k.N("attention.indexer.top_k", s.Count("sparse_topk_blocks"))
		k.N("attention.indexer.block_size", s.Count("sparse_block_size"))
		k.N("attention.indexer.local_blocks", s.Count("sparse_local_block"))
		k.Take(s)
	},
	Skip: []string{"mtp.", "model.mtp.", "patch_merge_mlp."},
}
