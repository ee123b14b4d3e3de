package convert

var deci = family{
	arch:  "deci",
	names: "DeciLMForCausalLM",
	rules: rules{
		{"self_attn.q_proj", "attn_q", permute(deciHeads)},
		{"self_attn.k_proj", "attn_k", permute(deciHeadsKV)},
		{"self_attn.linear_attn", "attn_output", nil},
	}.And(ends, attention, dense),
	keys: func(k *keys) {
		commonKeys(k)
		k.n("attention.key_length", k.headDim())
		k.n("attention.value_length", k.headDim())
		var heads, shared, widths []uint32
		for il := range k.layers() {
			b := deciBlockOf(k.config, il)
			heads, shared, widths = append(heads, uint32(b.heads)), append(shared, uint32(b.shared)), append(widths, uint32(b.width))
		}
		k.ns("attention.head_count", heads)
		k.ns("attention.head_count_kv", shared)
		k.ns("feed_forward_length", widths)
	},
	extra: llama3Factors,
}

// A deciBlock is the sizes of a layer of DeciLM: heads of queries and of keys, 0 for none, and of the feed-forward
// network.
type deciBlock struct{ heads, shared, width int }

func deciHeads(c *config) int { return deciBlockOf(c, c.layer).heads }

func deciHeadsKV(c *config) int { return deciBlockOf(c, c.layer).shared }

// deciBlockOf returns the sizes of a layer.
func deciBlockOf(c *config, layer int) deciBlock {
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
	at := c.part(block)
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
