package convert

import "slices"

var granite = family{
	arch:     "granite",
	names:    "GraniteForCausalLM",
	rules:    ends.And(pairs, dense),
	settings: graniteSettings,
	keys:     graniteKeys,
}

var granitemoe = family{
	arch:     "granitemoe",
	names:    "GraniteMoeForCausalLM GraniteMoeSharedForCausalLM",
	rules:    graniteExperts.And(ends, pairs, dense),
	settings: graniteSettings.And(settings{{"expert_shared_feed_forward_length", 'n', "shared_intermediate_size"}}),
	keys:     graniteKeys,
}

var granitehybrid = family{
	arch:   "granitehybrid",
	names:  "GraniteMoeHybridForCausalLM",
	rules:  graniteExperts.And(mambaScan, ends, pairs, dense),
	change: graniteKind,
	settings: graniteSettings.And(settings{
		{"expert_shared_feed_forward_length", 'n', "shared_intermediate_size"},
		{"ssm.conv_kernel", 'n', "mamba_d_conv"},
		{"ssm.state_size", 'n', "mamba_d_state"},
		{"ssm.group_count", 'n', "mamba_n_groups"},
		{"ssm.time_step_rank", 'n', "mamba_n_heads"},
	}),
	keys: func(k *keys) {
		graniteKeys(k)
		hybridKeys(k)
	},
}

var graniteSWA = family{
	arch:  "granite_swa",
	names: "GraniteSWAForCausalLM GraniteMoeSWAForCausalLM",
	rules: rules{
		{"self_attn.sinks", "attn_sinks.weight", nil},
		{"block_sparse_moe.router", "ffn_gate_inp", nil},
		{"block_sparse_moe.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", halves},
		{"block_sparse_moe.experts.down_proj", "ffn_down_exps.weight", nil},
		{"shared_mlp.input_linear", "ffn_up_shexp", nil}, // which stays one matrix
	}.And(graniteExperts, ends, pairs, dense),
	settings: graniteSettings.And(settings{
		{"expert_shared_feed_forward_length", 'n', "shared_intermediate_size"},
		{"attention.sliding_window", 'n', "sliding_window"},
	}),
	keys: func(k *keys) {
		graniteKeys(k)
		k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
		bases, base := k.numbers("layer_rope_theta"), k.theta()
		if bases == nil {
			return
		}
		if len(bases) != k.layers() {
			k.fail("layer_rope_theta has %d layers of %d", len(bases), k.layers())
		}
		rotates := make([]bool, len(bases))
		for i, b := range bases {
			rotates[i] = b > 0
			if base == 0 {
				base = float64(b)
			}
			if b > 0 && float64(b) != base {
				k.fail("layer_rope_theta has %v and %v, want one base, or 0 for none", base, b)
			}
		}
		k.f("rope.freq_base", base)
		k.bs("attention.rope_pattern", rotates)
	},
}

var graniteSettings = settings{
	{"attention.scale", 'f', "attention_multiplier"},
	{"embedding_scale", 'f', "embedding_multiplier"},
	{"residual_scale", 'f', "residual_multiplier"},
	{"logit_scale", 'f', "logits_scaling"},
}

// sharedDense is the network that every token goes through, if there are no others.
var sharedDense = rules{
	{"shared_mlp.input_linear", "ffn_gate ffn_up", halves},
	{"shared_mlp.output_linear", "ffn_down", nil},
}

// graniteExperts is experts in one tensor, and the network that every token goes through.
var graniteExperts = rules{
	{"block_sparse_moe.router.layer", "ffn_gate_inp", nil},
	{"block_sparse_moe.input_linear", "ffn_gate_exps ffn_up_exps", halves},
	{"block_sparse_moe.output_linear", "ffn_down_exps", nil},
	{"shared_mlp.input_linear", "ffn_gate_shexp ffn_up_shexp", halves},
	{"shared_mlp.output_linear", "ffn_down_shexp", nil},
}

func graniteKeys(k *keys) {
	commonKeys(k)
	k.drop("attention.key_length", "attention.value_length")
	if k.experts() == 0 {
		k.drop("expert_count", "expert_used_count")
	}
	k.want("hidden_act", "silu")
}

// graniteKind returns the family of a model without scans as that of those that have none, and the rules of one without
// experts.
func graniteKind(c *config, f *family) *family {
	scans := slices.Contains(c.typesOf("mamba"), true)
	kind := *f
	if c.experts() == 0 {
		kind.rules = sharedDense.And(f.rules)
	}
	if !scans {
		kind.arch, kind.keys = "granite", graniteKeys
		if c.experts() > 0 {
			kind.arch = "granitemoe"
		}
		kind.settings = graniteSettings.And(f.settings[4:5])
	}
	return &kind
}

// hybridKeys has which layers attend.
func hybridKeys(k *keys) {
	attends := k.typesOf("attention")
	k.ns("attention.head_count_kv", where(attends, k.headsKV(), 0))
	inner := k.count("mamba_n_heads") * k.count("mamba_d_head")
	k.n("ssm.inner_size", inner)
	rotates := k.text("position_embedding_type") == "rope"
	k.b("rope.scaling.finetuned", rotates)
	if !rotates {
		k.drop("rope.freq_base")
	}
}
