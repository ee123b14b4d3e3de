package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// Rules that families have in common.
var (
	// ends are the tensors outside of layers.
	ends = lang.Rules{
		{"embed_tokens", "token_embd", nil},
		{"norm", "output_norm", nil},
		{"lm_head", "output", nil},
	}

	// attention is that of Llama and its descendants.
	attention = lang.Rules{
		{"input_layernorm", "attn_norm", nil},
		{"self_attn.q_proj", "attn_q", nil},
		{"self_attn.k_proj", "attn_k", nil},
		{"self_attn.v_proj", "attn_v", nil},
		{"self_attn.qkv_proj", "attn_qkv", nil},
		{"self_attn.o_proj", "attn_output", nil},
		{"self_attn.q_norm", "attn_q_norm", nil},
		{"self_attn.k_norm", "attn_k_norm", nil},
	}

	// pairs is attention whose queries and keys rotate neighbouring channels in GGUF, and halves in checkpoints.
	pairs = lang.Rules{
		{"self_attn.q_proj", "attn_q", lang.Permute((*hf.Config).Heads)},
		{"self_attn.k_proj", "attn_k", lang.Permute((*hf.Config).HeadsKV)},
	}.And(attention)

	// dense is a feed-forward network with a gate.
	dense = lang.Rules{
		{"post_attention_layernorm", "ffn_norm", nil},
		{"mlp.gate_proj", "ffn_gate", nil},
		{"mlp.up_proj", "ffn_up", nil},
		{"mlp.down_proj", "ffn_down", nil},
	}

	// feedForward is dense under other names, with the router of experts.
	feedForward = lang.Rules{
		{"feed_forward.gate_proj", "ffn_gate", nil},
		{"feed_forward.up_proj", "ffn_up", nil},
		{"feed_forward.down_proj", "ffn_down", nil},
		{"feed_forward.router", "ffn_gate_inp", nil},
	}

	// mixture is experts, each in a tensor of its own or all in one, and shared experts.
	mixture = lang.Rules{
		{"mlp.gate", "ffn_gate_inp", nil},
		{"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", nil},
		{"mlp.experts.*.gate_proj", "ffn_gate_exps", nil},
		{"mlp.experts.*.up_proj", "ffn_up_exps", nil},
		{"mlp.experts.*.down_proj", "ffn_down_exps", nil},
		{"mlp.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", lang.Halves},
		{"mlp.experts.down_proj", "ffn_down_exps.weight", nil},
		{"mlp.shared_expert.gate_proj", "ffn_gate_shexp", nil},
		{"mlp.shared_expert.up_proj", "ffn_up_shexp", nil},
		{"mlp.shared_expert.down_proj", "ffn_down_shexp", nil},
		{"mlp.shared_experts.gate_proj", "ffn_gate_shexp", nil},
		{"mlp.shared_experts.up_proj", "ffn_up_shexp", nil},
		{"mlp.shared_experts.down_proj", "ffn_down_shexp", nil},
		{"mlp.shared_mlp.gate_proj", "ffn_gate_shexp", nil},
		{"mlp.shared_mlp.up_proj", "ffn_up_shexp", nil},
		{"mlp.shared_mlp.down_proj", "ffn_down_shexp", nil},
		{"mlp.shared_expert_gate", "ffn_gate_inp_shexp", lang.Squeeze},
	}

	// blockSparse is experts under Mixtral's names.
	blockSparse = lang.Rules{
		{"block_sparse_moe.gate", "ffn_gate_inp", nil},
		{"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", nil},
		{"block_sparse_moe.experts.*.w1", "ffn_gate_exps", nil},
		{"block_sparse_moe.experts.*.w2", "ffn_down_exps", nil},
		{"block_sparse_moe.experts.*.w3", "ffn_up_exps", nil},
	}

	// predicting is a layer that predicts a further token.
	predicting = lang.Rules{
		{"eh_proj", "nextn.eh_proj", nil},
		{"enorm", "nextn.enorm", nil},
		{"hnorm", "nextn.hnorm", nil},
		{"shared_head.norm", "nextn.shared_head_norm", nil},
		{"shared_head.head", "nextn.shared_head_head", nil},
		{".embed_tokens", "nextn.embed_tokens", nil},
	}

	// around is norms both before and after attention and the feed-forward network.
	around = lang.Rules{
		{"post_attention_layernorm", "post_attention_norm", nil},
		{"pre_feedforward_layernorm", "ffn_norm", nil},
		{"post_feedforward_layernorm", "post_ffw_norm", nil},
	}

	// scan is a layer of Mamba 2.
	scan = lang.Rules{
		{"mixer.A_log", "ssm_a", lang.Then(lang.NegExp, lang.Column)},
		{"mixer.D", "ssm_d", lang.Column},
		{"mixer.dt_bias", "ssm_dt.bias", nil},
		{"mixer.conv1d.weight", "ssm_conv1d.weight", lang.Squeeze},
		{"mixer.conv1d.bias", "ssm_conv1d.bias", nil},
		{"mixer.in_proj", "ssm_in", nil},
		{"mixer.norm", "ssm_norm", lang.Grouped(scanGroups)},
		{"mixer.out_proj", "ssm_out", nil},
	}
)

