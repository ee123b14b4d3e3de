package convert

import (
	"math"
	"slices"
)

// llamas are Llama and those that differ from it in a line or two.
var llamas = []family{
	{
		arch:  "llama",
		names: "LlamaForCausalLM LLaMAForCausalLM LlamaModel MistralForCausalLM MixtralForCausalLM",
		rules: slices.Concat(ends, pairs, dense, blockSparse),
		keys:  commonKeys,
		extra: llama3Factors,
	},
	{
		arch:   "mistral3",
		names:  "Mistral3ForConditionalGeneration Ministral3ForCausalLM",
		change: overLatents,
		rules:  slices.Concat(ends, pairs, dense),
		keys: func(k *keys) {
			commonKeys(k)
			k.want("model_type", "ministral3", "mistral", "mistral3")
			r := k.ropeOf("full_attention")
			if r.has("mscale_all_dim") {
				k.f("rope.scaling.yarn_log_multiplier", r.number("mscale_all_dim"))
			}
			if r.has("llama_4_scaling_beta") {
				k.f("attention.temperature_scale", r.number("llama_4_scaling_beta"))
			}
			k.take(r)
		},
	},
	{
		arch:  "hunyuan-dense",
		names: "HunYuanDenseV1ForCausalLM",
		rules: with(slices.Concat(ends, attention, dense),
			rule{"self_attn.query_layernorm", "attn_q_norm", nil},
			rule{"self_attn.key_layernorm", "attn_k_norm", nil}),
		keys: func(k *keys) {
			stretched(k)
			k.drop("expert_count", "expert_used_count")
		},
	},
	{
		arch:  "hunyuan_vl",
		names: "HunYuanVLForConditionalGeneration",
		rules: with(slices.Concat(ends, attention, dense),
			rule{"self_attn.query_layernorm", "attn_q_norm", nil},
			rule{"self_attn.key_layernorm", "attn_k_norm", nil}),
		keys: func(k *keys) {
			if r := k.ropeOf("full_attention"); r.has("mrope_section xdrope_section") {
				k.f("rope.scaling.alpha", r.number("alpha"))
				k.take(r)
			} else {
				stretched(k)
			}
			k.drop("expert_count", "expert_used_count")
		},
		skip: []string{"vit."},
	},
	{
		arch:  "arcee",
		names: "ArceeForCausalLM",
		rules: slices.Concat(ends, pairs, dense),
		keys:  commonKeys,
		extra: llama3Factors,
	},
	{
		arch:  "smollm3",
		names: "SmolLM3ForCausalLM",
		rules: slices.Concat(ends, pairs, dense),
		keys: func(k *keys) {
			commonKeys(k)
			for i, v := range k.numbers("no_rope_layers") { // 0: a layer without rotations
				if (v == 0) != ((i+1)%4 == 0) {
					k.fail("no_rope_layers: layer %d is not as smollm3 has it, every fourth without rotations", i)
				}
			}
		},
	},
	{
		arch:  "seed_oss",
		names: "SeedOssForCausalLM",
		rules: slices.Concat([]rule{{"post_attention_layernorm", "post_attention_norm", nil}}, ends, attention, dense),
	},
	{
		arch:  "ernie4_5",
		names: "Ernie4_5ForCausalLM Ernie4_5_ForCausalLM",
		rules: slices.Concat(ends, attention, dense), // which has its channels in pairs
	},
	{
		arch:  "paddleocr",
		names: "PaddleOCRVLForConditionalGeneration",
		rules: slices.Concat(ends, attention, dense),
		skip:  []string{"mlp_AR."},
	},
	{
		arch:     "nanbeige",
		names:    "NanbeigeForCausalLM",
		rules:    slices.Concat(ends, pairs, dense),
		settings: []setting{{"num_loops", 'n', "num_loops"}, {"skip_loop_final_norm", 'b', "skip_loop_final_norm"}},
		keys:     commonKeys,
		extra:    llama3Factors,
	},
	{
		arch:     "olmo",
		names:    "OlmoForCausalLM",
		rules:    slices.Concat(ends, pairs, dense),
		settings: []setting{{"attention.clamp_kqv", 'f', "clip_qkv"}},
		keys:     func(k *keys) { k.f("attention.layer_norm_epsilon", 1e-5) },
	},
	{
		arch:  "olmo2",
		names: "Olmo2ForCausalLM Olmo3ForCausalLM",
		rules: slices.Concat(around, ends, attention, dense),
		keys: func(k *keys) {
			if k.has("sliding_window") {
				windows := make([]bool, k.layers())
				for i := range windows {
					windows[i] = (i+1)%4 != 0
				}
				if k.has("layer_types") {
					windows = k.typesOf("sliding_attention")
				}
				k.n("attention.sliding_window", k.count("sliding_window"))
				k.bs("attention.sliding_window_pattern", windows)
			}
		},
	},
	{
		arch:  "command-r",
		names: "CohereForCausalLM",
		rules: slices.Concat(ends, attention, dense),
		settings: []setting{
			{"logit_scale", 'f', "logit_scale"},
			{"attention.layer_norm_epsilon", 'f', "layer_norm_eps"},
		},
		keys: func(k *keys) { k.set("rope.scaling.type", "none") },
		skip: []string{"lm_head."},
	},
	{
		arch:     "cohere2",
		names:    "Cohere2ForCausalLM",
		rules:    slices.Concat(ends, attention, dense),
		settings: []setting{{"logit_scale", 'f', "logit_scale"}, {"attention.sliding_window", 'n', "sliding_window"}},
		keys: func(k *keys) {
			commonKeys(k)
			k.set("rope.scaling.type", "none")
		},
		skip: []string{"lm_head."},
	},
	{
		arch:  "cohere2moe",
		names: "Cohere2MoeForCausalLM",
		rules: slices.Concat(predicting, ends, attention, dense, mixture),
		settings: []setting{
			{"feed_forward_length", 'n', "prefix_dense_intermediate_size intermediate_size"},
			{"expert_feed_forward_length", 'n', "intermediate_size"},
			{"leading_dense_block_count", 'n', "first_k_dense_replace"},
			{"expert_weights_norm", 'b', "norm_topk_prob"},
			{"logit_scale", 'f', "logit_scale"},
			{"attention.sliding_window", 'n', "sliding_window"},
		},
		keys: func(k *keys) {
			commonKeys(k)
			k.set("rope.scaling.type", "none")
			k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
			k.gating("sigmoid")
			k.want("shared_expert_combination_strategy", "average")
			if k.has("mlp_layer_types") {
				k.n("leading_dense_block_count", k.leading())
			}
			if n := k.countOr("num_shared_experts", 0); n > 0 {
				k.n("expert_shared_count", n)
				k.n("expert_shared_feed_forward_length", n*k.count("intermediate_size"))
			}
			further(k)
		},
	},
	{
		arch:  "exaone4",
		names: "Exaone4ForCausalLM",
		rules: slices.Concat(around, ends, attention, dense),
		keys: func(k *keys) {
			commonKeys(k)
			if k.has("sliding_window") {
				k.n("attention.sliding_window", k.count("sliding_window"))
				k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
			}
		},
		extra: llama3Factors,
	},
	{
		arch:  "starcoder2",
		names: "Starcoder2ForCausalLM",
		rules: with(slices.Concat(ends, attention, dense),
			rule{"mlp.c_fc", "ffn_up", nil},
			rule{"mlp.c_proj", "ffn_down", nil}),
	},
}

// stretched sets the base of rotations over a context that is longer than it was, as Hunyuan computes it.
func stretched(k *keys) {
	r := k.ropeOf("full_attention")
	defer k.take(r)
	if r.text("rope_type type") != "dynamic" {
		return
	}
	base, dim := k.theta(), float64(k.headDim())
	if base == 0 {
		base = 10000
	}
	k.f("rope.freq_base", base*math.Pow(r.numberOr("alpha", 50), dim/max(dim-2, 1)))
	k.set("rope.scaling.type", "none")
	k.f("rope.scaling.factor", 1)
	k.n("rope.scaling.original_context_length", 1<<18)
	k.n("context_length", 1<<18)
}

// overLatents is Mistral 4 under the name of Mistral 3.
func overLatents(c *config, f *family) *family {
	if c.text("model_type") != "mistral4" {
		return f
	}
	i := slices.IndexFunc(latents, func(f family) bool { return f.arch == "mistral4" })
	return &latents[i]
}
