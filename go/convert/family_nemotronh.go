package convert

import (
	"strings"
)

var nemotronh = family{
	arch:   "nemotron_h",
	names:  "NemotronHForCausalLM",
	rules:  nemotronExperts.And(nemotronLayers, ssm, scan),
	keys:   nemotronKeys,
	change: nemotronKind,
	skip:   []string{"mtp."},
	vocab:  nemotronVocab,
}

// nemotronLayers is the kinds of layers of Nemotron-H beside scans: a layer is one of them.
var nemotronLayers = rules{
	{"mixer.q_proj", "attn_q", nil},
	{"mixer.k_proj", "attn_k", nil},
	{"mixer.v_proj", "attn_v", nil},
	{"mixer.o_proj", "attn_output", nil},
	{"mixer.up_proj", "ffn_up", nil},
	{"mixer.down_proj", "ffn_down", nil},
}

var nemotronExperts = rules{
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
	kind.vocab = nil
	return &kind
}

// pattern returns which layers are of a kind, by a letter or by name.
func pattern(c *config, letter byte, names string) []bool {
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
	k.ns("attention.head_count_kv", where(pattern(k.config, '*', "attention full_attention"), k.headsKV(), 0))
	k.f("attention.layer_norm_rms_epsilon", k.numberOr("layer_norm_epsilon norm_eps rms_norm_eps", 1e-5))
	k.f("attention.layer_norm_epsilon", k.numberOr("layer_norm_epsilon norm_eps", 1e-5))
	k.drop("rope.freq_base")
	k.n("ssm.conv_kernel", k.count("conv_kernel"))
	k.n("ssm.state_size", k.count("ssm_state_size"))
	k.n("ssm.group_count", k.countOr("n_groups", 1))
	k.n("ssm.time_step_rank", k.count("mamba_num_heads"))
	k.n("ssm.inner_size", k.count("mamba_num_heads")*k.count("mamba_head_dim"))
	if !strings.HasSuffix(k.arch, "_moe") {
		k.ns("feed_forward_length", where(pattern(k.config, '-', "mlp"), k.count("intermediate_size"), 0))
		return
	}
	k.ns("feed_forward_length", where(pattern(k.config, 'E', "moe"), k.count("moe_intermediate_size"), 0))
	k.settings(routedSettings)
	k.drop("leading_dense_block_count")
	k.n("expert_shared_feed_forward_length", k.count("moe_shared_expert_intermediate_size"))
	k.drop("expert_group_used_count")
	if k.has("moe_latent_size") {
		k.n("moe_latent_size", k.count("moe_latent_size"))
	}
}

// nemotronVocab adds what its tokenizer.json does and nothing else says.
func nemotronVocab(_ *config, v *vocabulary) {
	if v.specialID("bos") >= 0 {
		v.setAdd("bos", true)
	}
}
