package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// alone are families that are the only ones of their makers, with names or settings of their own.
var alone = []family{
	{
		arch:  "arctic",
		names: "ArcticForCausalLM",
		rules: with(slices.Concat(ends, pairs, blockSparse),
			rule{"post_attention_layernorm", "ffn_norm_exps", nil},
			rule{"residual_layernorm", "ffn_norm", nil},
			rule{"residual_mlp.w1", "ffn_gate", nil},
			rule{"residual_mlp.w2", "ffn_down", nil},
			rule{"residual_mlp.w3", "ffn_up", nil}),
		keys: commonKeys,
	},
	{
		arch:  "codeshell",
		names: "CodeShellForCausalLM",
		rules: gpt,
		settings: []setting{
			{"attention.head_count_kv", 'n', "num_query_groups"},
		},
		keys: func(k *keys) {
			k.n("feed_forward_length", k.countOr("n_inner", 4*k.count("n_embd")))
			k.f("rope.freq_base", 10000)
			k.set("rope.scaling.type", "linear")
			k.f("rope.scaling.factor", 1)
		},
	},
	{
		arch:  "jais",
		names: "JAISLMHeadModel",
		rules: with(gpt, // whose matrices are the other way round
			rule{"wte", "token_embd", times(jaisEmbeddings)},
			rule{"lm_head", "output", times(jaisOutput)},
			rule{"attn.c_attn.weight", "attn_qkv.weight", transpose},
			rule{"attn.c_proj.weight", "attn_output.weight", transpose},
			rule{"mlp.c_fc.weight", "ffn_up.weight", transpose},
			rule{"mlp.c_fc2.weight", "ffn_gate.weight", transpose},
			rule{"mlp.c_fc2", "ffn_gate", nil},
			rule{"mlp.c_proj.weight", "ffn_down.weight", transpose},
			rule{"relative_pe.slopes", "", nil}), // see jaisSlopes
		keys: func(k *keys) {
			k.want("activation_function", "swiglu")
			k.want("position_embedding_type", "alibi")
			k.n("attention.head_count_kv", k.heads())
		},
		change: jaisTied,
		finish: jaisSlopes,
	},
	{
		arch:  "refact",
		names: "GPTRefactForCausalLM",
		rules: with(gpt,
			rule{"attn.q", "attn_q", nil},
			rule{"attn.kv", "attn_k attn_v", halves},
			rule{"mlp.gate_up_proj", "ffn_gate ffn_up", halves}),
		keys: func(k *keys) {
			k.n("attention.head_count_kv", 1)
			k.f("attention.layer_norm_rms_epsilon", k.number("layer_norm_epsilon"))
			k.drop("attention.layer_norm_epsilon")
		},
		finish: widths,
	},
	{
		arch:  "openelm",
		names: "OpenELMForCausalLM",
		rules: []rule{
			{"token_embeddings", "token_embd", nil},
			{"norm", "output_norm", nil},
			{"lm_head", "output", nil},
			{"attn_norm", "attn_norm", nil},
			{"attn.qkv_proj", "attn_qkv", nil},
			{"attn.q_norm", "attn_q_norm", nil},
			{"attn.k_norm", "attn_k_norm", nil},
			{"attn.out_proj", "attn_output", nil},
			{"ffn_norm", "ffn_norm", nil},
			{"ffn.proj_1", "ffn_gate ffn_up", halves},
			{"ffn.proj_2", "ffn_down", nil},
		},
		settings: []setting{
			{"embedding_length", 'n', "model_dim"},
			{"context_length", 'n', "max_context_length"},
			{"attention.head_count", 'n', "num_query_heads"},
			{"attention.head_count_kv", 'n', "num_kv_heads"},
		},
		keys: func(k *keys) {
			k.f("attention.layer_norm_rms_epsilon", 1e-6)
			k.f("rope.freq_base", k.numberOr("rope_freq_constant", 10000))
			k.n("rope.dimension_count", k.count("head_dim"))
		},
		finish: widths,
	},
	{
		arch:     "plm",
		names:    "PLMForCausalLM",
		rules:    slices.Concat([]rule{{"self_attn.kv_b_proj", "attn_kv_b", nil}}, latent, ends, attention, dense),
		settings: []setting{{"attention.kv_lora_rank", 'n', "kv_lora_rank"}, {"rope.dimension_count", 'n', "qk_rope_head_dim"}},
		keys: func(k *keys) {
			vocabSize(k)
			k.n("attention.key_length", k.count("qk_nope_head_dim")+k.count("qk_rope_head_dim"))
			k.n("attention.value_length", k.count("v_head_dim"))
		},
	},
	{
		arch:  "smallthinker",
		names: "SmallThinkerForCausalLM",
		rules: with(slices.Concat(ends, attention, dense),
			rule{"block_sparse_moe.primary_router", "ffn_gate_inp", nil},
			rule{"block_sparse_moe.experts.*.gate", "ffn_gate_exps", nil},
			rule{"block_sparse_moe.experts.*.up", "ffn_up_exps", nil},
			rule{"block_sparse_moe.experts.*.down", "ffn_down_exps", nil}),
		settings: []setting{
			{"expert_count", 'n', "moe_num_primary_experts"},
			{"expert_used_count", 'n', "moe_num_active_primary_experts"},
			{"expert_feed_forward_length", 'n', "moe_ffn_hidden_size"},
			{"feed_forward_length", 'n', "moe_ffn_hidden_size"},
		},
		keys: func(k *keys) {
			name := "sigmoid"
			if k.flag("moe_primary_router_apply_softmax") {
				name = "softmax"
			}
			k.gating(name)
			layout := k.numbers("sliding_window_layout")
			for i, v := range layout {
				if (v == 0) != (i%4 == 0) {
					k.fail("sliding_window_layout: layer %d is not as smallthinker has it, the first of four without a window", i)
				}
			}
			if len(layout) > 0 && k.has("sliding_window_size") {
				k.n("attention.sliding_window", k.count("sliding_window_size"))
			}
		},
	},
	{
		arch:  "grok",
		names: "Grok1ForCausalLM GrokForCausalLM",
		rules: with(slices.Concat(ends, attention, dense, blockSparse),
			rule{"pre_attn_norm", "attn_norm", nil},
			rule{"post_attn_norm", "attn_output_norm", nil},
			rule{"pre_moe_norm", "ffn_norm", nil},
			rule{"post_moe_norm", "post_ffw_norm", nil},
			rule{"in_out_embed", "token_embd", nil}, // the first one's names
			rule{".rms_norm", "attn_norm", nil},
			rule{"rms_norm", "output_norm", nil},
			rule{"rms_norm_1", "attn_output_norm", nil},
			rule{"rms_norm_2", "ffn_norm", nil},
			rule{"rms_norm_3", "layer_output_norm", nil},
			rule{"multi_head_attention.query", "attn_q", nil},
			rule{"multi_head_attention.key", "attn_k", nil},
			rule{"multi_head_attention.value", "attn_v", nil},
			rule{"multi_head_attention.linear", "attn_output", nil},
			rule{"router", "ffn_gate_inp", nil},
			rule{"moe.*.linear", "ffn_gate_exps", nil},
			rule{"moe.*.linear_1", "ffn_down_exps", nil},
			rule{"moe.*.linear_v", "ffn_up_exps", nil}),
		settings: []setting{
			{"expert_feed_forward_length", 'n', "moe_intermediate_size"},
			{"attention.temperature_length", 'n', "attn_temperature_len"},
			{"final_logit_softcapping", 'f', "final_logit_softcapping"},
			{"embedding_scale", 'f', "embedding_multiplier_scale"},
			{"logit_scale", 'f', "output_multiplier_scale"},
		},
		keys:   grokKeys,
		across: ".w2.weight", // Grok 2's experts are in files of eight machines
		rename: func(_ *config, name string) string {
			return strings.Replace(name, "transformer.decoder_layer.", "model.layers.", 1)
		},
	},
	{
		arch:  "chameleon",
		names: "ChameleonForConditionalGeneration ChameleonForCausalLM",
		rules: with(slices.Concat(ends, pairs, dense),
			rule{"self_attn.q_norm", "attn_q_norm", headPairs((*config).heads)},
			rule{"self_attn.k_norm", "attn_k_norm", headPairs((*config).headsKV)}),
		keys: func(k *keys) {
			commonKeys(k)
			k.b("swin_norm", k.flag("swin_norm"))
		},
		skip: []string{"model.vqmodel."},
	},
	{
		arch:  "talkie",
		names: "TalkieForCausalLM",
		rules: []rule{
			{"embed", "token_embd", nil},
			{"lm_head", "output.weight", nil},
			{"lm_head_gain.w_g", "", nil}, // see talkieGain
			{"attn.attn_query", "attn_q", backwards},
			{"attn.attn_key", "attn_k", backwards},
			{"attn.attn_value", "attn_v", nil},
			{"attn.attn_resid", "attn_output", nil},
			{"attn.head_gain.head_g", "attn_q_norm.weight", column},
			{"attn_gain.a_g", "attn_output.scale", nil},
			{"mlp.mlp_gate", "ffn_gate", nil},
			{"mlp.mlp_linear", "ffn_up", nil},
			{"mlp.mlp_resid", "ffn_down", nil},
			{"mlp_gain.a_g", "ffn_down.scale", nil},
			{"embed_skip.a_g", "layer_output_scale.weight", nil},
		},
		keys: func(k *keys) {
			k.n("attention.head_count_kv", k.heads())
			k.n("attention.key_length", k.headDim())
			k.n("attention.value_length", k.headDim())
			rotating(k, 1)
			k.f("attention.layer_norm_rms_epsilon", 0x1p-23)
			if k.theta() == 0 {
				k.f("rope.freq_base", 1e6)
			}
		},
		finish: func(m *Model, k *keys) {
			widths(m, k)
			talkieGain(m, k)
		},
	},
	{
		arch:  "hrm_text",
		names: "HrmTextForCausalLM",
		rules: []rule{
			{"embed_tokens", "token_embd", nil},
			{"lm_head", "output", nil},
			{"z_L_init", "hrm.z_l_init", nil},
			{"attn.gqkv_proj", "attn_gate attn_q attn_k attn_v", quarters},
			{"attn.o_proj", "attn_output", nil},
			{"mlp.gate_up_proj", "ffn_gate ffn_up", halves},
			{"mlp.down_proj", "ffn_down", nil},
		},
		settings: []setting{{"embedding_scale", 'f', "embedding_scale"}},
		keys: func(k *keys) {
			each, high, low := stackOf(k.config), k.count("H_cycles"), k.count("L_cycles")
			if all := max(each, high, low); all > 1<<12 {
				k.fail("H_cycles, L_cycles and layers of %d, the most is %d", all, 1<<12)
				return
			}
			k.n("block_count", each*high*(low+1))
			k.n("hrm.layers_per_stack", each)
			k.n("hrm.h_cycles", high)
			k.n("hrm.l_cycles", low)
			k.b("hrm.prefix_lm", k.flag("prefix_lm"))
			k.n("attention.head_count_kv", k.headsKV())
			k.n("attention.key_length", k.headDim())
			k.n("attention.value_length", k.headDim())
			rotating(k, 1)
		},
		rename: func(c *config, name string) string { // the low stack is before the high one
			for i, stack := range []string{"model.L_module.layers.", "model.H_module.layers."} {
				rest, ok := strings.CutPrefix(name, stack)
				number, tail, _ := strings.Cut(rest, ".")
				if n, isNumber := digits(number); ok && isNumber && n < stackOf(c) {
					return fmt.Sprintf("model.layers.%d.%s", i*stackOf(c)+n, tail)
				}
			}
			return name
		},
	},
}

