package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// nets are families whose layers are of several kinds: attention over latents with windows, delta nets, several streams of residual.
var nets = []family{
	{
		arch:  "dots3note",
		names: "Dots3NoteForCausalLM Dots3NoteForConditionalGeneration Dots3NoteTextForCausalLM",
		rules: with(slices.Concat(predicting, indexed, latent, ends, attention, dense, mixture),
			rule{"self_attn.q_a_layernorm", "attn_q_a_norm", times(func(c *config) float64 { return c.rescale(c.count("q_lora_rank")) })},
			rule{"self_attn.kv_a_layernorm", "attn_kv_a_norm", times(func(c *config) float64 { return c.rescale(c.noteRank()) })},
			rule{"self_attn.kv_b_proj", "attn_k_b attn_v_b", noteKeysValues},
			rule{"self_attn.k_rope_only_layernorm", "attn_k_norm", nil},
			rule{"self_attn.g_proj", "attn_gate", nil}),
		settings: slices.Concat(latentSettings, []setting{{"attention.sliding_window", 'n', "sliding_window_size"}}),
		keys:     noteKeys,
		skip:     []string{"vision_encoder.", "audio_encoder."},
		rename: func(c *config, name string) string { // of the layer that predicts further tokens
			return strings.Replace(name, "model.mtp.embed_tokens.", fmt.Sprintf("model.layers.%d.embed_tokens.", c.layers()), 1)
		},
		vocab: func(_ *Model, v *vocabulary) { v.setSpecial("eot", slices.Index(v.tokens, "<|endofassistant|>")) },
	},
	{
		arch:  "bailingmoe3",
		names: "BailingMoeV3ForCausalLM",
		rules: with(slices.Concat(predicting, bailing, under("attention.", latent), ends, dense, mixture),
			rule{"attention.q_proj", "attn_q", nil},
			rule{"attention.k_proj", "attn_k", nil},
			rule{"attention.v_proj", "attn_v", nil},
			rule{"attention.q_conv1d.weight", "ssm_conv1d_q.weight", taps},
			rule{"attention.k_conv1d.weight", "ssm_conv1d_k.weight", taps},
			rule{"attention.v_conv1d.weight", "ssm_conv1d_v.weight", taps},
			rule{"attention.A_log", "ssm_a", then(exp, column)},
			rule{"attention.dt_bias", "ssm_dt.bias", nil},
			rule{"attention.f_proj", "ssm_f_a", nil},
			rule{"attention.b_proj", "ssm_beta", nil},
			rule{"attention.g_proj", "ssm_g_a", nil},
			rule{"attention.gate_proj", "attn_gate", nil}, // which is g_proj as well: see the names below
			rule{"attention.o_norm", "ssm_norm", nil},
			rule{"attention.o_proj", "attn_output", nil},
			rule{"mlp.gate.expert_bias", "exp_probs_b.bias", nil},
			rule{"final_layernorm", "layer_output_norm", nil}),
		settings: slices.Concat(latentSettings, []setting{
			{"expert_shared_feed_forward_length", 'n', "moe_shared_expert_intermediate_size"},
			{"ssm.conv_kernel", 'n', "short_conv_kernel_size"},
			{"kda.head_dim", 'n', "head_dim"},
			{"kda.safe_gate", 'b', "kda_safe_gate"},
			{"kda.gate_lower_bound", 'f', "kda_lower_bound"},
		}),
		keys: func(k *keys) {
			latentKeys(k)
			k.gating("sigmoid")
			k.want("no_kda_lora", "true")
			k.want("kda_safe_gate", "true")
			k.want("gated_attention_proj_granularity_type", "head_wise")
			further(k)
			n := k.layers() + min(k.countOr("num_nextn_predict_layers", 0), mostNext)
			attends := make([]bool, n)
			for il := range attends {
				attends[il] = k.attends(il)
			}
			k.ns("attention.head_count_kv", where(attends, 1, 0))
			k.limits("swiglu_clamp_exp", "expert_swiglu_limit_list", n)
			k.limits("swiglu_clamp_shexp", "share_expert_swiglu_limit_list", n)
		},
		rename: func(c *config, name string) string {
			if s := parse(name, nil); s.layer >= 0 && c.attends(s.layer) {
				return strings.Replace(name, ".attention.g_proj.", ".attention.gate_proj.", 1)
			}
			return name
		},
	},
	{
		arch:  "qwen4exp",
		names: "Qwen4ExpForConditionalGeneration Qwen4ExpForCausalLM",
		rules: plusOne(with(slices.Concat(tiled, linear, ends, attention, mixture),
			rule{"hyper_connection_mixer.hc_norm", "output_hc_norm", nil},
			rule{"hyper_connection_mixer.input_mix_weight_down", "output_hc_down", nil},
			rule{"hyper_connection_mixer.input_mix_weight_up", "output_hc_up", nil},
			rule{"attn_hyper_connection.hc_norm", "hc_attn_norm", nil},
			rule{"attn_hyper_connection.input_mix_weight_down", "hc_attn_down", nil},
			rule{"attn_hyper_connection.input_mix_weight_up", "hc_attn_up", nil},
			rule{"attn_hyper_connection.block_inject_weight", "hc_attn_inject", nil},
			rule{"mlp_hyper_connection.hc_norm", "hc_ffn_norm", nil},
			rule{"mlp_hyper_connection.input_mix_weight_down", "hc_ffn_down", nil},
			rule{"mlp_hyper_connection.input_mix_weight_up", "hc_ffn_up", nil},
			rule{"mlp_hyper_connection.block_inject_weight", "hc_ffn_inject", nil},
			rule{"self_attn.indexer.index_qk_proj", "indexer.q_proj indexer.k_proj", indexQueriesKeys},
			rule{"self_attn.indexer.q_layernorm", "indexer.q_norm", nil},
			rule{"self_attn.indexer.k_layernorm", "indexer.k_norm", nil},
			rule{"ple.key_proj", "ple_key", nil},
			rule{"ple.value_proj", "ple_value", nil},
			rule{"ple.conv1d.weight", "ple_conv1d.weight", squeeze},
			rule{"ple.norm_conv", "ple_norm_conv", addOne},
			rule{"ple.norm_key", "ple_norm_key", addOne},
			rule{"ple.norm_query", "ple_norm_query", addOne},
			rule{"ple.ple_embedding.layer_multipliers", "", nil}, // see ngramKeys
			rule{"ple.ple_embedding.ngram_heads_offsets", "", nil},
			rule{"ple.ple_embedding.ngram_heads_vocab_sizes", "", nil},
			rule{"ngram_embedding.*", "per_layer_token_embd", below})),
		settings: slices.Concat(expertSettings, linearSettings, []setting{
			{"hyper_connection.count", 'n', "hc_count"},
			{"hyper_connection.low_rank", 'n', "hc_lowrank"},
			{"attention.indexer.head_count", 'n', "indexer_n_heads"},
			{"attention.indexer.key_length", 'n', "indexer_head_dim"},
			{"attention.indexer.top_k", 'n', "indexer_budget"},
		}),
		keys: func(k *keys) {
			linearKeys35(k)
			ratios := make([]bool, k.layers())
			for il := range ratios {
				ratios[il] = !k.has("layer_types") || k.typesOf("full_attention")[il]
			}
			k.ns("attention.compress_ratios", where(ratios, k.count("indexer_compress_ratio"), 0))
			k.drop("feed_forward_length")
		},
		change: func(c *config, f *family) *family {
			delete(c.m, nextLayers) // see skip
			return f
		},
		rename: func(_ *config, name string) string { // parts of a table that is of no layer in GGUF
			if _, number, ok := strings.Cut(name, ".ple.ple_embedding.ngram_embedding.shard_"); ok {
				return "model.ngram_embedding." + strings.TrimSuffix(number, ".weight") + ".weight"
			}
			return name
		},
		count: func(c *config, name string) int {
			if strings.HasPrefix(name, "ngram_embedding.") {
				return c.count("split_ngram_parts")
			}
			return 0
		},
		finish: ngramKeys,
		skip:   []string{"mtp.", "model.mtp."}, // which no program runs yet
	},
	{
		arch:  "deepseek4",
		names: "DeepseekV4ForCausalLM",
		rules: []rule{
			{"embed", "token_embd", nil},
			{"norm", "output_norm", nil},
			{"head", "output", nil},
			{"hc_head_base", "output_hc_base.weight", nil},
			{"hc_head_fn", "output_hc_fn.weight", nil},
			{"hc_head_scale", "output_hc_scale.weight", nil},
			{"hc_attn_base", "hc_attn_base.weight", nil},
			{"hc_attn_fn", "hc_attn_fn.weight", nil},
			{"hc_attn_scale", "hc_attn_scale.weight", nil},
			{"hc_ffn_base", "hc_ffn_base.weight", nil},
			{"hc_ffn_fn", "hc_ffn_fn.weight", nil},
			{"hc_ffn_scale", "hc_ffn_scale.weight", nil},
			{"attn_norm", "attn_norm", nil},
			{"ffn_norm", "ffn_norm", nil},
			{"attn.attn_sink", "attn_sinks.weight", nil},
			{"attn.wq_a", "attn_q_a", nil},
			{"attn.wq_b", "attn_q_b", nil},
			{"attn.q_norm", "attn_q_a_norm", nil},
			{"attn.wkv", "attn_kv", nil},
			{"attn.kv_norm", "attn_kv_a_norm", nil},
			{"attn.wo_a", "attn_output_a", nil},
			{"attn.wo_b", "attn_output_b", nil},
			{"attn.compressor.ape", "attn_compressor_ape.weight", nil},
			{"attn.compressor.wkv", "attn_compressor_kv", nil},
			{"attn.compressor.wgate", "attn_compressor_gate", nil},
			{"attn.compressor.norm", "attn_compressor_norm", nil},
			{"attn.indexer.wq_b", "indexer.attn_q_b", nil},
			{"attn.indexer.weights_proj", "indexer.proj", nil},
			{"attn.indexer.compressor.ape", "indexer_compressor_ape.weight", nil},
			{"attn.indexer.compressor.wkv", "indexer_compressor_kv", nil},
			{"attn.indexer.compressor.wgate", "indexer_compressor_gate", nil},
			{"attn.indexer.compressor.norm", "indexer_compressor_norm", nil},
			{"ffn.gate.weight", "ffn_gate_inp.weight", nil},
			{"ffn.gate.bias", "exp_probs_b.bias", nil},
			{"ffn.gate.tid2eid", "ffn_gate_tid2eid.weight", whole},
			{"ffn.experts.*.w1", "ffn_gate_exps", nil},
			{"ffn.experts.*.w2", "ffn_down_exps", nil},
			{"ffn.experts.*.w3", "ffn_up_exps", nil},
			{"ffn.shared_experts.w1", "ffn_gate_shexp", nil},
			{"ffn.shared_experts.w2", "ffn_down_shexp", nil},
			{"ffn.shared_experts.w3", "ffn_up_shexp", nil},
		},
		settings: slices.Concat(routedSettings, []setting{
			{"rope.dimension_count", 'n', "qk_rope_head_dim"},
			{"attention.q_lora_rank", 'n', "q_lora_rank"},
			{"attention.output_lora_rank", 'n', "o_lora_rank"},
			{"attention.output_group_count", 'n', "o_groups"},
			{"attention.compress_rope_freq_base", 'f', "compress_rope_theta"},
			{"attention.sliding_window", 'n', "sliding_window"},
			{"hyper_connection.count", 'n', "hc_mult"},
			{"hyper_connection.sinkhorn_iterations", 'n', "hc_sinkhorn_iters"},
			{"hyper_connection.epsilon", 'f', "hc_eps"},
			{"hash_layer_count", 'n', "num_hash_layers"},
		}),
		keys: func(k *keys) {
			vocabSize(k)
			indexKeys(k)
			k.gating("sqrtsoftplus")
			k.n("attention.head_count_kv", k.countOr("num_key_value_heads", 1))
			n := k.layers()
			ratios := k.integers("compress_ratios", k.config.list("compress_ratios"))
			if len(ratios) < n {
				k.fail("compress_ratios has %d layers of %d", len(ratios), n)
				return
			}
			k.ns("attention.compress_ratios", ratios[:n])
			if limit := k.numberOr("swiglu_limit", 0); limit > 0 {
				k.set("swiglu_clamp_exp", slices.Repeat([]float32{float32(limit)}, n))
			}
		},
		skip: []string{"mtp.", "model.mtp.", ".scale"}, // scales are read with what they scale
	},
	{
		arch:  "hy_v4",
		names: "HYV4ForCausalLM",
		rules: with(slices.Concat(indexed, latent, ends, attention, dense, mixture),
			rule{"self_attn.linear_gate", "attn_gate", nil},
			rule{"self_attn.learnable_sink_param", "attn_sinks.weight", nil},
			rule{"hc_attn_layer.hc_pre.hc_base", "hc_attn_base.weight", nil},
			rule{"hc_attn_layer.hc_pre.hc_fn", "hc_attn_fn.weight", nil},
			rule{"hc_attn_layer.hc_pre.hc_scale", "hc_attn_scale.weight", nil},
			rule{"hc_mlp_layer.hc_pre.hc_base", "hc_ffn_base.weight", nil},
			rule{"hc_mlp_layer.hc_pre.hc_fn", "hc_ffn_fn.weight", nil},
			rule{"hc_mlp_layer.hc_pre.hc_scale", "hc_ffn_scale.weight", nil},
			rule{"hc_head.hc_head_base", "output_hc_base.weight", nil},
			rule{"hc_head.hc_head_fn", "output_hc_fn.weight", nil},
			rule{"hc_head.hc_head_scale", "output_hc_scale.weight", nil}),
		settings: slices.Concat(latentSettings, []setting{
			{"hyper_connection.count", 'n', "hc_mult"},
			{"hyper_connection.epsilon", 'f', "hc_eps"},
			{"hyper_connection.magnitude", 'f', "hc_magnitude"},
		}),
		keys: func(k *keys) {
			latentKeys(k)
			k.gating("sigmoid")
			k.want("n_group", "1")
			k.want("topk_group", "1")
			k.drop("expert_group_count", "expert_group_used_count")
			if !k.has("first_k_dense_replace") {
				k.n("leading_dense_block_count", k.leading())
			}
			n := k.layers()
			if limit := k.numberOr("swiglu_limit", 0); limit > 0 {
				k.set("swiglu_clamp_exp", slices.Repeat([]float32{float32(limit)}, n))
			}
			kinds := k.texts("indexer_types")
			if kinds == nil && slices.ContainsFunc(k.texts("layer_types"), func(kind string) bool { return strings.HasSuffix(kind, "sparse_attention") }) {
				kinds = k.texts("layer_types") // of the first checkpoints
			}
			if kinds == nil {
				return
			}
			if len(kinds) < n {
				k.fail("indexer_types names %d layers of %d", len(kinds), n)
				return
			}
			indexKeys(k)
			own := make([]bool, n)
			for il := range own {
				own[il] = kinds[il] == "full" || strings.HasSuffix(kinds[il], "sparse_attention")
			}
			k.bs("attention.indexer.types", own)
		},
		skip: []string{"model.mtp_layers."},
	},
	{
		arch:  "minimax-m3",
		names: "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration",
		rules: plusOne(with(slices.Concat(ends, attention, dense, blockSparse),
			rule{"self_attn.index_q_proj", "indexer.q_proj", nil},
			rule{"self_attn.index_k_proj", "indexer.k_proj", nil},
			rule{"self_attn.index_q_norm", "indexer.q_norm", nil},
			rule{"self_attn.index_k_norm", "indexer.k_norm", nil},
			rule{"block_sparse_moe.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", halves},
			rule{"block_sparse_moe.experts.down_proj", "ffn_down_exps.weight", nil},
			rule{"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp", nil},
			rule{"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp", nil},
			rule{"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp", nil})),
		settings: []setting{
			{"feed_forward_length", 'n', "dense_intermediate_size intermediate_size"},
			{"expert_feed_forward_length", 'n', "intermediate_size"},
			{"expert_shared_count", 'n', "n_shared_experts"},
			{"expert_weights_scale", 'f', "routed_scaling_factor"},
		},
		keys: func(k *keys) {
			k.gating("sigmoid")
			k.want("use_gemma_norm", "true")
			k.want("qk_norm_type", "per_head")
			k.want("swiglu_alpha", "1.702") // as the model is computed
			k.want("swiglu_limit", "7")
			k.b("expert_weights_norm", true)
			k.n("rope.dimension_count", k.countOr("rotary_dim", k.headDim()))
			sparse := k.numbers("moe_layer_freq")
			lead := max(slices.Index(sparse, 1), 0)
			if len(sparse) != k.layers() || slices.Contains(sparse[lead:], 0) {
				k.fail("moe_layer_freq: want dense layers, and then others, %d in all", k.layers())
			}
			k.n("leading_dense_block_count", lead)
			s := k.within("sparse_attention_config")
			s.want("sparse_init_block", "0")
			s.want("sparse_score_type", "max")
			k.n("attention.indexer.head_count", s.count("sparse_num_index_heads"))
			k.n("attention.indexer.key_length", s.count("sparse_index_dim"))
			k.n("attention.indexer.top_k", s.count("sparse_topk_blocks"))
			k.n("attention.indexer.block_size", s.count("sparse_block_size"))
			k.n("attention.indexer.local_blocks", s.count("sparse_local_block"))
			k.take(s)
		},
		skip: []string{"mtp.", "model.mtp.", "patch_merge_mlp."},
	},
}

