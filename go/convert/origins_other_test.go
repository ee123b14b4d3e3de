package convert

import (
	"maps"
	"strings"
)

// Parts of names that several have.
const (
	sharedHF = `
.mlp.shared_expert.gate_proj ffn_gate_shexp
.mlp.shared_expert.up_proj ffn_up_shexp
.mlp.shared_expert.down_proj ffn_down_shexp
.mlp.shared_expert_gate.weight= ffn_gate_inp_shexp.weight
`
	deltaHF = `
model.norm.weight= output_norm.weight less:1
.input_layernorm.weight= attn_norm.weight less:1
.post_attention_layernorm.weight= post_attention_norm.weight less:1
.self_attn.q_norm.weight= attn_q_norm.weight less:1
.self_attn.k_norm.weight= attn_k_norm.weight less:1
.linear_attn.norm ssm_norm
`
	tiledHF = `
.linear_attn.A_log= ssm_a log untile:1
.linear_attn.dt_bias= ssm_dt.bias untile:1
.linear_attn.conv1d.weight= ssm_conv1d.weight untile:32,128 conv
.linear_attn.in_proj_qkv attn_qkv untile:32,128
.linear_attn.in_proj_z attn_gate untile:32
.linear_attn.in_proj_a ssm_alpha untile:1
.linear_attn.in_proj_b ssm_beta untile:1
.linear_attn.out_proj ssm_out untile:32
`
	nextHF = `
mtp.fc blk.8.nextn.eh_proj
mtp.pre_fc_norm_embedding.weight= blk.8.nextn.enorm.weight less:1
mtp.pre_fc_norm_hidden.weight= blk.8.nextn.hnorm.weight less:1
mtp.norm.weight= blk.8.nextn.shared_head_norm.weight less:1
mtp.layers.0.input_layernorm.weight= blk.8.attn_norm.weight less:1
mtp.layers.0.post_attention_layernorm.weight= blk.8.post_attention_norm.weight less:1
mtp.layers.0.mlp.gate_proj blk.8.ffn_gate
mtp.layers.0.mlp.up_proj blk.8.ffn_up
mtp.layers.0.mlp.down_proj blk.8.ffn_down
`
	graniteHF = `
.block_sparse_moe.router.layer ffn_gate_inp
.block_sparse_moe.input_linear ffn_gate_exps+ffn_up_exps halves
.block_sparse_moe.output_linear ffn_down_exps
.shared_mlp.input_linear ffn_gate_shexp+ffn_up_shexp halves
.shared_mlp.output_linear ffn_down_shexp
`
	scan2HF = `
.mamba.A_log= ssm_a log flat
.mamba.dt_bias= ssm_dt.bias
.mamba.norm.weight= ssm_norm.weight flat
` + scanHF
	mixerHF = `
backbone.embeddings token_embd
backbone.norm_f output_norm
.norm attn_norm
.mixer.q_proj attn_q
.mixer.k_proj attn_k
.mixer.v_proj attn_v
.mixer.o_proj attn_output
.mixer.up_proj ffn_up
.mixer.down_proj ffn_down
.mixer.gate ffn_gate_inp
.mixer.gate.e_score_correction_bias= exp_probs_b.bias
.mixer.experts.*.up_proj ffn_up_exps
.mixer.experts.*.down_proj ffn_down_exps
.mixer.shared_experts.up_proj ffn_up_shexp
.mixer.shared_experts.down_proj ffn_down_shexp
.mixer.fc1_latent_proj ffn_latent_down
.mixer.fc2_latent_proj ffn_latent_up
`
	convolvedHF = `
model.embedding_norm token_embd_norm
.operator_norm attn_norm
.ffn_norm ffn_norm
.self_attn.out_proj attn_output
.self_attn.q_layernorm attn_q_norm
.self_attn.k_layernorm attn_k_norm
.conv.conv.weight= shortconv.conv.weight conv
.conv.in_proj shortconv.in_proj
.conv.out_proj shortconv.out_proj
.feed_forward.w1 ffn_gate
.feed_forward.w2 ffn_down
.feed_forward.w3 ffn_up
.feed_forward.gate ffn_gate_inp
.feed_forward.expert_bias= exp_probs_b.bias
.feed_forward.experts.*.w1 ffn_gate_exps
.feed_forward.experts.*.w2 ffn_down_exps
.feed_forward.experts.*.w3 ffn_up_exps
`
	gemma4HF = `
.layer_scalar= layer_output_scale.weight
.per_layer_input_gate inp_gate
.per_layer_projection proj
.post_per_layer_input_norm post_norm
model.language_model.embed_tokens_per_layer per_layer_token_embd
model.language_model.per_layer_model_projection per_layer_model_proj
model.language_model.per_layer_projection_norm per_layer_proj_norm
.post_feedforward_layernorm_1 post_ffw_norm_1
.post_feedforward_layernorm_2 post_ffw_norm_2
.pre_feedforward_layernorm_2 pre_ffw_norm_2
.router.proj ffn_gate_inp
.router.scale= ffn_gate_inp.scale
.router.per_expert_scale= ffn_down_exps.scale
.experts.gate_up_proj= ffn_gate_exps.weight+ffn_up_exps.weight halves
.experts.gate_up_proj= ffn_gate_up_exps.weight
.experts.down_proj= ffn_down_exps.weight
` + aroundHF
)