// Settings that families have in common.
var (
	expertSettings = lang.Settings{
		{"expert_feed_forward_length", 'n', "moe_intermediate_size expert_intermediate_size"},
		{"expert_shared_feed_forward_length", 'n',
			"shared_expert_intermediate_size moe_shared_expert_intermediate_size"},
		{"expert_weights_norm", 'b', "norm_topk_prob"},
	}
	routedSettings = lang.Settings{
		{"expert_count", 'n', "n_routed_experts num_experts"},
		{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
		{"expert_shared_count", 'n', "n_shared_experts num_shared_experts moe_num_shared_experts"},
		{"leading_dense_block_count", 'n', "first_k_dense_replace"},
		{"expert_weights_scale", 'f', "routed_scaling_factor"},
		{"expert_weights_norm", 'b', "norm_topk_prob"},
	}
)

// stepLimits sets between which limits the steps of a scan are: those of time_step_limit, in which null is no limit.
func stepLimits(k *lang.Keys) {
	for i, v := range k.List("time_step_limit") {
		x, ok := v.(float64)
		switch key := []string{"quern.ssm.time_step_min", "quern.ssm.time_step_max"}; {
		case v == nil:
		case !ok || i >= len(key) || x < 0:
			k.Fail("time_step_limit has %.40v, want two numbers, the least and the greatest step", v)
			return
		case x > 0:
			k.F(key[i], x)
		}
	}
}

// scanGroups returns the number of groups of a scan.
func scanGroups(c *hf.Config) int { return c.CountOr("mamba_n_groups mamba_ngroups n_groups", 1) }

// rotating sets how many channels of a head rotate: the share that config.json says, or this one.
func rotating(k *lang.Keys, share float64) {
	k.N("rope.dimension_count", int(float64(k.HeadDim())*k.Partial(share)))
}

// vocabSize sets the number of tokens.
func vocabSize(k *lang.Keys) { k.N("vocab_size", k.Count("vocab_size")) }

// commonKeys sets the number of tokens, and how many channels of a head rotate: all, unless config.json says otherwise.
func commonKeys(k *lang.Keys) {
	vocabSize(k)
	rotating(k, 1)
}

// gpt is GPT-2's names, which others use for matrices that are not transposed.
var gpt = lang.Rules{
	{"wte", "token_embd", nil},
	{"wpe", "position_embd", nil},
	{"word_embeddings", "token_embd", nil},
	{"ln_f", "output_norm", nil},
	{"lm_head", "output", nil},
	{"ln_1", "attn_norm", nil},
	{"ln_2", "ffn_norm", nil},
	{"input_layernorm", "attn_norm", nil},
	{"post_attention_layernorm", "ffn_norm", nil},
	{"attn.c_attn", "attn_qkv", nil},
	{"attn.c_proj", "attn_output", nil},
	{"self_attention.dense", "attn_output", nil},
	{"mlp.c_fc", "ffn_up", nil},
	{"mlp.c_proj", "ffn_down", nil},
	{"mlp.dense_h_to_4h", "ffn_up", nil},
	{"mlp.dense_4h_to_h", "ffn_down", nil},
	{"attn.bias", "", nil},
	{"attn.masked_bias", "", nil},
}

// mambaScan is scan under Granite's names.
var mambaScan = lang.Rules{
	{"mamba.A_log", "ssm_a", lang.Then(lang.NegExp, lang.Column)},
	{"mamba.D", "ssm_d", lang.Column},
	{"mamba.dt_bias", "ssm_dt.bias", nil},
	{"mamba.conv1d.weight", "ssm_conv1d.weight", lang.Squeeze},
	{"mamba.conv1d.bias", "ssm_conv1d.bias", nil},
	{"mamba.in_proj", "ssm_in", nil},
	{"mamba.norm", "ssm_norm", lang.Grouped(scanGroups)},
	{"mamba.out_proj", "ssm_out", nil},
}

// ssm is the tensors around Mamba's layers.
var ssm = lang.Rules{
	{"embeddings", "token_embd", nil},
	{"embedding", "token_embd", nil},
	{"norm_f", "output_norm", nil},
	{"lm_head", "output", nil},
	{".norm", "attn_norm", nil},
}
