package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// gpt is the names that GPT-2 left to others, with matrices the usual way round.
var gpt = []rule{
	{"wte", "token_embd", nil},
	{"wpe", "position_embd", nil},
	{"word_embeddings", "token_embd", nil},
	{"ln_f", "output_norm", nil},
	{"lm_head", "output", nil},
	{"ln_1", "attn_norm", nil},
	{"ln_2", "ffn_norm", nil},
	{"input_layernorm", "attn_norm", nil},
	{"post_attention_layernorm", "ffn_norm", nil},
	{"attn.c_attn", "attn_qkv", nil},
	{"attn.c_proj", "attn_output", nil},
	{"self_attention.dense", "attn_output", nil},
	{"mlp.c_fc", "ffn_up", nil},
	{"mlp.c_proj", "ffn_down", nil},
	{"mlp.dense_h_to_4h", "ffn_up", nil},
	{"mlp.dense_4h_to_h", "ffn_down", nil},
	{"attn.bias", "", nil},
	{"attn.masked_bias", "", nil},
}

// elders are families of 2022 and 2023.
var elders = []family{
	{
		arch:  "internlm2",
		names: "InternLM2ForCausalLM",
		rules: slices.Concat([]rule{
			{"tok_embeddings", "token_embd", nil},
			{"output", "output", nil},
			{"attention_norm", "attn_norm", nil},
			{"ffn_norm", "ffn_norm", nil},
			{"attention.wqkv", "attn_q attn_k attn_v", then(groups, each3(permute((*config).heads), permute((*config).headsKV), nil))},
			{"attention.wo", "attn_output", nil},
			{"feed_forward.w1", "ffn_gate", nil},
			{"feed_forward.w2", "ffn_down", nil},
			{"feed_forward.w3", "ffn_up", nil},
		}, ends),
	},
	{
		arch:  "xverse",
		names: "XverseForCausalLM",
		rules: slices.Concat(ends, pairs, dense),
		keys:  func(k *keys) { rotating(k, 1) },
	},
	{
		arch:  "baichuan",
		names: "BaichuanForCausalLM BaiChuanForCausalLM",
		rules: slices.Concat([]rule{
			{"self_attn.W_pack", "attn_q attn_k attn_v", then(packed, each3(permute((*config).heads), permute((*config).headsKV), nil))},
		}, ends, attention, dense),
		keys: func(k *keys) { rotating(k, 1) },
	},
	{
		arch:  "orion",
		names: "OrionForCausalLM",
		rules: slices.Concat(ends, attention, dense),
		keys: func(k *keys) {
			k.f("attention.layer_norm_epsilon", k.number("rms_norm_eps")) // which has a mean nevertheless
			k.drop("attention.layer_norm_rms_epsilon")
		},
	},
	{
		arch:  "minicpm",
		names: "MiniCPMForCausalLM",
		rules: slices.Concat(ends, pairs, dense),
		keys: func(k *keys) {
			commonKeys(k)
			miniCPMScales(k)
		},
		extra: phi3Factors,
	},
	{
		arch:  "qwen",
		names: "QWenLMHeadModel",
		rules: slices.Concat([]rule{
			{"mlp.w1", "ffn_up", nil},
			{"mlp.w2", "ffn_gate", nil},
		}, gpt),
		settings: []setting{{"attention.layer_norm_rms_epsilon", 'f', "layer_norm_epsilon"}},
		keys: func(k *keys) {
			rotating(k, 1)
			k.drop("attention.layer_norm_epsilon")
		},
	},
	{
		arch:  "exaone",
		names: "ExaoneForCausalLM",
		rules: slices.Concat([]rule{
			{"attn.attention.q_proj", "attn_q", nil},
			{"attn.attention.k_proj", "attn_k", nil},
			{"attn.attention.v_proj", "attn_v", nil},
			{"attn.attention.out_proj", "attn_output", nil},
			{"mlp.c_fc_0", "ffn_gate", nil},
			{"mlp.c_fc_1", "ffn_up", nil},
		}, gpt),
		settings: []setting{{"attention.layer_norm_rms_epsilon", 'f', "layer_norm_epsilon"}},
		keys: func(k *keys) {
			rotating(k, 1)
			k.drop("attention.layer_norm_epsilon")
			k.want("activation_function", "silu")
		},
		extra: llama3Factors,
	},
	{
		arch:  "starcoder",
		names: "GPTBigCodeForCausalLM",
		rules: gpt,
		keys: func(k *keys) {
			k.n("feed_forward_length", k.countOr("n_inner", 4*k.count("n_embd")))
			if one, set := k.m["multi_query"].(bool); one || !set {
				k.n("attention.head_count_kv", 1)
			}
		},
	},
	{
		arch:  "bloom",
		names: "BloomForCausalLM BloomModel",
		rules: slices.Concat([]rule{
			{"word_embeddings_layernorm", "token_embd_norm", nil},
			{"self_attention.query_key_value", "attn_qkv", threes},
		}, gpt),
		keys: func(k *keys) {
			width := k.count("hidden_size n_embed n_embd")
			k.n("embedding_length", width)
			k.n("context_length", k.countOr("seq_length", width))
			k.n("feed_forward_length", k.countOr("n_inner", 4*width))
		},
	},
	{
		arch:  "falcon",
		names: "FalconForCausalLM RWForCausalLM",
		rules: slices.Concat([]rule{
			{"self_attention.query_key_value", "attn_qkv", then(groups, together)},
			{"ln_attn", "attn_norm_2", nil},
			{"ln_mlp", "attn_norm", nil},
		}, gpt),
		keys: func(k *keys) {
			k.n("context_length", k.countOr("max_position_embeddings", 2048))
			k.n("feed_forward_length", k.countOr("ffn_hidden_size", 4*k.count("hidden_size")))
			k.n("attention.head_count_kv", k.groupsOf())
			if k.flag("alibi") {
				k.fail("alibi is true, want a model with rotations")
			}
		},
	},
	{
		arch:  "mpt",
		names: "MPTForCausalLM MptForCausalLM",
		rules: slices.Concat([]rule{
			{"norm_f", "output_norm", nil},
			{"norm_1", "attn_norm", nil},
			{"norm_2", "ffn_norm", nil},
			{"attn.Wqkv", "attn_qkv", nil},
			{"attn.out_proj", "attn_output", nil},
			{"attn.q_ln", "attn_q_norm", nil},
			{"attn.k_ln", "attn_k_norm", nil},
			{"ffn.up_proj", "ffn_up", nil},
			{"ffn.down_proj", "ffn_down", nil},
		}, gpt),
		keys: func(k *keys) {
			a := k.within("attn_config")
			k.n("context_length", k.count("max_seq_len"))
			k.n("feed_forward_length", int(k.numberOr("expansion_ratio", 4)*float64(k.count("d_model"))))
			if n := a.countOr("kv_n_heads", 0); n > 0 {
				k.n("attention.head_count_kv", n)
			}
			k.f("attention.layer_norm_epsilon", 1e-5)
			if a.has("clip_qkv") {
				k.f("attention.clamp_kqv", a.number("clip_qkv"))
			}
			bias := 0.0
			if a.flag("alibi") {
				bias = a.numberOr("alibi_bias_max", 8)
			}
			k.f("attention.max_alibi_bias", bias)
			k.take(a)
		},
	},
	{
		arch:  "chatglm",
		names: "ChatGLMModel ChatGLMForConditionalGeneration",
		rules: slices.Concat([]rule{
			{"embedding.word_embeddings", "token_embd", nil},
			{"encoder.final_layernorm", "output_norm", nil},
			{"output_layer", "output", nil},
			{"self_attention.query_key_value", "attn_qkv", nil},
			{"rotary_pos_emb.inv_freq", "", nil},
		}, gpt),
		keys: func(k *keys) {
			k.n("context_length", k.countOr("seq_length", k.count("hidden_size")))
			k.n("feed_forward_length", k.countOr("ffn_hidden_size", 4*k.count("hidden_size")))
			k.n("attention.head_count_kv", k.countOr("multi_query_group_num", k.heads()))
			k.f("attention.layer_norm_rms_epsilon", k.number("layernorm_epsilon"))
			k.n("rope.dimension_count", k.countOr("kv_channels", k.headDim())/2)
			k.f("rope.freq_base", 10000*k.numberOr("rope_ratio", 1))
			k.drop("attention.layer_norm_epsilon")
		},
		vocab: glmVocab,
	},
	{
		arch:  "stablelm",
		names: "StableLmForCausalLM StableLMEpochForCausalLM",
		rules: with(slices.Concat(ends, attention, dense),
			rule{"self_attn.q_layernorm.norms.*", "attn_q_norm", nil},
			rule{"self_attn.k_layernorm.norms.*", "attn_k_norm", nil}),
		keys: func(k *keys) {
			rotating(k, 0.25)
			k.b("use_parallel_residual", !k.has("use_parallel_residual") || k.flag("use_parallel_residual"))
			k.f("attention.layer_norm_epsilon", k.numberOr("layer_norm_eps norm_eps", 1e-5))
			k.drop("attention.layer_norm_rms_epsilon")
		},
		count: func(c *config, name string) int {
			switch {
			case strings.HasPrefix(name, "self_attn.q_layernorm."):
				return c.heads()
			case strings.HasPrefix(name, "self_attn.k_layernorm."):
				return c.headsKV()
			}
			return 0
		},
	},
	{
		arch:  "plamo",
		names: "PlamoForCausalLM",
		rules: slices.Concat([]rule{
			{".norm", "attn_norm", nil},
			{"self_attn.q_proj", "attn_q", sharing(0)},
			{"self_attn.o_proj", "attn_output", sharing(1)},
		}, ends, attention, dense),
		keys: func(k *keys) {
			k.n("context_length", k.countOr("max_position_embeddings", 4096))
			k.n("attention.head_count_kv", sharedHeads(k.config))
		},
	},
	{
		arch:  "nemotron",
		names: "NemotronForCausalLM",
		rules: with(slices.Concat(ends, attention, dense),
			rule{"input_layernorm.weight", "attn_norm.weight", addOne},
			rule{"post_attention_layernorm.weight", "ffn_norm.weight", addOne},
			rule{"norm.weight", "output_norm.weight", addOne}),
		keys: func(k *keys) {
			vocabSize(k)
			rotating(k, 0.5)
			k.f("attention.layer_norm_epsilon", k.number("layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps"))
			k.drop("attention.layer_norm_rms_epsilon")
			if !k.ropeOf("full_attention").has("factor") {
				k.set("rope.scaling.type", "none")
			}
		},
	},
	{
		arch:  "deci",
		names: "DeciLMForCausalLM",
		rules: slices.Concat([]rule{
			{"self_attn.q_proj", "attn_q", permute((*config).deciHeads)},
			{"self_attn.k_proj", "attn_k", permute((*config).deciHeadsKV)},
			{"self_attn.linear_attn", "attn_output", nil},
		}, ends, attention, dense),
		keys: func(k *keys) {
			commonKeys(k)
			k.n("attention.key_length", k.headDim())
			k.n("attention.value_length", k.headDim())
			var heads, shared, widths []uint32
			for il := range k.layers() {
				b := k.deciBlock(il)
				heads, shared, widths = append(heads, uint32(b.heads)), append(shared, uint32(b.shared)), append(widths, uint32(b.width))
			}
			k.ns("attention.head_count", heads)
			k.ns("attention.head_count_kv", shared)
			k.ns("feed_forward_length", widths)
		},
		extra: llama3Factors,
	},
}