// grokKeys sets limits and rotations, which stand in config.json itself.
func grokKeys(k *keys) {
	k.f("attn_logit_softcapping", k.numberOr("attn_logit_softcapping", 30))
	k.f("router_logit_softcapping", k.numberOr("router_logit_softcapping", 30))
	k.f("attention.output_scale", k.numberOr("attn_output_multiplier", 1/math.Sqrt(float64(max(k.headDim(), 1)))))
	switch kind := k.text("rope_type"); kind {
	case "":
	case "yarn", "original":
		k.set("rope.scaling.type", "yarn")
		k.f("rope.scaling.factor", k.number("scaling_factor"))
		k.n("rope.scaling.original_context_length", k.count("original_max_position_embeddings"))
		k.f("rope.scaling.yarn_ext_factor", k.number("extrapolation_factor"))
		k.f("rope.scaling.yarn_attn_factor", k.number("attn_factor"))
		k.f("rope.scaling.yarn_beta_fast", k.number("beta_fast"))
		k.f("rope.scaling.yarn_beta_slow", k.number("beta_slow"))
	default:
		k.fail("rope_type is %q, want yarn or original", kind)
	}
}

// widths sets how wide the feed-forward networks are, which config.json does not say: one number, or one for each layer.
func widths(m *Model, k *keys) {
	var all []uint32
	for il := range m.layers {
		t := m.target(fmt.Sprintf("blk.%d.ffn_up.weight", il))
		if t == nil || len(t.dims) != 2 || t.dims[1] > math.MaxUint32 {
			k.fail("layer %d has no matrix ffn_up", il)
			return
		}
		all = append(all, uint32(t.dims[1]))
	}
	if len(slices.Compact(slices.Clone(all))) == 1 {
		k.set("feed_forward_length", all[0])
		return
	}
	k.ns("feed_forward_length", all)
}

