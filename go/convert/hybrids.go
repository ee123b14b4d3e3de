package convert

import (
	"slices"
	"strings"
)

// convolved is layers that convolve, of LFM 2.
var convolved = []rule{
	{"embedding_norm", "token_embd_norm", nil},
	{"operator_norm", "attn_norm", nil},
	{"ffn_norm", "ffn_norm", nil},
	{"self_attn.out_proj", "attn_output", nil},
	{"self_attn.q_layernorm", "attn_q_norm", nil},
	{"self_attn.k_layernorm", "attn_k_norm", nil},
	{"conv.conv", "shortconv.conv", squeeze},
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

// ssm is the names of Mamba's model around its layers.
var ssm = []rule{
	{"embeddings", "token_embd", nil},
	{"embedding", "token_embd", nil},
	{"norm_f", "output_norm", nil},
	{"lm_head", "output", nil},
	{".norm", "attn_norm", nil},
}

var hybrids = []family{
	{
		arch:     "lfm2",
		names:    "Lfm2ForCausalLM LFM2ForCausalLM",
		rules:    slices.Concat(convolved, ends, attention),
		settings: []setting{{"shortconv.l_cache", 'n', "conv_L_cache"}},
		keys: func(k *keys) {
			convolvedKeys(k)
			k.n("feed_forward_length", widthOf(k.config))
		},
	},
	{
		arch:  "lfm2moe",
		names: "Lfm2MoeForCausalLM",
		rules: slices.Concat(convolved, ends, attention),
		settings: []setting{
			{"shortconv.l_cache", 'n', "conv_L_cache"},
			{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
			{"leading_dense_block_count", 'n', "num_dense_layers"},
		},
		keys: func(k *keys) {
			convolvedKeys(k)
			k.n("expert_gating_func", 2)
		},
	},
	{
		arch:  "mamba",
		names: "MambaForCausalLM FalconMambaForCausalLM",
		rules: slices.Concat([]rule{
			{"mixer.A_log", "ssm_a", negExp},
			{"mixer.D", "ssm_d", nil},
			{"mixer.conv1d.weight", "ssm_conv1d.weight", squeeze},
			{"mixer.dt_proj", "ssm_dt", nil},
			{"mixer.x_proj", "ssm_x", nil},
		}, ssm, scan),
		keys: func(k *keys) {
			scanKeys(k)
			width := k.count("hidden_size d_model")
			k.n("ssm.inner_size", k.countOr("intermediate_size d_inner", 2*width))
			k.n("ssm.state_size", k.countOr("state_size d_state", 16))
			k.n("ssm.time_step_rank", k.countOr("time_step_rank dt_rank", (width+15)/16))
			k.b("ssm.dt_b_c_rms", k.text("model_type") == "falcon_mamba")
		},
		skip: []string{"lm_head."},
	},
	{
		arch:  "mamba2",
		names: "Mamba2ForCausalLM",
		rules: slices.Concat(ssm, scan),
		keys: func(k *keys) {
			scanKeys(k)
			inner := k.countOr("intermediate_size d_inner", 2*k.count("hidden_size d_model"))
			k.n("ssm.inner_size", inner)
			k.n("ssm.state_size", k.countOr("state_size d_state", 128))
			k.n("ssm.group_count", k.countOr("n_groups", 1))
			k.n("ssm.time_step_rank", inner/max(k.countOr("mamba_d_head head_dim", 64), 1))
			k.drop("attention.key_length", "attention.value_length")
		},
	},
	{
		arch:   "nemotron_h",
		names:  "NemotronHForCausalLM",
		rules:  slices.Concat(nemotronExperts, nemotron, ssm, scan),
		keys:   nemotronKeys,
		change: nemotronKind,
		skip:   []string{"mtp."},
		vocab:  nemotronVocab,
	},
}

func convolvedKeys(k *keys) {
	attends := k.typesOf("full_attention")
	k.ns("attention.head_count_kv", where(attends, k.headsKV(), 0))
	k.f("attention.layer_norm_rms_epsilon", k.number("norm_eps rms_norm_eps"))
	vocabSize(k)
}

// widthOf returns the width of LFM 2's feed-forward networks, which is computed of the one that is given.
func widthOf(c *config) int {
	n := c.count("block_ff_dim intermediate_size")
	if c.flag("block_auto_adjust_ff_dim") {
		of := max(c.countOr("block_multiple_of", 256), 1)
		n = int(c.numberOr("block_ffn_dim_multiplier", 1) * float64(2*n/3))
		n = (n + of - 1) / of * of
	}
	return n
}

// scanKeys has what models that only scan have in place of attention.
func scanKeys(k *keys) {
	k.n("context_length", 1<<20)
	k.n("feed_forward_length", 0)
	k.n("attention.head_count", 0)
	k.drop("attention.head_count_kv", "attention.layer_norm_epsilon")
	k.f("attention.layer_norm_rms_epsilon", k.numberOr("layer_norm_epsilon rms_norm_eps", 1e-5))
	k.n("ssm.conv_kernel", k.countOr("conv_kernel d_conv", 4))
}

// nemotron is the kinds of layers of Nemotron-H beside scans: a layer is one of them.
var nemotron = []rule{
	{"mixer.q_proj", "attn_q", nil},
	{"mixer.k_proj", "attn_k", nil},
	{"mixer.v_proj", "attn_v", nil},
	{"mixer.o_proj", "attn_output", nil},
	{"mixer.up_proj", "ffn_up", nil},
	{"mixer.down_proj", "ffn_down", nil},
}

var nemotronExperts = []rule{
	{"mixer.gate", "ffn_gate_inp", nil},
	{"mixer.gate.e_score_correction_bias", "exp_probs_b.bias", nil},
	{"mixer.gate.e_score_correction.bias", "exp_probs_b.bias", nil},
	{"mixer.experts.*.up_proj", "ffn_up_exps", nil},
	{"mixer.experts.*.down_proj", "ffn_down_exps", nil},
	{"mixer.shared_experts.up_proj", "ffn_up_shexp", nil},
	{"mixer.shared_experts.down_proj", "ffn_down_shexp", nil},
	{"mixer.fc1_latent_proj", "ffn_latent_down", nil},
	{"mixer.fc2_latent_proj", "ffn_latent_up", nil},
}

func nemotronKind(c *config, f *family) *family {
	if !c.has("num_experts_per_tok") {
		return f
	}
	kind := *f
	kind.arch = "nemotron_h_moe"
	return &kind
}

// pattern returns which layers are of a kind, by a letter or by name.
func (c *config) pattern(letter byte, names string) []bool {
	v, _ := c.find("hybrid_override_pattern layers_block_type")
	s, ok := v.(string)
	if !ok {
		return c.typesOf(names)
	}
	if len(s) != c.layers() {
		c.fail("hybrid_override_pattern names %d layers of %d", len(s), c.layers())
	}
	all := make([]bool, len(s))
	for i := range s {
		all[i] = s[i] == letter
	}
	return all
}

func nemotronKeys(k *keys) {
	head := k.count("head_dim attention_head_dim")
	k.n("attention.key_length", head)
	k.n("attention.value_length", head)
	k.ns("attention.head_count_kv", where(k.pattern('*', "attention full_attention"), k.headsKV(), 0))
	k.f("attention.layer_norm_rms_epsilon", k.numberOr("layer_norm_epsilon norm_eps rms_norm_eps", 1e-5))
	k.f("attention.layer_norm_epsilon", k.numberOr("layer_norm_epsilon norm_eps", 1e-5))
	k.drop("rope.freq_base")
	k.n("ssm.conv_kernel", k.count("conv_kernel"))
	k.n("ssm.state_size", k.count("ssm_state_size"))
	k.n("ssm.group_count", k.countOr("n_groups", 1))
	k.n("ssm.time_step_rank", k.count("mamba_num_heads"))
	k.n("ssm.inner_size", k.count("mamba_num_heads")*k.count("mamba_head_dim"))
	if !strings.HasSuffix(k.arch, "_moe") {
		k.ns("feed_forward_length", where(k.pattern('-', "mlp"), k.count("intermediate_size"), 0))
		return
	}
	k.ns("feed_forward_length", where(k.pattern('E', "moe"), k.count("moe_intermediate_size"), 0))
	k.settings(routedSettings)
	k.drop("leading_dense_block_count")
	k.n("expert_shared_feed_forward_length", k.count("moe_shared_expert_intermediate_size"))
	k.drop("expert_group_used_count")
	if k.has("moe_latent_size") {
		k.n("moe_latent_size", k.count("moe_latent_size"))
	}
}
