package family

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// nothing are keys of config.json that decide nothing of what a model computes. A path with a star stands for all that
// begin so.
var nothing = strings.Fields(`
	architectures auto_map model_type dtype torch_dtype transformers_version _name_or_path _model_name_or_path
	id2label* label2id* problem_type return_dict output_attentions output_hidden_states output_router_logits use_cache
	is_encoder_decoder chunk_size_feed_forward num_logits_to_keep is_decoder attn_impl

	initializer_range initializer_factor initializer_cutoff_factor init_device learnable_sink_init seed
	rescale_prenorm_residual time_step_init_scheme time_step_floor embedding_fraction L_bp_cycles altup_coef_clip
	attention_dropout hidden_dropout_prob attention_probs_dropout_prob resid_pdrop embd_pdrop emb_pdrop attn_pdrop
	hidden_dropout dropout dropout_rate qa_dropout seq_classif_dropout summary_last_dropout embedding_dropout mlp_dropout
	residual_dropout activation_dropout encoder_layerdrop decoder_layerdrop init_std w_init_variance_scale
	final_w_init_variance_scale embed_dropout layerdrop resid_dropout
	router_aux_loss_coef router_jitter_noise aux_loss_coef aux_loss_alpha sparse_pred_ignore_index sparse_prediction

	pretraining_tp model_parallel_size reorder_and_upcast_attn attention_softmax_in_fp32
	scale_attention_softmax_in_fp32 slow_but_exact deterministic_flash_attn residual_in_fp32 enable_moe_fp32_combine
	use_mambapy use_associative_scan use_mamba_kernels mamba_ssm_cache_dtype moe_shared_expert_overlap
	chunk_size mamba_chunk_size

	summary_type summary_use_proj summary_proj_to_labels summary_first_dropout summary_activation
	classifier_activation classifier_bias classifier_dropout classifier_pooling
	projector_hidden_act projector_hidden_size merged_hidden_size multimodal_projector_bias spatial_merge_size
	out_hidden_size boi_token_index eoi_token_index boi_token_id boa_token_id eoi_token_id eoa_token_id eoa_token_index
	im_start_id im_end_id im_newline_id

	forced_eos_token_id
	do_sample temperature top_k top_p min_p typical_p repetition_penalty num_beams num_beam_groups max_length min_length
	early_stopping length_penalty no_repeat_ngram_size task_specific_params prefix tf_legacy_loss torchscript pruned_heads
	use_bfloat16 tokenizer_class finetuning_task gradient_checkpointing _attn_implementation* attn_implementation
	unsloth* transformers.js_config* quantization_config* compression_config* generation_config*

	vision_* audio_* video_* image_* vq_* vit_config* sep_token_id cls_token_id mask_token_id eod_token_id
`)

// elsewhere are keys that package convert reads itself, and not a family.
const elsewhere = "tie_word_embeddings vocab_size bos_token_id eos_token_id pad_token_id decoder_start_token_id"

// shown are keys that say what the tensors of a checkpoint show: whether there are biases, gates or norms, and sizes.
var shown = strings.Fields(`
	attention_bias mlp_bias use_bias bias qkv_bias use_qkv_bias attention_out_bias conv_bias mamba_conv_bias
	mamba_proj_bias use_conv_bias norm_bias decoder_bias no_bias qk_layernorm use_expert_bias is_gated_act
	attention_k_eq_v enable_moe_block type_vocab_size qk_head_dim expand laurel_rank vocab_size_per_layer_input
	num_kv_heads qk_ln learned_pos_emb full_attn_idxs expert_layer_offset expert_layer_period moe_layer_end_index
	rope_parameters.max_position_embeddings
`)