// quarters splits rows in four.
var quarters op = func(_ *config, in []view) ([]view, error) { return cut(in[0], 4, false) }

// jaisEmbeddings and jaisOutput are what Jais multiplies embeddings and logits by.
func jaisEmbeddings(c *config) float64 { return c.number("mup_embeddings_scale embeddings_scale") }

func jaisOutput(c *config) float64 {
	if c.has("mup_output_alpha") {
		return c.number("mup_output_alpha") * c.number("mup_width_scale")
	}
	return c.number("width_scale")
}

// jaisTied makes of the embeddings, where the output shares them, two matrices: each has a factor of its own. Its config.json says
// only where it does not.
func jaisTied(c *config, f *family) *family {
	if tied, said := c.m["tie_word_embeddings"].(bool); said && !tied {
		return f
	}
	c.m["tie_word_embeddings"] = true
	kind := *f
	kind.rules = with(f.rules, rule{"wte", "token_embd output", func(c *config, in []view) ([]view, error) {
		a, err := times(jaisEmbeddings)(c, in)
		if err != nil {
			return nil, err
		}
		b, err := times(jaisOutput)(c, in)
		return slices.Concat(a, b), err
	}})
	return &kind
}

// jaisSlopes sets the largest slope of ALiBi, of which the checkpoint has those of all heads.
func jaisSlopes(m *Model, k *keys) {
	bias := 8.0
	if t := m.weights.Tensor("transformer.relative_pe.slopes"); t != nil && t.Elems() > 0 {
		one := make([]float32, 1)
		if err := t.Floats(one, 0); err != nil {
			k.fail("%s", err)
			return
		}
		heads := math.Exp2(math.Floor(math.Log2(float64(max(k.heads(), 1)))))
		if bias = -math.Round(math.Log2(float64(one[0])) * heads); !(bias > 0 && bias < 1e6) {
			k.fail("the first slope is %v, want one between 0 and 1", one[0])
		}
	}
	k.f("attention.max_alibi_bias", bias)
}

