package convert

import (
	"strconv"
	"strings"
)

// Parts of names that several have.
const (
	plusOneHF = `
.input_layernorm.weight= attn_norm.weight less:1
.post_attention_layernorm.weight= ffn_norm.weight less:1
model.norm.weight= output_norm.weight less:1
`
	aroundHF = `
.post_attention_layernorm post_attention_norm
.pre_feedforward_layernorm ffn_norm
.post_feedforward_layernorm post_ffw_norm
`
	plusOneAroundHF = `
model.norm.weight= output_norm.weight less:1
.input_layernorm.weight= attn_norm.weight less:1
.post_attention_layernorm.weight= post_attention_norm.weight less:1
.pre_feedforward_layernorm.weight= ffn_norm.weight less:1
.post_feedforward_layernorm.weight= post_ffw_norm.weight less:1
.self_attn.q_norm.weight= attn_q_norm.weight less:1
.self_attn.k_norm.weight= attn_k_norm.weight less:1
`
	latentHF = `
.self_attn.q_a_proj attn_q_a
.self_attn.q_a_layernorm attn_q_a_norm
.self_attn.q_b_proj attn_q_b
.self_attn.kv_a_proj_with_mqa attn_kv_a_mqa
.self_attn.kv_a_layernorm attn_kv_a_norm
.self_attn.kv_b_proj attn_k_b+attn_v_b keys+values
`
	indexHF = `
.self_attn.indexer.wk indexer.attn_k
.self_attn.indexer.wq_b indexer.attn_q_b
.self_attn.indexer.k_norm indexer.k_norm
.self_attn.indexer.weights_proj indexer.proj
`
	sparseHF = `
.block_sparse_moe.gate ffn_gate_inp
.block_sparse_moe.e_score_correction_bias= exp_probs_b.bias
.block_sparse_moe.experts.*.w1 ffn_gate_exps
.block_sparse_moe.experts.*.w2 ffn_down_exps
.block_sparse_moe.experts.*.w3 ffn_up_exps
`
	scanHF = `
.mamba.in_proj ssm_in
.mamba.out_proj ssm_out
.mamba.x_proj ssm_x
.mamba.conv1d.weight= ssm_conv1d.weight conv
.mamba.conv1d.bias= ssm_conv1d.bias
.mamba.D= ssm_d flat
`
	bertNamesHF = `
embeddings.word_embeddings token_embd
embeddings.token_type_embeddings token_types
embeddings.position_embeddings position_embd
embeddings.LayerNorm token_embd_norm
.attention.self.query attn_q
.attention.self.key attn_k
.attention.self.value attn_v
.attention.output.dense attn_output
.attention.output.LayerNorm attn_output_norm
.intermediate.dense ffn_up
.output.dense ffn_down
.output.LayerNorm layer_output_norm
`
	nomicHF = `
emb_ln token_embd_norm
.attn.Wqkv attn_qkv
.attn.out_proj attn_output
.norm1 attn_output_norm
.norm2 layer_output_norm
.mlp.fc11 ffn_up
.mlp.fc12 ffn_gate
.mlp.fc2 ffn_down
`
	gooseHF = `
.AT.r_proj time_mix_receptance
.AT.k_proj time_mix_key
.AT.v_proj time_mix_value
.AT.o_proj time_mix_output
.AT.k_k= time_mix_k_k.weight wide
.AT.k_a= time_mix_k_a.weight wide
.AT.r_k= time_mix_r_k.weight wide
.AT.x_x= time_mix_lerp_fused.weight
.AT.w_lora.lora.0.weight= time_mix_w1.weight
.AT.w_lora.lora.2.weight= time_mix_w2.weight
.AT.w_lora.lora.2.bias= time_mix_w0.weight
.AT.a_lora.lora.0.weight= time_mix_a1.weight
.AT.a_lora.lora.2.weight= time_mix_a2.weight
.AT.a_lora.lora.2.bias= time_mix_a0.weight
1>.AT.v_lora.lora.0.weight= time_mix_v1.weight
1>.AT.v_lora.lora.2.weight= time_mix_v2.weight
1>.AT.v_lora.lora.2.bias= time_mix_v0.weight
.AT.g_lora.lora.0.weight= time_mix_g1.weight
.AT.g_lora.lora.2.weight= time_mix_g2.weight
.AT.g_norm time_mix_ln
`
	plamoHF = `
model.norm.weight= output_norm.weight less:1
.pre_mixer_norm.weight= attn_norm.weight less:1
.post_mixer_norm.weight= post_attention_norm less:0.2
.pre_mlp_norm.weight= ffn_norm.weight less:1
.post_mlp_norm.weight= post_ffw_norm less:0.08944271909999159
.mixer.qkv_proj attn_qkv
.mixer.o_proj attn_output
.mlp.gate_up_proj ffn_up
`
)