// exp turns a logarithm into its number.
var exp = one(func(_ *config, v view) (view, error) {
	return v.each(func(x float32) float32 { return float32(math.Exp(float64(x))) }), nil
})

// under returns the rules of self_attn for layers that call it otherwise.
func under(name string, rules []rule) []rule {
	rules = slices.Clone(rules)
	for i, r := range rules {
		rules[i].from = strings.Replace(r.from, "self_attn.", name, 1)
	}
	return rules
}

// noteWindow reports whether a layer of dots3-note attends to a window, as those that predict further tokens do.
func (c *config) noteWindow(il int) bool {
	kinds := c.texts("layer_types")
	return il >= c.layers() || il >= 0 && il < len(kinds) && kinds[il] == "sliding_attention"
}

// noteRank returns how long the latent is of the layer whose tensors are made.
func (c *config) noteRank() int {
	if c.noteWindow(c.layer) {
		return c.count("swa_kv_lora_rank")
	}
	return c.count("kv_lora_rank")
}

// rescale returns what dots3-note multiplies a latent by, which is in the norm before it in GGUF.
func (c *config) rescale(rank int) float64 {
	if !c.flag("apply_mla_qkv_lora_rescale") {
		return 1
	}
	return math.Sqrt(float64(c.count("hidden_size")) / float64(max(rank, 1)))
}

