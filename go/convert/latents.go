package convert

import (
	"fmt"
	"slices"
	"strings"
)

// latent is attention whose keys and values are kept as one vector.
var latent = []rule{
	{"self_attn.q_a_proj", "attn_q_a", nil},
	{"self_attn.q_a_layernorm", "attn_q_a_norm", nil},
	{"self_attn.q_b_proj", "attn_q_b", nil},
	{"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", nil},
	{"self_attn.kv_a_layernorm", "attn_kv_a_norm", nil},
	{"self_attn.kv_b_proj", "attn_k_b attn_v_b", keysValues},
}

var latents = []family{
	{
		arch:     "deepseek",
		names:    "DeepseekForCausalLM",
		rules:    slices.Concat(ends, pairs, dense, mixture),
		settings: routedSettings,
		keys: func(k *keys) {
			unscaled(k)
			k.drop("expert_weights_norm", "rope.scaling.factor")
		},
	},
	{
		arch:     "deepseek2-ocr",
		names:    "DeepseekOCRForCausalLM",
		rules:    slices.Concat(ends, attention, dense, mixture),
		settings: routedSettings,
		keys: func(k *keys) {
			commonKeys(k)
			k.f("attention.layer_norm_rms_epsilon", k.numberOr("rms_norm_eps", 1e-6))
			k.want("use_mla", "false")
			k.drop("expert_group_count", "expert_group_used_count")
		},
		skip: []string{"model.sam_model.", "model.projector.", "model.view_seperator", "model.image_newline"},
	},
	{
		arch:     "deepseek2",
		names:    "DeepseekV2ForCausalLM DeepseekV3ForCausalLM Glm4MoeLiteForCausalLM",
		rules:    slices.Concat(latent, ends, attention, dense, mixture),
		settings: latentSettings,
		keys:     latentKeys,
		change:   withoutNext,
	},
	{
		arch:     "deepseek32",
		names:    "DeepseekV32ForCausalLM",
		rules:    slices.Concat(indexed, predicting, latent, ends, attention, dense, mixture),
		settings: latentSettings,
		keys:     func(k *keys) { latentKeys(k); indexKeys(k); further(k) },
	},
	{
		arch:     "glm-dsa",
		names:    "GlmMoeDsaForCausalLM",
		rules:    slices.Concat(indexed, predicting, latent, ends, attention, dense, mixture),
		settings: latentSettings,
		keys: func(k *keys) {
			latentKeys(k)
			indexKeys(k)
			k.n("rope.dimension_count", int(float64(k.count("qk_rope_head_dim"))*k.partial(1)))
			if k.has("indexer_types") {
				own := []bool{}
				for _, kind := range k.texts("indexer_types") {
					own = append(own, kind == "full")
				}
				k.bs("attention.indexer.types", own)
			}
			further(k)
		},
		vocab: glmVocab,
	},
	{
		arch:     "mistral4",
		names:    "Mistral4ForCausalLM Mistral4ForConditionalGeneration",
		rules:    slices.Concat(latent, ends, attention, dense, mixture),
		settings: latentSettings,
		keys: func(k *keys) {
			latentKeys(k)
			r := k.ropeOf("full_attention")
			if r.has("llama_4_scaling_beta") {
				k.f("attention.temperature_scale", r.number("llama_4_scaling_beta"))
				k.n("attention.temperature_length", r.count("original_max_position_embeddings"))
			}
			k.take(r)
		},
	},
	{
		arch:  "minicpm3",
		names: "MiniCPM3ForCausalLM",
		rules: slices.Concat([]rule{{"self_attn.kv_b_proj", "attn_kv_b", nil}}, latent, ends, attention, dense),
		settings: []setting{
			{"attention.q_lora_rank", 'n', "q_lora_rank"},
			{"attention.kv_lora_rank", 'n', "kv_lora_rank"},
			{"rope.dimension_count", 'n', "qk_rope_head_dim"},
		},
		keys: func(k *keys) {
			vocabSize(k)
			k.n("attention.key_length", k.count("qk_nope_head_dim")+k.count("qk_rope_head_dim"))
			miniCPMScales(k)
			k.drop("attention.value_length", "rope.scaling.type")
		},
		extra: func(c *config) map[string]view { return longFactors(c, c.count("qk_rope_head_dim")) },
	},
	{
		arch:  "kimi-linear",
		names: "KimiLinearForCausalLM KimiLinearModel",
		rules: slices.Concat([]rule{
			{"self_attn.A_log", "ssm_a", then(negExp, column)},
			{"self_attn.g_a_proj", "ssm_g_a", nil},
			{"self_attn.g_b_proj", "ssm_g_b", nil},
		}, kimi, latent, ends, attention, dense, blockSparse),
		settings: latentSettings,
		keys: func(k *keys) {
			latentKeys(k)
			kimiLayers(k, k.within("linear_attn_config"))
			k.drop("expert_group_count", "expert_group_used_count", "expert_weights_norm")
		},
	},
	{
		arch:  "kimi-k3",
		names: "KimiK3ForConditionalGeneration",
		rules: with(slices.Concat(kimi, latent, ends, attention, dense, blockSparse),
			rule{"self_attn.A_log", "ssm_a", then(negExp, ofHeads)},
			rule{"self_attn.g_proj", "ssm_g", nil},
			rule{"self_attn.gate_proj", "attn_gate", nil}, // which is g_proj as well: see the names below
			rule{"self_attention_res_norm.weight self_attention_res_proj.weight", "attn_res_score.weight", product},
			rule{"mlp_res_norm.weight mlp_res_proj.weight", "ffn_res_score.weight", product},
			rule{"output_attn_res_norm.weight output_attn_res_proj.weight", "output_res_score.weight", product},
			rule{"block_sparse_moe.routed_expert_down_proj", "ffn_routed_down", nil},
			rule{"block_sparse_moe.routed_expert_up_proj", "ffn_routed_up", nil},
			rule{"block_sparse_moe.routed_expert_norm", "ffn_routed_norm", nil}),
		settings: slices.Concat(latentSettings, []setting{
			{"expert_weights_norm", 'b', "moe_renormalize"},
			{"expert_latent_length", 'n', "routed_expert_hidden_size"},
			{"activation.situ_beta", 'f', "activation_situ_beta"},
			{"activation.situ_linear_beta", 'f', "activation_situ_linear_beta"},
			{"attn_res.block_size", 'n', "attn_res_block_size"},
		}),
		prefix: "language_model.model. language_model. model.",
		skip:   []string{"vision_tower.", "mm_projector."},
		keys: func(k *keys) {
			latentKeys(k)
			k.want("hidden_act", "situ")
			k.want("mla_use_nope", "true")
			k.gating("sigmoid")
			l := k.within("linear_attn_config")
			kimiLayers(k, l)
			if l.has("gate_lower_bound") {
				k.f("kda.gate_lower_bound", l.number("gate_lower_bound"))
			}
			k.drop("expert_group_count", "expert_group_used_count")
		},
		rename: func(c *config, name string) string {
			s := parse(name, nil)
			if s.layer < 0 || !slices.ContainsFunc(c.within("linear_attn_config").list("full_attn_layers"), func(v any) bool { n, ok := asCount(v); return ok && n == s.layer+1 }) {
				return name
			}
			return strings.Replace(name, ".self_attn.g_proj.", ".self_attn.gate_proj.", 1)
		},
	},
}

