package hf

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// kinds are the names of layers that transformers had before version 5, with those that it has now.
var kinds = map[string]string{"mamba": "linear_attention", "attention": "full_attention"}

// kind returns the name that a kind of layer has in transformers 5.
func kind(name string) string {
	if now, ok := kinds[name]; ok {
		return now
	}
	return name
}

// spell adds the settings that checkpoints had before transformers 5, which families read, where version 5 writes others
// in their place.
func (c *Config) spell() {
	if kinds, _ := c.m["mlp_layer_types"].([]any); len(kinds) > 0 && !slices.ContainsFunc(kinds, func(kind any) bool {
		return kind != "dense" && kind != "sparse"
	}) {
		c.Put("first_k_dense_replace", float64(c.Leading()))
	}
	switch {
	case c.m["compress_rates"] != nil:
		c.spellCompression()
	case c.m["index_block_size"] != nil:
		c.spellSpans()
	case c.m["per_layer_config"] != nil && c.m["index_topk"] != nil:
		c.spellWindowLatents()
	}
	if c.m["linear_attn_config"] == nil && c.m["linear_num_heads"] != nil { // Kimi Linear
		var attend []any
		for il, t := range c.Texts("layer_types") {
			if t == "full_attention" {
				attend = append(attend, float64(il+1)) // counted from 1
			}
		}
		c.Put("linear_attn_config", map[string]any{
			"short_conv_kernel_size": c.Value("linear_conv_kernel_dim"), "head_dim": c.Value("linear_head_dim"),
			"num_heads": c.Value("linear_num_heads"), "full_attn_layers": attend,
		})
	}
}

// spellCompression adds what DeepSeek V4's checkpoints said of their layers, with the name that version 5 has for the
// layers of a ratio, and for the rotations of those without one.
func (c *Config) spellCompression() {
	rates, kinds := c.Within("compress_rates"), c.Texts("layer_types")
	ratios := make([]any, len(kinds))
	for il, kind := range kinds {
		ratios[il] = 0.0
		if kind != "sliding_attention" {
			ratios[il] = float64(rates.Count(kind))
		}
	}
	c.Take(rates)
	c.Put("compress_ratios", ratios)
	hashed := 0
	for il, kind := range c.Texts("mlp_layer_types") {
		if kind == "hash_moe" && il != hashed {
			c.Fail("mlp_layer_types: want layers with hash_moe, and then others")
		} else if kind == "hash_moe" {
			hashed++
		}
	}
	c.Put("num_hash_layers", float64(hashed))
	ropes := c.Within("rope_parameters")
	main, compress := ropes.Within("main"), ropes.Within("compress")
	if main.m == nil || compress.m == nil {
		return
	}
	main.Want("rope_type", "default")
	if compress.Has("rope_theta") {
		c.Put("compress_rope_theta", compress.Number("rope_theta"))
	}
	ropes.Take(main)
	ropes.Take(compress)
	c.Take(ropes)
	both := maps.Clone(compress.m)
	both["rope_theta"] = main.m["rope_theta"]
	c.Put("rope_parameters", both)
}

// spellSpans adds what MiniMax M3's checkpoints said of their index and of layers with experts.
func (c *Config) spellSpans() {
	c.Put("sparse_attention_config", map[string]any{
		"sparse_num_index_heads": c.Value("index_n_heads"), "sparse_index_dim": c.Value("index_head_dim"),
		"sparse_topk_blocks": c.Value("index_topk_blocks"), "sparse_block_size": c.Value("index_block_size"),
		"sparse_local_block": c.Value("index_local_blocks"), "sparse_attention_freq": c.flags("layer_types", "minimax_m3_sparse"),
	})
	c.Put("moe_layer_freq", c.flags("mlp_layer_types", "sparse"))
}

// flags returns 1 for each element of a list that is this text, and 0 for the others.
func (c *Config) flags(list, text string) []any {
	var all []any
	for _, s := range c.Texts(list) {
		all = append(all, 0.0)
		if s == text {
			all[len(all)-1] = 1.0
		}
	}
	return all
}

// spellWindowLatents adds what dots3-note's checkpoints said of layers with a window, whose latents have sizes of their
// own.
func (c *Config) spellWindowLatents() {
	windows := c.TypesOf("sliding_attention")
	for name := range strings.FieldsSeq("num_attention_heads q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim") {
		c.Put("swa_"+name, float64(c.CountOf(name, windows)))
	}
	c.Put("sliding_window_size", c.Value("sliding_window"))
	c.Put("apply_mla_qkv_lora_rescale", true)
	ropes := c.Within("rope_parameters")
	near, far := ropes.Within("sliding_attention"), ropes.Within("indexed_attention")
	if near.Has("rope_theta") && far.m != nil {
		near.Want("rope_type", "default")
		c.Put("swa_rope_theta", near.Number("rope_theta"))
		c.Put("rope_parameters", far.m)
	}
	ropes.Take(near)
	c.Take(ropes)
}

// CountOf returns the number that a setting has in the layers for which is is true: that of per_layer_config, or else of
// the whole. It fails if it differs between them.
func (c *Config) CountOf(name string, is []bool) int {
	layers := c.Within("per_layer_config")
	defer c.Take(layers)
	of := map[int]*Config{}
	for number := range layers.m {
		il, err := strconv.Atoi(number)
		if err != nil || il < 0 || il >= len(is) {
			c.Fail("per_layer_config has a layer %.40q of %d", number, len(is))
			return 0
		}
		of[il] = layers.Within(number)
	}
	n, first := 0, -1
	for il := range is {
		if !is[il] {
			continue
		}
		here := c
		if part := of[il]; part != nil && part.Has(name) {
			here = part
		}
		v := here.Count(name)
		if first >= 0 && v != n {
			c.Fail("%s is %d in layer %d and %d in layer %d, which are of one kind", name, n, first, v, il)
		}
		if first < 0 {
			n, first = v, il
		}
	}
	for _, part := range of {
		layers.Take(part)
	}
	return n
}