// noteKeysValues is keysValues of layers with a window or without one.
var noteKeysValues op = func(c *config, in []view) ([]view, error) {
	if !c.noteWindow(c.layer) {
		return keysValues(c, in)
	}
	near := &config{m: map[string]any{}, file: c.file}
	for name, from := range map[string]string{"num_attention_heads": "swa_num_attention_heads", "qk_nope_head_dim": "swa_qk_nope_head_dim", "v_head_dim": "swa_v_head_dim"} {
		near.m[name] = float64(c.count(from))
	}
	return keysValues(near, in)
}

// noteKeys sets the sizes of both kinds of dots3-note's layers.
func noteKeys(k *keys) {
	latentKeys(k)
	indexKeys(k)
	n := k.layers()
	if kinds := k.texts("layer_types"); len(kinds) < n {
		k.fail("layer_types names %d layers of %d", len(kinds), n)
	}
	windows, index := make([]bool, n), make([]bool, n)
	for il := range n {
		windows[il] = k.noteWindow(il)
		index[il] = !windows[il]
	}
	k.bs("attention.sliding_window_pattern", windows)
	k.bs("attention.indexer.types", index)
	further(k)
	windows = append(windows, slices.Repeat([]bool{true}, min(k.countOr("num_nextn_predict_layers", 0), mostNext))...)
	k.ns("attention.head_count", where(windows, k.count("swa_num_attention_heads"), k.heads()))
	rank, turning := k.count("swa_kv_lora_rank"), k.count("swa_qk_rope_head_dim")
	k.n("attention.kv_lora_rank_swa", rank)
	k.n("attention.key_length_swa", rank+turning)
	k.n("attention.value_length_swa", rank)
	k.n("attention.key_length_mla_swa", k.count("swa_qk_nope_head_dim")+turning)
	k.n("attention.value_length_mla_swa", k.count("swa_v_head_dim"))
	if turning != k.count("qk_rope_head_dim") || k.countOr("swa_q_lora_rank", k.count("q_lora_rank")) != k.count("q_lora_rank") {
		k.fail("swa_qk_rope_head_dim and swa_q_lora_rank differ from those of layers without a window; want the same")
	}
	k.gating("sigmoid")
	k.want("k_rope_only_layernorm", "true")
	k.want("use_dynamic_rsf", "false")
	for _, gate := range []string{"attention_gate_type", "swa_attention_gate_type"} {
		k.want(gate, "headwise")
	}
	k.drop("expert_group_count", "expert_group_used_count") // one group
	k.want("n_group", "1")
}

