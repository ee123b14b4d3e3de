package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var falconh1 = lang.Family{
	Arch:  "falcon-h1",
	Names: "FalconH1ForCausalLM",
	Rules: lang.Rules{
		{"embed_tokens", "token_embd", lang.Times(multiplier("embedding_multiplier"))},
		{"lm_head", "output", lang.Times(multiplier("lm_head_multiplier"))},
		{"final_layernorm", "output_norm", nil},
		{"pre_ff_layernorm.weight", "ffn_norm", nil}, // the name that llama.cpp has
		{"feed_forward.gate_proj", "ffn_gate", lang.Times(multiplierOf("mlp_multipliers", 0))},
		{"feed_forward.up_proj", "ffn_up", nil},
		{"feed_forward.down_proj", "ffn_down", lang.Times(multiplierOf("mlp_multipliers", 1))},
		{"self_attn.q_proj", "attn_q", lang.Times(multiplier("attention_in_multiplier"))},
		{"self_attn.k_proj", "attn_k", lang.Times(func(c *hf.Config) float64 {
			return multiplier("attention_in_multiplier")(c) * multiplier("key_multiplier")(c)
		})},
		{"self_attn.v_proj", "attn_v", lang.Times(multiplier("attention_in_multiplier"))},
		{"self_attn.o_proj", "attn_output", lang.Times(multiplier("attention_out_multiplier"))},
		{"mamba.out_proj", "ssm_out", lang.Times(multiplier("ssm_out_multiplier"))},
		{"mamba.in_proj", "ssm_in", timesByPart},
	}.And(mambaScan, attention),
	Settings: lang.Settings{
		{"ssm.conv_kernel", 'n', "mamba_d_conv"},
		{"ssm.inner_size", 'n', "mamba_d_ssm"},
		{"ssm.state_size", 'n', "mamba_d_state"},
		{"ssm.group_count", 'n', "mamba_n_groups"},
	},
	Keys: func(k *lang.Keys) {
		vocabSize(k)
		k.N("ssm.time_step_rank", k.Count("mamba_d_ssm")/max(k.Count("mamba_d_head"), 1))
		stepLimits(k)
	},
	Fixed: scanAct,
}

// multiplier returns a factor of config.json, 1 if there is none.
func multiplier(name string) func(*hf.Config) float64 {
	return func(c *hf.Config) float64 { return c.NumberOr(name, 1) }
}

// multiplierOf returns an element of a list of factors, 1 if there is no list.
func multiplierOf(name string, i int) func(*hf.Config) float64 {
	return func(c *hf.Config) float64 {
		list := c.List(name)
		if list == nil {
			return 1
		}
		if i >= len(list) {
			c.Fail("%s has %d factors, want more than %d", name, len(list), i)
			return 1
		}
		f, ok := list[i].(float64)
		if !ok {
			c.Fail("%s has %.40v, want numbers", name, list[i])
		}
		return f
	}
}

// timesByPart multiplies the rows of a scan's parts by their factors: gates, inputs, B, C and steps.
var timesByPart = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	inner, state := uint64(c.Count("mamba_d_ssm")), uint64(c.Count("mamba_n_groups")*c.Count("mamba_d_state"))
	rows, each := v.Rows()
	if least := 2 * (inner + state); rows < least {
		return lang.View{}, fmt.Errorf("%d rows, want more than %d", rows, least)
	}
	whole := multiplier("ssm_in_multiplier")(c)
	var parts []lang.View
	at := uint64(0)
	for i, n := range []uint64{inner, inner, state, state, rows - 2*(inner+state)} {
		part := v.Strided(at*each, lang.Dim{n, each}, lang.Dim{each, 1})
		factor := float32(whole * multiplierOf("ssm_multipliers", i)(c))
		if n > 0 {
			parts = append(parts, part.Each(func(x float32) float32 { return x * factor }))
		}
		at += n
	}
	return lang.Joined(parts...)
})