// kimi is what layers of Kimi Linear and its heirs have beside attention over latents.
var kimi = []rule{
	{"self_attn.q_conv1d.weight", "ssm_conv1d_q.weight", taps},
	{"self_attn.k_conv1d.weight", "ssm_conv1d_k.weight", taps},
	{"self_attn.v_conv1d.weight", "ssm_conv1d_v.weight", taps},
	{"self_attn.dt_bias", "ssm_dt.bias", nil},
	{"self_attn.f_a_proj", "ssm_f_a", nil},
	{"self_attn.f_b_proj", "ssm_f_b", nil},
	{"self_attn.b_proj", "ssm_beta", nil},
	{"self_attn.o_norm", "ssm_norm", nil},
	{"block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias", nil},
	{"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp", nil},
	{"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp", nil},
	{"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp", nil},
}

// kimiLayers says which layers attend, and the sizes of the others.
func kimiLayers(k *keys, l *config) {
	attends := make([]bool, k.layers())
	for _, v := range l.list("full_attn_layers") { // from 1 on
		n, ok := asCount(v)
		if !ok || n < 1 || n > len(attends) {
			k.fail("linear_attn_config.full_attn_layers has %.40v, want layers from 1 to %d", v, len(attends))
			return
		}
		attends[n-1] = true
	}
	k.ns("attention.head_count_kv", where(attends, 1, 0))
	k.n("ssm.conv_kernel", l.count("short_conv_kernel_size"))
	k.n("kda.head_dim", l.count("head_dim"))
	k.take(l)
}