// lagunaHF is Laguna's names beside the usual ones.
const lagunaHF = sharedHF + `
.self_attn.g_proj attn_gate
.mlp.experts.e_score_correction_bias= exp_probs_b.bias
`

// oneOfFour returns the kinds of so many layers, of which the first of four has no window.
func oneOfFour(n int) string {
	four := `"full_attention"` + strings.Repeat(`, "sliding_attention"`, 3)
	return strings.TrimSuffix(strings.Repeat(four+", ", n/4), ", ")
}

// within returns names in a model of several kinds of input, whose text model's begin otherwise.
func within(prefix, head, names string) string {
	return prefix + ".embed_tokens token_embd\n" + head + " output\n" + strings.ReplaceAll(names, "model.norm.", prefix+".norm.") + prefix + ".norm output_norm\n"
}

func init() {
	maps.Copy(origins, map[string]origin{
		"llama":      {names: pairsHF},
		"llama-tied": {names: strings.ReplaceAll(pairsHF, "16", "32")},
		"qwen2":      {}, "qwen3": {}, "qwen3moe": {}, "ernie4_5": {}, "command-r": {}, "cohere2": {}, "olmoe": {}, "dots1": {},
		"qwen2moe": {names: sharedHF},
		"qwen3vl":  {layers: "model.language_model.layers.#.", names: within("model.language_model", "lm_head", "")},
		"qwen3next": {names: deltaHF + sharedHF + `
.linear_attn.A_log= ssm_a log
.linear_attn.dt_bias= ssm_dt.bias
.linear_attn.conv1d.weight= ssm_conv1d.weight conv
.linear_attn.in_proj_qkvz attn_qkv+attn_gate by-heads
.linear_attn.in_proj_ba ssm_ba
.linear_attn.out_proj ssm_out
`},
		"qwen35": {layers: "model.language_model.layers.#.", names: nextHF + within("model.language_model", "lm_head", deltaHF+tiledHF)},
		"qwen35moe": {layers: "model.language_model.layers.#.", names: within("model.language_model", "lm_head", deltaHF+tiledHF+sharedHF) + `
.mlp.experts.gate_up_proj= ffn_gate_exps.weight+ffn_up_exps.weight halves
.mlp.experts.down_proj= ffn_down_exps.weight
`},
		"gemma":      {names: plusOneHF},
		"gemma2":     {names: plusOneAroundHF},
		"gemma3":     {layers: "language_model.model.layers.#.", names: within("language_model.model", "language_model.lm_head", plusOneAroundHF)},
		"gemma4":     {layers: "model.language_model.layers.#.", names: within("model.language_model", "lm_head", gemma4HF)},
		"gemma4-moe": {layers: "model.language_model.layers.#.", names: within("model.language_model", "lm_head", gemma4HF), other: `ffn_(gate|up|gate_up)_exps|ffn_down_exps.scale`},
		"phi3":       {names: ".mlp.gate_up_proj ffn_up\n"},
		"phi2":       {names: ".self_attn.dense attn_output\nmodel.final_layernorm output_norm\n.mlp.fc1 ffn_up\n.mlp.fc2 ffn_down\n"},
		"phimoe":     {names: sparseHF},
		"starcoder2": {names: ".mlp.c_fc ffn_up\n.mlp.c_proj ffn_down\n"},
		"granite":    {names: pairsHF},
		"granitemoe": {names: pairsHF + graniteHF},
		"granitehybrid": {
			names: pairsHF + graniteHF + scan2HF,
		},
		"granitehybrid-dense": {names: pairsHF + scan2HF + ".shared_mlp.input_linear ffn_gate+ffn_up halves\n.shared_mlp.output_linear ffn_down\n"},
		"gpt-oss": {names: `
.post_attention_layernorm post_attention_norm
.self_attn.sinks= attn_sinks.weight
.mlp.router ffn_gate_inp
.mlp.experts.gate_up_proj= ffn_gate_exps.weight+ffn_up_exps.weight turns T
.mlp.experts.gate_up_proj_bias= ffn_gate_exps.bias+ffn_up_exps.bias turns:last
.mlp.experts.down_proj= ffn_down_exps.weight T
.mlp.experts.down_proj_bias= ffn_down_exps.bias
`},
		"lfm2": {names: convolvedHF}, "lfm2moe": {names: convolvedHF},
		"olmo2": {names: aroundHF}, "olmo3": {names: aroundHF}, "exaone4": {names: aroundHF},
		"smollm3": {names: pairsHF}, "arcee": {names: pairsHF}, "deepseek": {names: pairsHF},
		"seed_oss":      {names: ".post_attention_layernorm post_attention_norm\n"},
		"glm4":          {names: ".post_self_attn_layernorm post_attention_norm\n.post_mlp_layernorm post_ffw_norm\n.mlp.gate_up_proj ffn_up\n"},
		"glm4moe":       {names: ".post_attention_layernorm post_attention_norm\n.eh_proj nextn.eh_proj\n.enorm nextn.enorm\n.hnorm nextn.hnorm\n.shared_head.norm nextn.shared_head_norm\n"},
		"deepseek2":     {names: latentHF},
		"mistral3":      {layers: "language_model.model.layers.#.", names: within("language_model.model", "language_model.lm_head", strings.ReplaceAll(pairsHF, "16", "32"))},
		"hunyuan-dense": {names: ".self_attn.query_layernorm attn_q_norm\n.self_attn.key_layernorm attn_k_norm\n"},
		"ernie4_5-moe":  {names: ".mlp.moe_statics.e_score_correction_bias= exp_probs_b.bias\n"},
		"bailingmoe2": {names: `
model.word_embeddings token_embd
.attention.query_key_value attn_qkv
.attention.dense attn_output
.attention.query_layernorm attn_q_norm
.attention.key_layernorm attn_k_norm
.mlp.gate.expert_bias= exp_probs_b.bias
`},
		"minimax-m2": {names: sparseHF},
		"mamba":      {layers: "backbone.layers.#.", names: mixerHF + ".mixer.A_log= ssm_a log\n.mixer.dt_proj ssm_dt\n" + strings.ReplaceAll(scanHF, "mamba", "mixer")},
		"mamba2":     {layers: "backbone.layers.#.", names: mixerHF + strings.ReplaceAll(scan2HF, "mamba", "mixer")},
		"nemotron_h": {layers: "backbone.layers.#.", names: mixerHF + strings.ReplaceAll(scan2HF, "mamba", "mixer")},
		"phi3-long": {
			config: sized("Phi3ForCausalLM", 4, 64, 192, 4, 2, 512, `"rms_norm_eps": 1e-5, "partial_rotary_factor": 0.75, "original_max_position_embeddings": 32, "tie_word_embeddings": true,
"rope_scaling": {"type": "longrope", "long_factor": [1, 1.5, 2, 2.5, 3, 3.5], "short_factor": [1, 1, 1, 1, 1, 1]}`),
			names: ".mlp.gate_up_proj ffn_up\n", differ: "attention.sliding_window rope.scaling.attn_factor rope.freq_base",
		},
		"nemotron_h_moe": {layers: "backbone.layers.#.", names: mixerHF + strings.ReplaceAll(scan2HF, "mamba", "mixer")},
		"bert":           {layers: "encoder.layer.#.", names: bertNamesHF},
		"nomic-bert":     {layers: "encoder.layers.#.", names: nomicHF + bertNamesHF},
		"modern-bert": {layers: "model.layers.#.", lost: `blk\.0\.attn_norm`, spare: true, names: `
model.embeddings.tok_embeddings token_embd
model.embeddings.norm token_embd_norm
model.final_norm output_norm
1>.attn_norm attn_norm
.attn.Wqkv attn_qkv
.attn.Wo attn_output
.mlp_norm ffn_norm
.mlp.Wi ffn_up
.mlp.Wo ffn_down
`},
		"olmo": {config: sized("OlmoForCausalLM", 2, 32, 32, 2, 2, 128, `"rope_theta": 10000.0`), names: pairsHF, differ: "rope.dimension_count rope.freq_base"},
		"gpt2": {
			config: `{"architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 32, "n_inner": 32, "n_head": 2, "n_positions": 128, "vocab_size": 128, "layer_norm_epsilon": 1e-5}`,
			layers: "transformer.h.#.", names: `
transformer.wte token_embd
transformer.wpe position_embd
transformer.ln_f output_norm
.ln_1 attn_norm
.ln_2 ffn_norm
.attn.c_attn.weight= attn_qkv.weight T
.attn.c_attn.bias= attn_qkv.bias
.attn.c_proj.weight= attn_output.weight T
.attn.c_proj.bias= attn_output.bias
.mlp.c_fc.weight= ffn_up.weight T
.mlp.c_fc.bias= ffn_up.bias
.mlp.c_proj.weight= ffn_down.weight T
.mlp.c_proj.bias= ffn_down.bias
`,
		},
		"gptneox": {
			config: `{"architectures": ["GPTNeoXForCausalLM"], "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "max_position_embeddings": 512,
"vocab_size": 128, "layer_norm_eps": 1e-5, "rotary_pct": 0.25, "use_parallel_residual": true}`,
			layers: "gpt_neox.layers.#.", names: `
gpt_neox.embed_in token_embd
embed_out output
gpt_neox.final_layer_norm output_norm
.attention.query_key_value attn_qkv threes
.attention.dense attn_output
.mlp.dense_h_to_4h ffn_up
.mlp.dense_4h_to_h ffn_down
`,
		},
	})
}
