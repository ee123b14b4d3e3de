package hf

import (
	"slices"
	"strconv"
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