// ofHeads keeps of a vector the numbers of heads: checkpoints have some more, which nothing reads.
var ofHeads = one(func(c *config, v view) (view, error) {
	n := uint64(c.heads())
	if v.elems() < n {
		return view{}, fmt.Errorf("the shape %v, want a number for each of %d heads", v.shape, n)
	}
	return v.strided(0, dim{n, 1}).as(n)
})

// unscaled is for the first mixtures of their kind, which multiply neither positions nor what experts answer.
func unscaled(k *keys) {
	commonKeys(k)
	k.set("rope.scaling.type", "none")
	k.f("expert_weights_scale", 1)
}

var latentSettings = slices.Concat(routedSettings, []setting{{"attention.q_lora_rank", 'n', "q_lora_rank"}})

// indexed is what chooses the positions that a layer attends to.
var indexed = []rule{
	{"self_attn.indexer.wk", "indexer.attn_k", nil},
	{"self_attn.indexer.wq_b", "indexer.attn_q_b", nil},
	{"self_attn.indexer.k_norm", "indexer.k_norm", nil},
	{"self_attn.indexer.weights_proj", "indexer.proj", nil},
}

func indexKeys(k *keys) {
	k.n("attention.indexer.head_count", k.count("index_n_heads"))
	k.n("attention.indexer.key_length", k.count("index_head_dim"))
	k.n("attention.indexer.top_k", k.count("index_topk"))
}

// taps is the weights of a convolution, with a dimension of 1 between channels and taps.
var taps = one(func(_ *config, v view) (view, error) {
	v = v.squeezed()
	if len(v.shape) != 2 {
		return view{}, fmt.Errorf("the shape %v, want channels and taps", v.shape)
	}
	return v.as(v.shape[0], 1, v.shape[1])
})

// keysValues splits the matrix that makes keys and values of the vector by heads; keys become what queries are multiplied by.
var keysValues op = func(c *config, in []view) ([]view, error) {
	v := in[0]
	heads, nope, value := uint64(c.heads()), uint64(c.count("qk_nope_head_dim")), uint64(c.count("v_head_dim"))
	if len(v.shape) != 2 || v.shape[0] != heads*(nope+value) {
		return nil, fmt.Errorf("the shape %v, want %d rows", v.shape, heads*(nope+value))
	}
	rank := v.shape[1]
	each := (nope + value) * rank
	return []view{
		v.strided(0, dim{heads, each}, dim{rank, 1}, dim{nope, rank}),
		v.strided(nope*rank, dim{heads, each}, dim{value, rank}, dim{rank, 1}),
	}, nil
}

// withoutNext leaves out the layers behind the last, which predict tokens further on, and which files of the family do not have.
func withoutNext(c *config, f *family) *family {
	n := c.layers()
	kind := *f
	for i := range c.countOr("num_nextn_predict_layers", 0) {
		if i == mostNext {
			c.fail("num_nextn_predict_layers: want %d at most", mostNext)
			break
		}
		kind.skip = append(slices.Clone(kind.skip), fmt.Sprintf("model.layers.%d.", n+i))
	}
	return &kind
}

func latentKeys(k *keys) {
	rank, turning, nope := k.countOr("kv_lora_rank", 512), k.count("qk_rope_head_dim"), k.count("qk_nope_head_dim")
	k.n("attention.head_count_kv", 1)
	k.n("attention.kv_lora_rank", rank)
	k.n("attention.key_length", rank+turning)
	k.n("attention.value_length", rank)
	k.n("attention.key_length_mla", nope+turning)
	k.n("attention.value_length_mla", k.count("v_head_dim"))
	k.n("rope.dimension_count", turning)
	k.f("attention.layer_norm_rms_epsilon", k.numberOr("rms_norm_eps", 1e-6))
	vocabSize(k)
	if !k.has("first_k_dense_replace") && k.experts() > 0 {
		k.n("leading_dense_block_count", 0)
	} else if k.experts() == 0 {
		k.n("leading_dense_block_count", k.layers())
	}
	k.gating("")
	r := k.ropeOf("full_attention")
	if r.has("mscale_all_dim") {
		k.f("rope.scaling.yarn_log_multiplier", 0.1*r.number("mscale_all_dim"))
	}
	k.config.take(r)
}
