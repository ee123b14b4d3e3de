package convert

import (
	"fmt"
)

var falconh1 = family{
	arch:  "falcon-h1",
	names: "FalconH1ForCausalLM",
	rules: rules{
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
	}.And(mambaScan, attention),
	settings: settings{
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
