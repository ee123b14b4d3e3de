package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var lfm2 = lang.Family{
	Arch:     "lfm2",
	Names:    "Lfm2ForCausalLM LFM2ForCausalLM",
	Rules:    convolved.And(ends, attention),
	Settings: lang.Settings{{"shortconv.l_cache", 'n', "conv_L_cache"}},
	Keys: func(k *lang.Keys) {
		convolvedKeys(k)
		k.N("feed_forward_length", widthOf(k.Config))
	},
}

var lfm2moe = lang.Family{
	Arch:  "lfm2moe",
	Names: "Lfm2MoeForCausalLM",
	Rules: convolved.And(ends, attention),
	Settings: lang.Settings{
		{"shortconv.l_cache", 'n', "conv_L_cache"},
		{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
		{"leading_dense_block_count", 'n', "num_dense_layers"},
		{"expert_weights_norm", 'b', "norm_topk_prob"},
		{"expert_weights_scale", 'f', "routed_scaling_factor"},
	},
	Keys: func(k *lang.Keys) {
		convolvedKeys(k)
		k.N("expert_gating_func", 2)
	},
}

// convolved is LFM 2's layers, with convolutions or attention.
var convolved = lang.Rules{
	{"embedding_norm", "token_embd_norm", nil},
	{"operator_norm", "attn_norm", nil},
	{"ffn_norm", "ffn_norm", nil},
	{"self_attn.out_proj", "attn_output", nil},
	{"self_attn.q_layernorm", "attn_q_norm", nil},
	{"self_attn.k_layernorm", "attn_k_norm", nil},
	{"conv.conv", "shortconv.conv", lang.Squeeze},
	{"conv.in_proj", "shortconv.in_proj", nil},
	{"conv.out_proj", "shortconv.out_proj", nil},
	{"feed_forward.w1", "ffn_gate", nil},
	{"feed_forward.w2", "ffn_down", nil},
	{"feed_forward.w3", "ffn_up", nil},
	{"feed_forward.gate", "ffn_gate_inp", nil},
	{"feed_forward.expert_bias", "exp_probs_b.bias", nil},
	{"feed_forward.experts.*.w1", "ffn_gate_exps", nil},
	{"feed_forward.experts.*.w2", "ffn_down_exps", nil},
	{"feed_forward.experts.*.w3", "ffn_up_exps", nil},
}

// convolvedKeys sets which layers have attention.
func convolvedKeys(k *lang.Keys) {
	attends := k.TypesOf("full_attention")
	k.Ns("attention.head_count_kv", lang.Where(attends, k.HeadsKV(), 0))
	k.F("attention.layer_norm_rms_epsilon", k.Number("norm_eps rms_norm_eps"))
	vocabSize(k)
}

// widthOf returns the width of the feed-forward networks, as LFM 2's code computes it.
func widthOf(c *hf.Config) int {
	n := c.Count("block_ff_dim intermediate_size")
	if c.Flag("block_auto_adjust_ff_dim") {
		of := max(c.CountOr("block_multiple_of", 256), 1)
		n = int(c.NumberOr("block_ffn_dim_multiplier", 1) * float64(2*n/3))
		n = (n + of - 1) / of * of
	}
	return n
}
