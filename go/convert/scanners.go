package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// scanners are models whose layers scan, alone or beside attention, and that share no layout with those of hybrids.
var scanners = []family{
	{
		arch:  "jamba",
		names: "JambaForCausalLM",
		rules: slices.Concat([]rule{
			{"final_layernorm", "output_norm", nil},
			{"pre_ff_layernorm", "ffn_norm", nil},
			{"pre_moe_layernorm", "ffn_norm", nil},
			{"feed_forward.experts.*.gate_proj", "ffn_gate_exps", nil},
			{"feed_forward.experts.*.up_proj", "ffn_up_exps", nil},
			{"feed_forward.experts.*.down_proj", "ffn_down_exps", nil},
			{"mamba.A_log", "ssm_a", negExp},
			{"mamba.D", "ssm_d", nil},
			{"mamba.x_proj", "ssm_x", nil},
			{"mamba.dt_proj", "ssm_dt", nil},
			{"mamba.dt_layernorm", "ssm_dt_norm", nil},
			{"mamba.b_layernorm", "ssm_b_norm", nil},
			{"mamba.c_layernorm", "ssm_c_norm", nil},
		}, feedForward, mambaScan, ends, attention),
		keys:   jambaKeys,
		rename: jambaName,
		vocab:  spaceless,
	},
	{
		arch:  "falcon-h1",
		names: "FalconH1ForCausalLM",
		rules: slices.Concat([]rule{
			{"embed_tokens", "token_embd", times(multiplier("embedding_multiplier"))},
			{"lm_head", "output", times(multiplier("lm_head_multiplier"))},
			{"final_layernorm", "output_norm", nil},
			{"pre_ff_layernorm.weight", "ffn_norm", nil}, // as other programs know it
			{"feed_forward.gate_proj", "ffn_gate", times(multiplierOf("mlp_multipliers", 0))},
			{"feed_forward.up_proj", "ffn_up", nil},
			{"feed_forward.down_proj", "ffn_down", times(multiplierOf("mlp_multipliers", 1))},
			{"self_attn.q_proj", "attn_q", times(multiplier("attention_in_multiplier"))},
			{"self_attn.k_proj", "attn_k", times(func(c *config) float64 {
				return multiplier("attention_in_multiplier")(c) * multiplier("key_multiplier")(c)
			})},
			{"self_attn.v_proj", "attn_v", times(multiplier("attention_in_multiplier"))},
			{"self_attn.o_proj", "attn_output", times(multiplier("attention_out_multiplier"))},
			{"mamba.out_proj", "ssm_out", times(multiplier("ssm_out_multiplier"))},
			{"mamba.in_proj", "ssm_in", timesByPart},
		}, mambaScan, attention),
		settings: []setting{
			{"ssm.conv_kernel", 'n', "mamba_d_conv"},
			{"ssm.inner_size", 'n', "mamba_d_ssm"},
			{"ssm.state_size", 'n', "mamba_d_state"},
			{"ssm.group_count", 'n', "mamba_n_groups"},
		},
		keys: func(k *keys) {
			vocabSize(k)
			k.n("ssm.time_step_rank", k.count("mamba_d_ssm")/max(k.count("mamba_d_head"), 1))
			k.want("hidden_act", "silu")
		},
	},
	{
		arch:  "plamo2",
		names: "Plamo2ForCausalLM PLaMo2ForCausalLM",
		rules: slices.Concat([]rule{
			{"mixer.q_weight", "attn_q_norm.weight", nil},
			{"mixer.k_weight", "attn_k_norm.weight", nil},
			{"mixer.in_proj", "ssm_in", nil},
			{"mixer.bcdt_proj", "ssm_x", nil},
			{"mixer.dt_proj", "ssm_dt", nil},
			{"mixer.A_log", "ssm_a", negExp},
			{"mixer.D", "ssm_d", nil},
			{"mixer.dt_norm_weight", "ssm_dt_norm", nil},
			{"mixer.B_norm_weight", "ssm_b_norm", nil},
			{"mixer.C_norm_weight", "ssm_c_norm", nil},
		}, plamo, ends, scan),
		keys:  plamo2Keys,
		vocab: plamo2Vocab,
	},
}

// plamo is what PLaMo's layers have, with a scan or without one.
var plamo = []rule{
	{"norm", "output_norm", addOne},
	{"pre_mixer_norm", "attn_norm", addOne},
	{"post_mixer_norm.weight", "post_attention_norm", plus(1. / 5)}, // as other programs know it
	{"pre_mlp_norm", "ffn_norm", addOne},
	{"post_mlp_norm.weight", "post_ffw_norm", plus(float32(1 / math.Pow(5, 1.5)))},
	{"mixer.qkv_proj", "attn_qkv", nil},
	{"mixer.o_proj", "attn_output", nil},
	{"mlp.gate_up_proj", "ffn_up", nil},
	{"mlp.down_proj", "ffn_down", nil},
}