// attends reports whether a layer of Ling 3 has attention, rather than a delta net.
func (c *config) attends(il int) bool {
	n, group := c.layers(), max(c.count("layer_group_size"), 1)
	return (il+1)%group == 0 || il >= n/group*group
}

// indexQueriesKeys splits what makes an index's queries and, behind them, its key.
var indexQueriesKeys op = func(c *config, in []view) ([]view, error) {
	v := in[0]
	rows, each := v.rows()
	n := uint64(c.count("indexer_n_heads")) * uint64(c.count("indexer_head_dim"))
	if len(v.shape) != 2 || rows <= n {
		return nil, fmt.Errorf("the shape %v, want more than %d rows", v.shape, n)
	}
	return []view{
		v.strided(0, dim{n, each}, dim{each, 1}),
		v.strided(n*each, dim{rows - n, each}, dim{each, 1}),
	}, nil
}

// below puts matrices that were stacked one below the other.
var below = one(func(_ *config, v view) (view, error) {
	if len(v.shape) != 3 {
		return view{}, fmt.Errorf("the shape %v, want matrices", v.shape)
	}
	return v.as(v.shape[0]*v.shape[1], v.shape[2])
})

// ngramKeys sets what finds rows of Qwen 4 Exp's table of n-grams: numbers of more bits than a float has, of the checkpoint's tensors.
func ngramKeys(m *Model, k *keys) {
	ids := k.integers("ple_layer_ids", k.config.list("ple_layer_ids"))
	if len(ids) == 0 {
		return
	}
	for i := range ids {
		if ids[i] == 0 {
			k.fail("ple_layer_ids has 0, want numbers from 1 on")
			return
		}
		ids[i]--
	}
	k.ns("ple.layers", ids)
	k.n("ple.ngram_size", k.count("ngram_size"))
	k.n("ple.heads_per_ngram", k.count("heads_per_ngram"))
	k.n("ple.conv_kernel", k.count("ple_conv_kernel_size"))
	end := k.m["eos_token_id"]
	if all, ok := end.([]any); ok && len(all) > 0 {
		end = all[len(all)-1]
	}
	id, ok := asCount(end)
	if !ok {
		k.fail("eos_token_id is %.40v, want the number of a token: n-grams end there", end)
	}
	k.n("ple.eos_token_id", id)
	if t := m.target("per_layer_token_embd.weight"); t != nil {
		k.n("embedding_length_per_layer_input", int(min(t.dims[0], math.MaxInt32)))
	}
	for _, s := range []struct{ key, name string }{
		{"layer_multipliers", "layer_multipliers"}, {"head_offsets", "ngram_heads_offsets"}, {"head_vocab_sizes", "ngram_heads_vocab_sizes"},
	} {
		k.set("ple."+s.key, m.integers(k, "ple.ple_embedding."+s.name))
	}
}

// integers reads the only tensor whose name ends so, of integers of 64 bits.
func (m *Model) integers(k *keys, end string) []uint64 {
	for _, name := range m.weights.Names() {
		if !strings.HasSuffix(name, "."+end) {
			continue
		}
		t := m.weights.Tensor(name)
		if t.DType != "I64" || t.Elems() > 1<<16 {
			k.fail("tensor %q is %d numbers as %s, want I64", name, t.Elems(), t.DType)
			return nil
		}
		b := make([]byte, 8*t.Elems())
		if _, err := t.ReadAt(b, 0); err != nil {
			k.fail("%s", err)
			return nil
		}
		all := make([]uint64, t.Elems())
		for i := range all {
			all[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
		return all
	}
	k.fail("no tensor %s", end)
	return nil
}

// whole makes integers of 32 bits of numbers.
var whole = one(func(_ *config, v view) (view, error) {
	read := v.read
	return view{shape: v.shape, typ: gguf.I32, bytes: func(dst []byte, at uint64) error {
		buf := make([]float32, len(dst)/4)
		if err := read(buf, at); err != nil {
			return err
		}
		for i, x := range buf {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(int32(x)))
		}
		return nil
	}}, nil
})
