package convert

import (
	"fmt"
	"slices"
)

// singles are families without kin.
var singles = []family{
	{
		arch:  "glm4",
		names: "Glm4ForCausalLM",
		rules: with(slices.Concat(ends, attention, dense),
			rule{"post_self_attn_layernorm", "post_attention_norm", nil},
			rule{"post_mlp_layernorm", "post_ffw_norm", nil},
			rule{"mlp.gate_up_proj", "ffn_up", nil}),
		keys:  func(k *keys) { rotating(k, 0.5) },
		vocab: glmVocab,
	},
	{
		arch:  "gptneox",
		names: "GPTNeoXForCausalLM",
		rules: []rule{
			{"embed_in", "token_embd", nil},
			{"embed_out", "output", nil},
			{"final_layer_norm", "output_norm", nil},
			{"input_layernorm", "attn_norm", nil},
			{"post_attention_layernorm", "ffn_norm", nil},
			{"attention.query_key_value", "attn_qkv", threes},
			{"attention.dense", "attn_output", nil},
			{"mlp.dense_h_to_4h", "ffn_up", nil},
			{"mlp.dense_4h_to_h", "ffn_down", nil},
			{"attention.bias", "", nil},
			{"attention.masked_bias", "", nil},
		},
		keys: func(k *keys) {
			k.n("rope.dimension_count", int(float64(k.headDim())*k.partial(0.25)))
			k.b("use_parallel_residual", !k.has("use_parallel_residual") || k.flag("use_parallel_residual"))
		},
		prefix: "gpt_neox.",
	},
	{
		arch:  "gpt2",
		names: "GPT2LMHeadModel",
		rules: []rule{ // whose matrices are the other way round
			{"wte", "token_embd", nil},
			{"wpe", "position_embd", nil},
			{"ln_f", "output_norm", nil},
			{"lm_head", "output", nil},
			{"ln_1", "attn_norm", nil},
			{"ln_2", "ffn_norm", nil},
			{"attn.c_attn.weight", "attn_qkv.weight", transpose},
			{"attn.c_attn", "attn_qkv", nil},
			{"attn.c_proj.weight", "attn_output.weight", transpose},
			{"attn.c_proj", "attn_output", nil},
			{"mlp.c_fc.weight", "ffn_up.weight", transpose},
			{"mlp.c_fc", "ffn_up", nil},
			{"mlp.c_proj.weight", "ffn_down.weight", transpose},
			{"mlp.c_proj", "ffn_down", nil},
			{"attn.bias", "", nil},
			{"attn.masked_bias", "", nil},
		},
		keys: func(k *keys) {
			k.n("feed_forward_length", k.countOr("n_inner", 4*k.count("n_embd")))
		},
	},
}

// threes brings rows of queries, keys and values, which lie by heads, in the order of queries, keys and values.
var threes = one(func(c *config, v view) (view, error) {
	rows, each := v.rows()
	h := uint64(max(c.heads(), 1))
	d := rows / (3 * h)
	if rows != 3*h*d {
		return view{}, fmt.Errorf("%d rows for queries, keys and values of %d heads", rows, h)
	}
	return v.strided(0, dim{3, d * each}, dim{h, 3 * d * each}, dim{d, each}, dim{each, 1}).as(v.shape...)
})