// groupsOf returns the number of groups of queries that share a key and a value.
func (c *config) groupsOf() int {
	if c.flag("multi_query") && !c.flag("new_decoder_architecture") {
		return 1
	}
	return c.countOr("num_kv_heads n_head_kv num_key_value_heads", 1)
}

// groups takes rows apart that lie by groups: the queries of one, its key, its value.
var groups op = func(c *config, in []view) ([]view, error) {
	v := in[0]
	n, h := uint64(max(c.countOr("num_key_value_heads", c.groupsOf()), 1)), uint64(c.heads())
	rows, each := v.rows()
	if h%n != 0 || rows%(h+2*n) != 0 {
		return nil, fmt.Errorf("%d rows for %d heads in %d groups", rows, h, n)
	}
	d, queries := rows/(h+2*n), h/n
	part := func(from, count uint64) (view, error) {
		shape := append([]uint64{n * count * d}, v.shape[1:]...)
		return v.strided(from*d*each, dim{n, (queries + 2) * d * each}, dim{count * d, each}, dim{each, 1}).as(shape...)
	}
	var out []view
	for _, p := range [][2]uint64{{0, queries}, {queries, 1}, {queries + 1, 1}} {
		made, err := part(p[0], p[1])
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

// packed takes queries, keys and values apart that lie one below the other.
var packed op = func(c *config, in []view) ([]view, error) {
	v := in[0]
	rows, each := v.rows()
	h, n := uint64(max(c.heads(), 1)), uint64(c.headsKV())
	d := rows / (h + 2*n)
	if rows != d*(h+2*n) {
		return nil, fmt.Errorf("%d rows for %d heads and %d of keys", rows, h, n)
	}
	var out []view
	at := uint64(0)
	for _, count := range []uint64{h * d, n * d, n * d} {
		shape := append([]uint64{count}, v.shape[1:]...)
		part, err := v.strided(at*each, dim{count, each}, dim{each, 1}).as(shape...)
		if err != nil {
			return nil, err
		}
		out, at = append(out, part), at+count
	}
	return out, nil
}

// together puts tensors one below the other.
var together op = func(_ *config, in []view) ([]view, error) {
	v, err := joined(in...)
	return []view{v}, err
}

// each3 does something to each of three tensors; nil: nothing.
func each3(ops ...op) op {
	return func(c *config, in []view) ([]view, error) {
		out := slices.Clone(in)
		for i, o := range ops {
			if o == nil {
				continue
			}
			made, err := o(c, in[i:i+1])
			if err != nil {
				return nil, err
			}
			out[i] = made[0]
		}
		return out, nil
	}
}

// sharedHeads returns the heads of keys that PLaMo's queries share: its config.json says another number, that of queries for each.
func sharedHeads(c *config) int { return c.heads() / max(c.countOr("n_shared_head", 8), 1) }

// sharing brings heads of queries along an axis, which take turns with the keys that they share, together.
func sharing(axis int) op {
	return one(func(c *config, v view) (view, error) {
		n, h := uint64(max(sharedHeads(c), 1)), uint64(c.heads())
		if axis >= len(v.shape) || h == 0 || h%n != 0 || v.shape[axis]%h != 0 {
			return view{}, fmt.Errorf("the shape %v for %d heads that share %d", v.shape, h, n)
		}
		outer, inner := uint64(1), uint64(1)
		for i, d := range v.shape {
			switch {
			case i < axis:
				outer *= d
			case i > axis:
				inner *= d
			}
		}
		d := v.shape[axis] / h * inner
		return v.strided(0, dim{outer, h * d}, dim{n, d}, dim{h / n, n * d}, dim{d, 1}).as(v.shape...)
	})
}

// miniCPMScales are factors of embeddings, residuals and logits.
func miniCPMScales(k *keys) {
	k.f("embedding_scale", k.number("scale_emb"))
	k.f("residual_scale", k.number("scale_depth")/math.Sqrt(float64(max(k.layers(), 1))))
	k.f("logit_scale", float64(k.count("hidden_size"))/float64(max(k.count("dim_model_base"), 1)))
}

// A deciBlock is the sizes of a layer of DeciLM: heads of queries and of keys, 0 for none, and of the feed-forward
// network.
type deciBlock struct{ heads, shared, width int }

func (c *config) deciHeads() int   { return c.deciBlock(c.layer).heads }
func (c *config) deciHeadsKV() int { return c.deciBlock(c.layer).shared }

// deciBlock returns the sizes of a layer.
func (c *config) deciBlock(layer int) deciBlock {
	heads := c.heads()
	if list := c.list("num_key_value_heads_per_layer"); list != nil {
		n := 0
		if layer >= 0 && layer < len(list) {
			n, _ = asCount(list[layer])
		}
		if n == 0 {
			c.fail("num_key_value_heads_per_layer has no number of 1 or more for layer %d", layer)
		}
		return deciBlock{heads, n, c.count("intermediate_size")}
	}
	list := c.list("block_configs")
	if layer < 0 || layer >= len(list) {
		c.fail("block_configs has %d layers, want one for layer %d", len(list), layer)
		return deciBlock{}
	}
	block, _ := list[layer].(map[string]any)
	at := &config{m: block, file: c.file}
	a, f := at.within("attention"), at.within("ffn")
	b := deciBlock{}
	switch {
	case a.has("n_heads_in_group"):
		b.heads, b.shared = heads, heads/max(a.count("n_heads_in_group"), 1)
	case a.flag("replace_with_linear"):
		b.heads = heads
	}
	if f.has("ffn_mult") {
		b.width = (int(2*f.number("ffn_mult")*float64(c.count("hidden_size"))/3) + 255) / 256 * 256
	}
	if f.has("intermediate_size") {
		b.width = f.count("intermediate_size")
	}
	for _, part := range []*config{at, a, f} {
		c.take(part)
	}
	return b
}