// t5HF is names of layers of T5.
func t5HF() string {
	var b strings.Builder
	for _, side := range []string{"encoder enc", "decoder dec"} {
		hf, to, _ := strings.Cut(side, " ")
		ff := "1"
		if to == "dec" {
			ff = "2"
			for _, of := range "qkvo" {
				b.WriteString("decoder.block.#.layer.1.EncDecAttention." + string(of) + " dec.blk.#.cross_attn_" + string(of) + "\n")
			}
			b.WriteString("decoder.block.#.layer.1.layer_norm dec.blk.#.cross_attn_norm\n")
		}
		at, blk := hf+".block.#.layer.", to+".blk.#."
		for _, of := range "qkvo" {
			b.WriteString(at + "0.SelfAttention." + string(of) + " " + blk + "attn_" + string(of) + "\n")
		}
		b.WriteString(at + "0.SelfAttention.relative_attention_bias " + blk + "attn_rel_b\n" + at + "0.layer_norm " + blk + "attn_norm\n")
		b.WriteString(at + ff + ".DenseReluDense.wi_0 " + blk + "ffn_gate\n" + at + ff + ".DenseReluDense.WI " + blk + "ffn_up\n")
		b.WriteString(at + ff + ".DenseReluDense.wo " + blk + "ffn_down\n" + at + ff + ".layer_norm " + blk + "ffn_norm\n")
		b.WriteString(hf + ".final_layer_norm " + to + ".output_norm\n")
	}
	return b.String()
}

func t5Config(arch string, layers, width, ff int) string {
	return sized(arch, layers, width, 0, 0, 0, 512, `"d_model": `+strconv.Itoa(width)+`, "d_ff": `+strconv.Itoa(ff)+`, "num_heads": 4, "d_kv": 16, "n_positions": 512, "relative_attention_num_buckets": 32,
"layer_norm_epsilon": 1e-6, "decoder_start_token_id": 0`)
}

