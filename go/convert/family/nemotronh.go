package family

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

var nemotronh = lang.Family{
	Arch:       "nemotron_h",
	Names:      "NemotronHForCausalLM",
	Rules:      nemotronExperts.And(nemotronLayers, ssm, scan),
	Keys:       nemotronKeys,
	Change:     nemotronKind,
	Skip:       []string{"mtp."},
	Vocab:      nemotronVocab,
	Activation: "relu2",
	Fixed:      lang.Fixed{{"mamba_hidden_act", "silu swish"}},
}

// nemotronLayers is the layers that are not scans: a layer has attention or a feed-forward network.
var nemotronLayers = lang.Rules{
	{"mixer.q_proj", "attn_q", nil},
	{"mixer.k_proj", "attn_k", nil},
	{"mixer.v_proj", "attn_v", nil},
	{"mixer.o_proj", "attn_output", nil},
	{"mixer.up_proj", "ffn_up", nil},
	{"mixer.down_proj", "ffn_down", nil},
}

// nemotronExperts is layers with experts.
var nemotronExperts = lang.Rules{
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

// nemotronKind returns another architecture if there are experts.
func nemotronKind(c *hf.Config, f *lang.Family) *lang.Family {
	if !slices.Contains(pattern(c, 'E', "moe"), true) {
		return f
	}
	kind := *f
	kind.Arch = "nemotron_h_moe"
	kind.Vocab = nil
	return &kind
}

// pattern returns which layers are of a kind, by its letter or its names.
func pattern(c *hf.Config, letter byte, names string) []bool {
	v, _ := c.Find("hybrid_override_pattern layers_block_type")
	s, ok := v.(string)
	if !ok {
		return c.TypesOf(names)
	}
	if len(s) != c.Layers() {
		c.Fail("hybrid_override_pattern names %d layers of %d", len(s), c.Layers())
	}
	all := make([]bool, len(s))
	for i := range s {
		all[i] = s[i] == letter
	}
	return all
}

// nemotronKeys sets which layers are of which kind, and their sizes.
func nemotronKeys(k *lang.Keys) {
	head := k.Count("head_dim attention_head_dim")
	k.N("attention.key_length", head)
	k.N("attention.value_length", head)
	k.Ns("attention.head_count_kv", lang.Where(pattern(k.Config, '*', "attention full_attention"), k.HeadsKV(), 0))
	k.F("attention.layer_norm_rms_epsilon", k.NumberOr("layer_norm_epsilon norm_eps rms_norm_eps", 1e-5))
	k.F("attention.layer_norm_epsilon", k.NumberOr("layer_norm_epsilon norm_eps", 1e-5))
	k.Drop("rope.freq_base")
	k.N("ssm.conv_kernel", k.Count("conv_kernel"))
	k.N("ssm.state_size", k.Count("ssm_state_size"))
	k.N("ssm.group_count", k.CountOr("n_groups", 1))
	k.N("ssm.time_step_rank", k.Count("mamba_num_heads"))
	k.F("quern.ssm.time_step_min", k.NumberOr("time_step_min mamba_dt_min", 0.001)) // time_step_limit has no effect
	k.N("ssm.inner_size", k.Count("mamba_num_heads")*k.Count("mamba_head_dim"))
	if !strings.HasSuffix(k.Arch, "_moe") {
		k.Ns("feed_forward_length", lang.Where(pattern(k.Config, '-', "mlp"), k.Count("intermediate_size"), 0))
		return
	}
	wide := lang.Where(pattern(k.Config, 'E', "moe"), k.Count("moe_intermediate_size"), 0)
	for il, is := range pattern(k.Config, '-', "mlp") {
		if is {
			wide[il] = uint32(k.Count("intermediate_size"))
		}
	}
	k.Ns("feed_forward_length", wide)
	k.Settings(routedSettings)
	k.Drop("leading_dense_block_count")
	k.N("expert_shared_feed_forward_length", k.Count("moe_shared_expert_intermediate_size"))
	k.Drop("expert_group_used_count")
	if k.Has("moe_latent_size") {
		k.N("moe_latent_size", k.Count("moe_latent_size"))
	}
}

// nemotronVocab adds the bos token, which only the program of the tokenizer does.
func nemotronVocab(_ *hf.Config, v *vocab.Vocabulary) {
	if v.Special("bos") >= 0 {
		v.SetAdd("bos", true)
	}
}