// multiplier returns a factor of config.json, 1 if it has none.
func multiplier(name string) func(*config) float64 {
	return func(c *config) float64 { return c.numberOr(name, 1) }
}

// multiplierOf returns a factor of a list, 1 if there is no list.
func multiplierOf(name string, i int) func(*config) float64 {
	return func(c *config) float64 {
		list := c.list(name)
		if list == nil {
			return 1
		}
		if i >= len(list) {
			c.fail("%s has %d factors, want more than %d", name, len(list), i)
			return 1
		}
		f, ok := list[i].(float64)
		if !ok {
			c.fail("%s has %.40v, want numbers", name, list[i])
		}
		return f
	}
}

// timesByPart multiplies the parts of a scan, each by its own factor: gates, inputs, B, C and steps.
var timesByPart = one(func(c *config, v view) (view, error) {
	inner, state := uint64(c.count("mamba_d_ssm")), uint64(c.count("mamba_n_groups")*c.count("mamba_d_state"))
	rows, each := v.rows()
	if least := 2 * (inner + state); rows < least {
		return view{}, fmt.Errorf("%d rows, want more than %d", rows, least)
	}
	whole := multiplier("ssm_in_multiplier")(c)
	var parts []view
	at := uint64(0)
	for i, n := range []uint64{inner, inner, state, state, rows - 2*(inner+state)} {
		part := v.strided(at*each, dim{n, each}, dim{each, 1})
		factor := float32(whole * multiplierOf("ssm_multipliers", i)(c))
		if n > 0 {
			parts = append(parts, part.each(func(x float32) float32 { return x * factor }))
		}
		at += n
	}
	return joined(parts...)
})

// every returns the layers of a period, from an offset on.
func every(layers, offset, period int) []bool {
	is := make([]bool, layers)
	for i := offset; i < layers; i += max(period, 1) {
		is[i] = true
	}
	return is
}

func jambaKeys(k *keys) {
	width := k.count("hidden_size")
	k.ns("attention.head_count_kv", where(every(k.layers(), k.count("attn_layer_offset"), k.count("attn_layer_period")), k.headsKV(), 0))
	k.n("ssm.conv_kernel", k.countOr("mamba_d_conv", 4))
	k.n("ssm.inner_size", k.count("mamba_expand")*width)
	k.n("ssm.state_size", k.countOr("mamba_d_state", 16))
	rank := (width + 15) / 16
	if _, auto := k.m["mamba_dt_rank"].(string); !auto {
		rank = k.countOr("mamba_dt_rank", rank)
	}
	k.n("ssm.time_step_rank", rank)
	k.f("attention.layer_norm_rms_epsilon", k.numberOr("layer_norm_epsilon rms_norm_eps", 1e-6))
	k.drop("rope.freq_base", "attention.key_length", "attention.value_length")
}

// jambaName gives the one network of a layer without experts, which checkpoints have as an expert, its plain name.
func jambaName(c *config, name string) string {
	name = strings.Replace(name, ".moe.", ".feed_forward.", 1)
	if s := parse(name, nil); s.expert == 0 {
		if with := every(c.layers(), c.countOr("expert_layer_offset", 1), c.countOr("expert_layer_period", 2)); s.layer >= 0 && s.layer < len(with) && !with[s.layer] {
			return strings.Replace(name, ".experts.0.", ".", 1)
		}
	}
	return name
}

// spaceless is for vocabularies that put no space before a text where they come from tokenizer.json.
func spaceless(m *Model, v *vocabulary) {
	if !m.exists("tokenizer.model") {
		noSpace(m, v)
	}
}

func plamo2Keys(k *keys) {
	vocabSize(k)
	layers, step := k.layers(), max(k.countOr("mamba_step", 2), 1)
	attends := every(layers, step/2, step)
	if layers <= step/2 {
		attends = every(layers, max(layers-1, 0), 1)
	}
	if scans, set := k.m["mamba_enabled"].(bool); scans || !set {
		k.ns("attention.head_count", where(attends, k.heads(), 0))
		k.ns("attention.head_count_kv", where(attends, k.countOr("num_key_value_heads", 4), 0))
	}
	head := k.countOr("hidden_size_per_head", 128)
	k.n("attention.key_length", head)
	k.n("attention.value_length", head)
	k.n("ssm.conv_kernel", k.countOr("mamba_d_conv", 4))
	k.n("ssm.state_size", k.countOr("mamba_d_state", 64))
	k.n("ssm.time_step_rank", k.countOr("mamba_num_heads", 64))
	k.n("ssm.inner_size", k.countOr("mamba_num_heads", 64)*head)
	k.n("ssm.group_count", 0)
	if k.theta() == 0 {
		k.f("rope.freq_base", 10000)
	}
}