// origins are where the files of data/archs and of go/model come from.
var origins = map[string]origin{
	"t5":        {config: t5Config("T5ForConditionalGeneration", 3, 64, 128), names: "shared token_embd\n" + strings.ReplaceAll(t5HF(), "WI", "wi_1")},
	"t5-relu":   {config: t5Config("MT5ForConditionalGeneration", 2, 32, 64), names: "encoder.embed_tokens token_embd\n" + strings.ReplaceAll(t5HF(), "WI", "wi")},
	"t5encoder": {config: t5Config("T5EncoderModel", 4, 64, 128), names: "encoder.embed_tokens token_embd\n" + strings.ReplaceAll(t5HF(), "WI", "wi_1")},
	"rwkv6": {
		config: `{"architectures": ["Rwkv6ForCausalLM"], "num_hidden_layers": 3, "hidden_size": 32, "intermediate_size": 64, "head_size": 16, "vocab_size": 128,
"layer_norm_epsilon": 1e-5, "rescale_every": 2}`,
		layers: "rwkv.blocks.#.", differ: "context_length", other: `time_mix_lerp_([wkvrg]|fused)\.`,
		names: `
rwkv.embeddings token_embd
rwkv.blocks.0.pre_ln token_embd_norm
rwkv.ln_out output_norm
head output
.ln1 attn_norm
.ln2 attn_norm_2
.attention.time_maa_x= time_mix_lerp_x.weight wide
.attention.time_maa_w= time_mix_lerp_w.weight wide
.attention.time_maa_k= time_mix_lerp_k.weight wide
.attention.time_maa_v= time_mix_lerp_v.weight wide
.attention.time_maa_r= time_mix_lerp_r.weight wide
.attention.time_maa_g= time_mix_lerp_g.weight wide
.attention.time_maa_w1= time_mix_w1.weight T
.attention.time_maa_w2= time_mix_w2.weight T
.attention.time_decay= time_mix_decay.weight wide
.attention.time_decay_w1= time_mix_decay_w1.weight T
.attention.time_decay_w2= time_mix_decay_w2.weight T
.attention.time_faaaa= time_mix_first.weight
.attention.ln_x time_mix_ln
.attention.receptance time_mix_receptance
.attention.key time_mix_key
.attention.value time_mix_value
.attention.gate time_mix_gate
2>.attention.output.weight= time_mix_output.weight over:0.5
.attention.output time_mix_output
.feed_forward.time_maa_k= channel_mix_lerp_k.weight wide
.feed_forward.time_maa_r= channel_mix_lerp_r.weight wide
.feed_forward.receptance channel_mix_receptance
.feed_forward.key channel_mix_key
2>.feed_forward.value.weight= channel_mix_value.weight over:0.5
.feed_forward.value channel_mix_value
`,
	},
	"rwkv6qwen2": {
		config: sized("RWKV6Qwen2ForCausalLM", 2, 32, 64, 2, 1, 128, `"rms_norm_eps": 1e-6`), differ: "context_length attention.head_count",
		names: `
.self_attn.time_maa_x= time_mix_lerp_x.weight wide
.self_attn.time_maa_[wkvrg]= time_mix_lerp_fused.weight
.self_attn.time_maa_w1= time_mix_w1.weight order:3,1,2,0,4 T
.self_attn.time_maa_w2= time_mix_w2.weight order:3,1,2,0,4 T
.self_attn.time_decay= time_mix_decay.weight wide
.self_attn.time_decay_w1= time_mix_decay_w1.weight T
.self_attn.time_decay_w2= time_mix_decay_w2.weight T
.self_attn.q_proj time_mix_receptance
.self_attn.k_proj time_mix_key
.self_attn.v_proj time_mix_value
.self_attn.gate time_mix_gate
.self_attn.o_proj time_mix_output
`,
	},
	"rwkv7": {
		config: `{"architectures": ["RWKV7ForCausalLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 256, "head_dim": 32, "vocab_size": 512, "norm_eps": 1e-5}`,
		differ: "context_length", lost: `blk\.0\.time_mix_v[012]`,
		names: strings.ReplaceAll(gooseHF, "AT", "attn") + `
model.embeddings token_embd
model.layers.0.pre_norm token_embd_norm
.attn_norm attn_norm
.ffn_norm attn_norm_2
.ffn.x_k= channel_mix_lerp_k.weight wide
.ffn.key channel_mix_key
.ffn.value channel_mix_value
`,
	},
	"arwkv7": {
		config: `{"architectures": ["RwkvHybridForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 64, "head_size": 32, "vocab_size": 128, "rms_norm_eps": 1e-6,
"wkv_version": 7, "wkv_has_gate": false}`,
		differ: "context_length", lost: `blk\.0\.time_mix_v[012]`, names: strings.ReplaceAll(gooseHF, "AT", "self_attn.time_mixer"),
	},
	"arwkv7-gated": {
		config: `{"architectures": ["RwkvHybridForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 64, "head_size": 32, "vocab_size": 128, "rms_norm_eps": 1e-6,
"wkv_version": 7, "wkv_has_gate": true}`,
		differ: "context_length", lost: `blk\.0\.time_mix_v[012]`, names: strings.ReplaceAll(gooseHF, "AT", "self_attn.time_mixer"),
	},
	"jamba": {
		config: sized("JambaForCausalLM", 8, 64, 32, 4, 2, 512, `"rms_norm_eps": 1e-6, "num_experts": 4, "num_experts_per_tok": 2, "expert_layer_offset": 1, "expert_layer_period": 2,
"attn_layer_offset": 2, "attn_layer_period": 4, "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_expand": 2, "mamba_dt_rank": 32`),
		names: scanHF + `
model.final_layernorm output_norm
.mamba.dt_proj ssm_dt
.pre_ff_layernorm ffn_norm
.mamba.A_log= ssm_a log
.mamba.dt_layernorm ssm_dt_norm
.mamba.b_layernorm ssm_b_norm
.mamba.c_layernorm ssm_c_norm
.feed_forward.gate_proj ffn_gate
.feed_forward.up_proj ffn_up
.feed_forward.down_proj ffn_down
.feed_forward.router ffn_gate_inp
.feed_forward.experts.*.gate_proj ffn_gate_exps
.feed_forward.experts.*.up_proj ffn_up_exps
.feed_forward.experts.*.down_proj ffn_down_exps
`,
	},
	"falcon-h1": {
		config: sized("FalconH1ForCausalLM", 3, 64, 192, 4, 2, 512, `"head_dim": 32, "rms_norm_eps": 1e-5, "rope_theta": 100000000000.0, "mamba_d_conv": 4, "mamba_d_ssm": 128, "mamba_d_state": 32,
"mamba_n_groups": 1, "mamba_d_head": 32, "mamba_n_heads": 4, "embedding_multiplier": 4, "lm_head_multiplier": 0.5, "key_multiplier": 0.25, "attention_in_multiplier": 2,
"attention_out_multiplier": 8, "ssm_out_multiplier": 0.125, "ssm_in_multiplier": 2, "ssm_multipliers": [0.5, 0.5, 0.5, 0.5, 0.5], "mlp_multipliers": [4, 0.0625]`),
		names: ".mamba.out_proj ssm_out over:0.125\n" + scanHF + `
model.embed_tokens token_embd over:4
model.final_layernorm output_norm
lm_head output over:0.5
.pre_ff_layernorm.weight= ffn_norm
.mamba.A_log= ssm_a log flat
.mamba.dt_bias= ssm_dt.bias
.self_attn.q_proj attn_q over:2
.self_attn.k_proj attn_k over:0.5
.self_attn.v_proj attn_v over:2
.self_attn.o_proj attn_output over:8
.feed_forward.gate_proj ffn_gate over:4
.feed_forward.up_proj ffn_up
.feed_forward.down_proj ffn_down over:0.0625
`,
	},
	"plamo2": {
		config: sized("Plamo2ForCausalLM", 4, 32, 64, 4, 2, 128, `"rms_norm_eps": 1e-6, "hidden_size_per_head": 16, "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_num_heads": 4, "mamba_step": 2`),
		layers: "model.layers.layers.#.", differ: "vocab_size rope.freq_base", swap: true,
		names: ".mixer.bcdt_proj ssm_x\n" + plamoHF + strings.ReplaceAll(scanHF, "mamba", "mixer") + `
.mixer.dt_bias= ssm_dt.bias
.mixer.dt_proj ssm_dt
.mixer.A_log= ssm_a log
.mixer.dt_norm_weight= ssm_dt_norm
.mixer.B_norm_weight= ssm_b_norm
.mixer.C_norm_weight= ssm_c_norm
.mixer.q_weight= attn_q_norm.weight
.mixer.k_weight= attn_k_norm.weight
`,
	},
	"plamo3": {
		config: sized("Plamo3ForCausalLM", 4, 32, 64, 4, 2, 128, `"head_dim": 16, "rms_norm_eps": 1e-6, "window_size": 16,
"layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]`),
		layers: "model.layers.layers.#.", differ: "vocab_size rope.dimension_count rope.freq_base",
		names: plamoHF + `
.mixer.q_norm.weight= attn_q_norm.weight less:1
.mixer.k_norm.weight= attn_k_norm.weight less:1
`,
	},
	"plamo": {
		config: sized("PlamoForCausalLM", 3, 32, 64, 2, 2, 128, `"rms_norm_eps": 1e-6, "n_shared_head": 2`),
		layers: "model.layers.layers.#.", names: ".norm attn_norm\n",
	},
	"stablelm": {
		config: sized("StableLmForCausalLM", 4, 64, 192, 4, 2, 512, `"layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25, "use_parallel_residual": true`),
		names: `
.self_attn.q_layernorm.norms.* attn_q_norm
.self_attn.k_layernorm.norms.* attn_k_norm
`,
	},
	"stablelm-1_6b": {config: sized("StableLmForCausalLM", 4, 64, 192, 4, 4, 512, `"layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25, "use_parallel_residual": false`)},
	"hunyuan-moe": {
		config: sized("HunYuanMoEV1ForCausalLM", 3, 64, 32, 4, 2, 512, `"head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "num_experts": 8, "moe_topk": [3, 3, 3],
"moe_intermediate_size": [32, 32, 32], "num_shared_expert": [1, 1, 1], "rope_scaling": {"type": "dynamic", "alpha": 1000.0}`),
		differ: "context_length rope.scaling.original_context_length rope.freq_base",
		names: `
.self_attn.query_layernorm attn_q_norm
.self_attn.key_layernorm attn_k_norm
.mlp.gate.wg ffn_gate_inp
.mlp.shared_mlp.gate_proj ffn_gate_shexp
.mlp.shared_mlp.up_proj ffn_up_shexp
.mlp.shared_mlp.down_proj ffn_down_shexp
`,
	},
	"hy_v3": {
		config: sized("HYV3ForCausalLM", 4, 32, 64, 4, 2, 128, `"head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "num_experts": 8, "num_experts_per_tok": 3,
"moe_intermediate_size": 32, "num_shared_experts": 1, "router_scaling_factor": 1.5, "route_norm": true, "first_k_dense_replace": 1`),
		names: `
.mlp.router.gate ffn_gate_inp
.mlp.expert_bias= exp_probs_b
.mlp.shared_mlp.gate_proj ffn_gate_shexp
.mlp.shared_mlp.up_proj ffn_up_shexp
.mlp.shared_mlp.down_proj ffn_down_shexp
`,
	},
	"llama4": {
		config: `{"architectures": ["Llama4ForConditionalGeneration"], "text_config": ` + sized("Llama4ForCausalLM", 8, 64, 32, 4, 2, 512, `"intermediate_size_mlp": 128, "head_dim": 16,
"rms_norm_eps": 1e-5, "rope_theta": 500000.0, "num_local_experts": 8, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}`) + `}`,
		layers: "language_model.model.layers.#.", differ: "vocab_size",
		names: `
language_model.model.embed_tokens token_embd
language_model.model.norm output_norm
language_model.lm_head output
.feed_forward.gate_proj ffn_gate
.feed_forward.up_proj ffn_up
.feed_forward.down_proj ffn_down
.feed_forward.router ffn_gate_inp
.feed_forward.experts.gate_up_proj= ffn_gate_exps.weight+ffn_up_exps.weight halves T
.feed_forward.experts.down_proj= ffn_down_exps.weight T
.feed_forward.shared_expert.gate_proj ffn_gate_shexp
.feed_forward.shared_expert.up_proj ffn_up_shexp
.feed_forward.shared_expert.down_proj ffn_down_shexp
`,
	},
	"gemma3n": {
		config: `{"architectures": ["Gemma3nForConditionalGeneration"], "tie_word_embeddings": true, "text_config": ` + sized("Gemma3nForCausalLM", 25, 32, 32, 2, 1, 128, `"head_dim": 32,
"rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "sliding_window": 16, "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 5, "altup_num_inputs": 4, "altup_active_idx": 0,
"activation_sparsity_pattern": [`+strings.Repeat("0.95, ", 10)+strings.Repeat("0.0, ", 14)+`0.0], "layer_types": [`+windowed(5)+`]`) + `}`,
		layers: "model.language_model.layers.#.", differ: "altup.num_inputs altup.active_idx activation_sparsity_scale", other: `^per_layer_token_embd`,
		names: aroundHF + `
model.language_model.embed_tokens token_embd
model.language_model.norm output_norm
model.language_model.embed_tokens_per_layer per_layer_token_embd
model.language_model.per_layer_model_projection per_layer_model_proj
model.language_model.per_layer_projection_norm per_layer_proj_norm
model.language_model.altup_projections.* altup_proj
model.language_model.altup_unembed_projections.* altup_unembd_proj
.altup.correction_coefs altup_correct_coef
.altup.correct_output_scale= altup_correct_scale.weight
.altup.prediction_coefs altup_predict_coef
.altup.modality_router altup_router
.altup.router_norm altup_router_norm
.laurel.linear_left laurel_l
.laurel.linear_right laurel_r
.laurel.post_laurel_norm laurel_post_norm
.per_layer_input_gate inp_gate
.per_layer_projection proj
.post_per_layer_input_norm post_norm
`,
	},
	"jina-bert-v2": {
		config: `{"architectures": ["JinaBertForMaskedLM"], "num_hidden_layers": 4, "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4, "max_position_embeddings": 128,
"vocab_size": 1024, "layer_norm_eps": 1e-12, "type_vocab_size": 2}`,
		layers: "encoder.layer.#.", differ: "pooling_type",
		names: `
.mlp.gated_layers ffn_gate+ffn_up halves
.mlp.wo ffn_down
.mlp.layernorm layer_output_norm
` + bertNamesHF,
	},
	"nomic-bert-moe": {
		config: `{"architectures": ["NomicBertModel"], "n_layer": 4, "n_embd": 64, "n_inner": 64, "n_head": 4, "n_positions": 128, "vocab_size": 512, "layer_norm_epsilon": 1e-5,
"rotary_emb_base": 10000, "num_experts": 8, "moe_top_k": 2, "moe_every_n_layers": 2, "type_vocab_size": 2}`,
		layers: "encoder.layers.#.", differ: "pooling_type",
		names: `
.mlp.fc1 ffn_up
.mlp.router.layer ffn_gate_inp
.mlp.experts.mlp.w1= ffn_up_exps.weight below
.mlp.experts.mlp.w2= ffn_down_exps.weight T below
` + nomicHF + bertNamesHF,
	},
	"llama-embed": {
		config: sized("LlamaBidirectionalModel", 2, 32, 64, 4, 2, 128, `"rms_norm_eps": 1e-5, "rope_theta": 500000.0`), layers: "layers.#.",
		differ: "context_length pooling_type vocab_size rope.dimension_count",
		names:  "embed_tokens token_embd\nnorm output_norm\n.self_attn.q_proj attn_q pairs:8\n.self_attn.k_proj attn_k pairs:8\n",
	},
	"apertus": {
		config: sized("ApertusForCausalLM", 4, 64, 192, 4, 2, 512, `"rms_norm_eps": 1e-5, "rope_theta": 12000000.0,
"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}`),
		differ: "vocab_size", names: `
.attention_layernorm attn_norm
.feedforward_layernorm ffn_norm
.mlp.act_fn.alpha_p= key:xielu.alpha_p
.mlp.act_fn.alpha_n= key:xielu.alpha_n
.mlp.act_fn.beta= key:xielu.beta
.mlp.act_fn.eps= key:xielu.eps
`,
	},
	"bitnet": {
		config: sized("BitnetForCausalLM", 3, 64, 192, 4, 2, 512, `"rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": true`),
		differ: "vocab_size", other: `(attn_[qkv]|attn_output|ffn_(gate|up|down))\.(weight|scale)`, // whose numbers are more than three
		names: `
.self_attn.q_proj.weight= attn_q.weight+attn_q.scale ternary
.self_attn.k_proj.weight= attn_k.weight+attn_k.scale ternary
.self_attn.v_proj.weight= attn_v.weight+attn_v.scale ternary
.self_attn.o_proj.weight= attn_output.weight+attn_output.scale ternary
.mlp.gate_proj.weight= ffn_gate.weight+ffn_gate.scale ternary
.mlp.up_proj.weight= ffn_up.weight+ffn_up.scale ternary
.mlp.down_proj.weight= ffn_down.weight+ffn_down.scale ternary
.self_attn.inner_attn_ln attn_sub_norm
.mlp.ffn_layernorm ffn_sub_norm
`,
	},
	"muse-glimmer": {
		config: sized("MuseGlimmerForConditionalGeneration", 8, 64, 64, 4, 2, 512, `"head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "sliding_window": 16,
"final_logit_softcapping": 30.0, "output_multiplier": 0.5, "qk_scale_factor": 1.0, "layer_types": [`+strings.TrimSuffix(strings.Repeat(`"sliding_attention", "sliding_attention", "sliding_attention", "full_attention", `, 2), ", ")+`]`),
		lost: `attn_[qk]_norm`, // of numbers that are not alike
		names: `
.self_attn.q_proj attn_q pairs:32
.self_attn.k_proj attn_k pairs:32
.self_attn.gate_proj attn_gate
model.norm output_norm
` + plusOneAroundHF,
	},
	"maincoder":      {config: sized("MaincoderForCausalLM", 3, 32, 64, 4, 2, 128, `"head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0`)},
	"jais2":          {config: sized("Jais2ForCausalLM", 3, 32, 64, 2, 1, 128, `"layer_norm_eps": 1e-5, "rope_theta": 500000.0`), differ: "rope.dimension_count"},
	"pangu-embedded": {config: sized("PanguEmbeddedForCausalLM", 3, 32, 64, 2, 1, 128, `"rms_norm_eps": 1e-5, "rope_theta": 1000000.0`), differ: "vocab_size rope.dimension_count attention.key_length attention.value_length"},
	"afmoe": {
		config: sized("AfmoeForCausalLM", 2, 32, 32, 2, 1, 128, `"head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "sliding_window": 16, "num_experts": 3, "num_experts_per_tok": 2,
"moe_intermediate_size": 32, "num_shared_experts": 1, "num_dense_layers": 1, "route_norm": true, "route_scale": 2.5`),
		differ: "vocab_size rope.freq_base",
		names: `
.self_attn.gate_proj attn_gate
.post_attention_layernorm post_attention_norm
.pre_mlp_layernorm ffn_norm
.post_mlp_layernorm post_ffw_norm
.mlp.router.gate ffn_gate_inp
.mlp.expert_bias= exp_probs_b.bias
`,
	},
	"mellum": {
		config: sized("MellumForCausalLM", 4, 32, 32, 4, 2, 128, `"head_dim": 16, "rms_norm_eps": 1e-6, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "sliding_window": 16,
"layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]`),
		differ: "rope.freq_base rope.freq_base_swa rope.scaling.type rope.scaling.factor rope.scaling.original_context_length",
	},
	"grovemoe": {
		config: sized("GroveMoeForCausalLM", 3, 64, 96, 4, 2, 128, `"head_dim": 16, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "num_experts": 8, "num_experts_per_tok": 3,
"moe_intermediate_size": 32`),
		differ: "rope.dimension_count expert_group_scale",
		names:  ".mlp.chunk_experts.*.gate_proj ffn_gate_chexps\n.mlp.chunk_experts.*.up_proj ffn_up_chexps\n.mlp.chunk_experts.*.down_proj ffn_down_chexps\n",
	},
	"spark2_5": {
		config: sized("Spark2_5ForCausalLM", 8, 64, 96, 4, 2, 128, `"head_dim": 32, "rms_norm_eps": 1e-6, "hidden_act": "gelu", "gate_attn_act_mode": "sigmoid", "headwise_attn_output_gate": true,
"sliding_window": 16, "layer_types": [`+oneOfFour(8)+`], "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1000000.0, "partial_rotary_factor": 0.5},
"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}`),
		differ: "vocab_size", names: ".self_attn.q_k_v_proj attn_qkv\n.self_attn.g_proj attn_gate\n",
	},
	"laguna": {
		config: sized("LagunaForCausalLM", 8, 32, 96, 4, 2, 128, `"head_dim": 16, "rms_norm_eps": 1e-6, "num_attention_heads_per_layer": [4, 6, 6, 6, 4, 6, 6, 6], "num_experts": 8,
"num_experts_per_tok": 3, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "moe_routed_scaling_factor": 2.5, "gating": true,
"mlp_layer_types": ["dense", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse"], "sliding_window": 16, "layer_types": [`+oneOfFour(8)+`],
"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 64.0, "beta_slow": 1.0,
"partial_rotary_factor": 0.5}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}`),
		differ: "vocab_size expert_gating_func", names: lagunaHF,
	},
	"laguna-m": {
		config: sized("LagunaForCausalLM", 3, 64, 96, 4, 2, 128, `"head_dim": 16, "rms_norm_eps": 1e-6, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
"shared_expert_intermediate_size": 64, "moe_routed_scaling_factor": 2.5, "gating": "per-element", "mlp_layer_types": ["dense", "sparse", "sparse"],
"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 0.5}}`),
		differ: "vocab_size expert_gating_func", names: lagunaHF,
	},
	"cogvlm": {
		config: sized("CogVLMForCausalLM", 3, 64, 96, 4, 4, 128, `"rms_norm_eps": 1e-5`), differ: "vocab_size rope.freq_base", lost: "vis_",
		names: `
.self_attn.language_expert_query_key_value attn_qkv
.self_attn.language_expert_dense attn_output
.mlp.language_mlp.gate_proj ffn_gate
.mlp.language_mlp.up_proj ffn_up
.mlp.language_mlp.down_proj ffn_down
`,
	},
	"mimo2": {
		config: sized("MiMoV2FlashForCausalLM", 6, 32, 64, 4, 1, 128, `"head_dim": 32, "v_head_dim": 16, "layernorm_epsilon": 1e-5, "partial_rotary_factor": 0.5, "rope_theta": 5000000,
"swa_rope_theta": 10000, "sliding_window": 16, "hybrid_layer_pattern": [0, 1, 1, 0, 1, 1], "swa_num_key_value_heads": 2, "n_routed_experts": 8, "num_experts_per_tok": 3,
"moe_intermediate_size": 32, "attention_value_scale": 0.707`),
		differ: "attention.sliding_window_pattern", names: ".self_attn.attention_sink_bias= attn_sinks.weight\n",
	},
	"dbrx": {
		config: `{"architectures": ["DbrxForCausalLM"], "n_layers": 2, "d_model": 32, "n_heads": 4, "max_seq_len": 512, "vocab_size": 512, "attn_config": {"kv_n_heads": 2, "rope_theta": 500000,
"clip_qkv": 0.5}, "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2}}`,
		layers: "transformer.blocks.#.", differ: "vocab_size rope.dimension_count",
		names: `
transformer.wte token_embd
transformer.norm_f output_norm
.norm_attn_norm.norm_1 attn_norm
.norm_attn_norm.norm_2 attn_output_norm
.norm_attn_norm.attn.Wqkv attn_qkv
.norm_attn_norm.attn.out_proj attn_output
.ffn.router.layer ffn_gate_inp
.ffn.experts.mlp.w1= ffn_gate_exps.weight below
.ffn.experts.mlp.v1= ffn_up_exps.weight below
.ffn.experts.mlp.w2= ffn_down_exps.weight T below
`,
	},
	"bloom": {
		config: `{"architectures": ["BloomForCausalLM"], "n_layer": 1, "hidden_size": 48, "n_inner": 32, "n_head": 3, "seq_length": 512, "vocab_size": 128, "layer_norm_epsilon": 1e-5}`,
		layers: "transformer.h.#.",
		names: `
transformer.word_embeddings token_embd
transformer.word_embeddings_layernorm token_embd_norm
transformer.ln_f output_norm
.self_attention.query_key_value attn_qkv threes
.self_attention.dense attn_output
.mlp.dense_h_to_4h ffn_up
.mlp.dense_4h_to_h ffn_down
`,
	},
	"chatglm": {
		config: `{"architectures": ["ChatGLMModel"], "num_layers": 3, "hidden_size": 32, "ffn_hidden_size": 64, "num_attention_heads": 2, "multi_query_group_num": 1, "seq_length": 512,
"padded_vocab_size": 128, "layernorm_epsilon": 1e-5}`,
		layers: "transformer.encoder.layers.#.",
		names: `
transformer.embedding.word_embeddings token_embd
transformer.encoder.final_layernorm output_norm
transformer.output_layer output
.self_attention.query_key_value attn_qkv
.self_attention.dense attn_output
.mlp.dense_h_to_4h ffn_up
.mlp.dense_4h_to_h ffn_down
`,
	},
	"nemotron": {
		config: sized("NemotronForCausalLM", 2, 32, 96, 2, 1, 512, `"norm_eps": 1e-5, "partial_rotary_factor": 0.5, "rope_theta": 10000.0`),
		differ: "vocab_size rope.scaling.type", names: plusOneHF,
	},
	"deci": {
		config: sized("DeciLMForCausalLM", 5, 32, 0, 4, 2, 128, `"head_dim": 16, "rms_norm_eps": 1e-5, "block_configs": [
{"attention": {"n_heads_in_group": 2}, "ffn": {"intermediate_size": 64}}, {"attention": {"n_heads_in_group": null, "replace_with_linear": true}, "ffn": {"intermediate_size": 32}},
{"attention": {"n_heads_in_group": null, "replace_with_linear": false}, "ffn": {"ffn_mult": null}}, {"attention": {"n_heads_in_group": 4}, "ffn": {"intermediate_size": 64}},
{"attention": {"n_heads_in_group": 2}, "ffn": {"intermediate_size": 64}}]`),
		differ: "vocab_size rope.dimension_count rope.freq_base",
		names: `
.self_attn.q_proj attn_q pairs:16
.self_attn.k_proj attn_k pairs:16
`,
	},
	"minicpm3": {
		config: sized("MiniCPM3ForCausalLM", 2, 32, 32, 2, 2, 128, `"rms_norm_eps": 1e-5, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16,
"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256, "rope_scaling": {"type": "longrope", "long_factor": [1, 1, 1, 1, 1, 1, 1, 1], "short_factor": [1, 1, 1, 1, 1, 1, 1, 1],
"original_max_position_embeddings": 32}`),
		differ: "vocab_size embedding_scale residual_scale logit_scale rope.scaling.original_context_length",
		names:  ".self_attn.kv_b_proj attn_kv_b\n" + latentHF,
	},
	"kimi-linear": {
		config: sized("KimiLinearForCausalLM", 8, 64, 96, 2, 2, 512, `"rms_norm_eps": 1e-5, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
"num_experts": 8, "num_experts_per_token": 3, "moe_intermediate_size": 32, "num_shared_experts": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.446,
"moe_router_activation_func": "sigmoid", "linear_attn_config": {"full_attn_layers": [4, 8], "short_conv_kernel_size": 4, "head_dim": 32, "num_heads": 2}`),
		names: latentHF + sparseHF + `
.self_attn.q_conv1d.weight= ssm_conv1d_q.weight
.self_attn.k_conv1d.weight= ssm_conv1d_k.weight
.self_attn.v_conv1d.weight= ssm_conv1d_v.weight
.self_attn.A_log= ssm_a log flat
.self_attn.dt_bias= ssm_dt.bias
.self_attn.f_a_proj ssm_f_a
.self_attn.f_b_proj ssm_f_b
.self_attn.g_a_proj ssm_g_a
.self_attn.g_b_proj ssm_g_b
.self_attn.b_proj ssm_beta
.self_attn.o_norm ssm_norm
.block_sparse_moe.gate.e_score_correction_bias= exp_probs_b.bias
.block_sparse_moe.shared_experts.gate_proj ffn_gate_shexp
.block_sparse_moe.shared_experts.up_proj ffn_up_shexp
.block_sparse_moe.shared_experts.down_proj ffn_down_shexp
`,
	},
	"deepseek32": {
		config: sized("DeepseekV32ForCausalLM", 3, 64, 128, 4, 4, 512, latentConfig+`"q_lora_rank": 32, "n_group": 4, "topk_group": 2, "index_n_heads": 16, "index_head_dim": 64, "index_topk": 24,
"rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 1024, "mscale_all_dim": 1.0}`),
		names: latentHF + indexHF,
	},
	"glm-dsa": {
		config: sized("GlmMoeDsaForCausalLM", 4, 64, 128, 4, 4, 512, latentConfig+`"q_lora_rank": 32, "index_n_heads": 16, "index_head_dim": 64, "index_topk": 24, "rope_theta": 1000000,
"indexer_types": ["full", "shared", "full", "shared"]`),
		names: latentHF + indexHF,
	},
	"mistral4": {
		config: `{"architectures": ["Mistral3ForConditionalGeneration"], "text_config": ` + sized("Mistral4ForCausalLM", 3, 64, 128, 4, 4, 512, `"model_type": "mistral4", "rms_norm_eps": 1e-6, "q_lora_rank": 64, "kv_lora_rank": 32,
"qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "n_shared_experts": 1,
"first_k_dense_replace": 0, "scoring_func": "softmax", "norm_topk_prob": true, "routed_scaling_factor": 1.0,
"rope_parameters": {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 1024, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}`) + `}`,
		layers: "language_model.model.layers.#.", differ: "attention.temperature_length",
		names: latentHF + `
language_model.model.embed_tokens token_embd
language_model.model.norm output_norm
language_model.lm_head output
.mlp.experts.gate_up_proj= ffn_gate_exps.weight+ffn_up_exps.weight halves
.mlp.experts.down_proj= ffn_down_exps.weight
`,
	},
	"deepseek2-lite": {
		config: sized("DeepseekV2ForCausalLM", 26, 32, 64, 2, 2, 512, strings.NewReplacer("sigmoid", "softmax", "2.5", "1.0", "true", "false", `"n_routed_experts": 8, "num_experts_per_tok": 3`,
			`"n_routed_experts": 4, "num_experts_per_tok": 2`).Replace(latentConfig)+`"rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 1024, "mscale_all_dim": 0.707}`),
		names: latentHF,
	},
	"llama-moe": {
		config: sized("MixtralForCausalLM", 3, 64, 64, 4, 2, 512, `"rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "num_local_experts": 8, "num_experts_per_tok": 2`),
		differ: "vocab_size", names: sparseHF + pairsHF,
	},
	"llama-yarn": {
		config: sized("LlamaForCausalLM", 4, 64, 192, 4, 2, 512, `"rms_norm_eps": 1e-5, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}`),
		differ: "vocab_size rope.freq_base", names: pairsHF,
	},
	"gemma-embedding": {
		config: sized("Gemma3TextModel", 12, 64, 32, 4, 2, 512, `"head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "sliding_window": 16`), layers: "layers.#.",
		differ: "dense_2_feat_in dense_2_feat_out dense_3_feat_in dense_3_feat_out", lost: `^dense_`, spare: true,
		names: "embed_tokens token_embd\nnorm.weight= output_norm.weight less:1\n" + plusOneAroundHF,
	},
}

// pairsHF is queries and keys of heads of 16 channels that rotate by pairs.
const pairsHF = `
.self_attn.q_proj attn_q pairs:16
.self_attn.k_proj attn_k pairs:16
`

// latentConfig is what models with attention over latents have in common.
const latentConfig = `"rms_norm_eps": 1e-6, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 8, "num_experts_per_tok": 3,
"moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1, "scoring_func": "sigmoid", "norm_topk_prob": true, "routed_scaling_factor": 2.5, `