// shownTo are keys that tensors show for some architectures alone, or that rules for tensors read, and keys of parts that
// an architecture does not have.
var shownTo = map[string]string{
	"command-r": "use_qk_norm", "glm4moe": "use_qk_norm",
	"falcon-h1": "attention_in_multiplier attention_out_multiplier embedding_multiplier key_multiplier lm_head_multiplier " +
		"mlp_multipliers ssm_in_multiplier ssm_multipliers ssm_out_multiplier mamba_expand mamba_n_heads " +
		"mamba_norm_before_gate mamba_rms_norm projectors_bias",
	"zamba2": "attention_head_dim attention_hidden_size hybrid_layer_ids kv_channels num_query_groups mamba_headdim " +
		"add_bias_linear use_shared_attention_adapter use_mem_eff_path time_step_max",
	"gpt_neo":  "attention_types", // a list of layers says it
	"opt":      "enable_bias layer_norm_elementwise_affine word_embed_proj_dim",
	"phimoe":   "input_jitter_noise lm_head_bias",
	"qwen2moe": "decoder_sparse_step mlp_only_layers", "qwen3moe": "decoder_sparse_step mlp_only_layers",
	"qwen3next": "decoder_sparse_step mlp_only_layers", "qwen3vlmoe": "decoder_sparse_step mlp_only_layers",
	"dots1":   "sliding_window max_window_layers", // lists of layers say it
	"exaone4": "sliding_window_pattern", "exaone-moe": "sliding_window_pattern", "gemma3": "_sliding_window_pattern",
	"afmoe":       "global_attn_every_n_layers",
	"cohere2moe":  "rope_theta sliding_window_pattern prefix_dense_sliding_window_pattern",
	"minimax-01":  "block_size full_attn_beta_factor linear_attn_beta_factor mlp_beta_factor",
	"olmo_hybrid": "linear_a_log_min linear_a_log_max linear_dt_min linear_dt_max linear_dt_init_floor",
	"diffllama":   "lambda_std_dev", "hyperclovax": "use_post_norm",
	"mistral4":   "rope_parameters.partial_rotary_factor",
	"granitemoe": "mamba_* time_step_limit", "granite": "mamba_* time_step_limit", "granitehybrid": "mamba_d_head mamba_expand z_loss_coefficient",
	"dbrx": "ffn_config.hidden_size ffn_config.moe_loss_weight", "t5encoder": "num_decoder_layers scale_decoder_outputs",
	"bert": "sinusoidal_pos_embds", "electra": "embedding_size",
	"deberta":        "legacy pooler_dropout cls_dropout padding_idx conv_act conv_groups",
	"nemotron_h":     "time_step_max time_step_limit",
	"nemotron_h_moe": "time_step_max time_step_limit num_nextn_predict_layers mtp_layers_block_type", // which are left out
	"deepseek4":      "num_nextn_predict_layers partial_rotary_factor rope_theta",
	"dots3note":      "per_layer_config.* shared_experts_intermediate_size",
	"mamba":          "time_step_min time_step_max time_step_scale",
	"mamba2":         "time_step_min time_step_max time_step_rank num_heads",
}

// Rows of Fixed that families have in common.
var (
	// causalNot are encoders: no token looks only at those before it, and no other text is looked at.
	causalNot = lang.Fixed{{"is_decoder", "false"}, {"add_cross_attention", "false"}}

	// scanAct is the activation of the convolutions before scans and delta nets, which is not of feed-forwards alone.
	scanAct = lang.Fixed{{"hidden_act mamba_hidden_act", "silu swish"}}
)

// Unjudged returns the keys of a configuration, sorted, that have not been read for an architecture, and of which nobody
// has said that they decide nothing or are seen elsewhere: they may change what a model computes.
func Unjudged(c *hf.Config, arch string) []string {
	known := slices.Concat(nothing, shown, strings.Fields(elsewhere), strings.Fields(shownTo[arch]))
	is := func(path string) bool {
		return slices.ContainsFunc(known, func(name string) bool {
			prefix, all := strings.CutSuffix(name, "*")
			return path == name || all && strings.HasPrefix(path, prefix)
		})
	}
	return slices.DeleteFunc(c.Unread(), func(path string) bool {
		_, name, nested := strings.Cut(path, ".")
		return is(path) || nested && is(name)
	})
}