// headPairs is permute of weights of norms, of which each head has its own.
func headPairs(heads func(*config) int) op {
	return one(func(c *config, v view) (view, error) {
		flat, err := v.as(v.elems())
		if err != nil {
			return view{}, err
		}
		made, err := permute(heads)(c, []view{flat})
		if err != nil {
			return view{}, err
		}
		h := uint64(max(heads(c), 1))
		return made[0].as(h, v.elems()/h)
	})
}

// backwards negates the second half of each head's channels: Talkie rotates the other way round.
var backwards = one(func(c *config, v view) (view, error) {
	rows, each := v.rows()
	d := uint64(c.headDim())
	if d == 0 || d%2 != 0 || rows%d != 0 {
		return view{}, fmt.Errorf("%d rows for heads of %d", rows, d)
	}
	read := v.read
	v.read = func(dst []float32, at uint64) error {
		if err := read(dst, at); err != nil {
			return err
		}
		for i := range dst {
			if (at+uint64(i))/each%d >= d/2 {
				dst[i] = -dst[i]
			}
		}
		return nil
	}
	return v, nil
})

// talkieGain sets what logits are multiplied by.
func talkieGain(m *Model, k *keys) {
	t := m.weights.Tensor("lm_head_gain.w_g")
	if t == nil {
		k.f("logit_scale", 1) // it is in the matrix
		return
	}
	one := make([]float32, 1)
	if t.Elems() != 1 {
		k.fail("lm_head_gain.w_g has %d numbers, want one", t.Elems())
	} else if err := t.Floats(one, 0); err != nil {
		k.fail("%s", err)
	}
	k.set("logit_scale", one[0])
}

// stackOf returns the layers of one of HRM's two stacks.
func stackOf(c *config) int { return c.countOr("num_layers_per_stack", c.layers()) }
