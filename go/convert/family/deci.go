package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var deci = lang.Family{
	Arch:  "deci",
	Names: "DeciLMForCausalLM",
	Rules: lang.Rules{
		{"self_attn.q_proj", "attn_q", lang.Permute(deciHeads)},
		{"self_attn.k_proj", "attn_k", lang.Permute(deciHeadsKV)},
		{"self_attn.linear_attn", "attn_output", nil},
	}.And(ends, attention, dense),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		k.N("attention.key_length", k.HeadDim())
		k.N("attention.value_length", k.HeadDim())
		var heads, shared, widths []uint32
		for il := range k.Layers() {
			b := deciBlockOf(k.Config, il)
			heads, shared, widths = append(heads, uint32(b.heads)), append(shared, uint32(b.shared)), append(widths,
				uint32(b.width))
		}
		k.Ns("attention.head_count", heads)
		k.Ns("attention.head_count_kv", shared)
		k.Ns("feed_forward_length", widths)
	},
}

// A deciBlock is the sizes of a layer: the number of heads of queries and of keys, 0 if it has none, and the width of
// the feed-forward network.
type deciBlock struct{ heads, shared, width int }

func deciHeads(c *hf.Config) int { return deciBlockOf(c, c.Layer).heads }

func deciHeadsKV(c *hf.Config) int { return deciBlockOf(c, c.Layer).shared }

// deciBlockOf returns the sizes of a layer.
func deciBlockOf(c *hf.Config, layer int) deciBlock {
	heads := c.Heads()
	if list := c.List("num_key_value_heads_per_layer"); list != nil {
		n := 0
		if layer >= 0 && layer < len(list) {
			n, _ = hf.AsCount(list[layer])
		}
		if n == 0 {
			c.Fail("num_key_value_heads_per_layer has no number of 1 or more for layer %d", layer)
		}
		return deciBlock{heads, n, c.Count("intermediate_size")}
	}
	list := c.List("block_configs")
	if layer < 0 || layer >= len(list) {
		c.Fail("block_configs has %d layers, want one for layer %d", len(list), layer)
		return deciBlock{}
	}
	block, _ := list[layer].(map[string]any)
	at := c.Part(block)
	a, f := at.Within("attention"), at.Within("ffn")
	b := deciBlock{}
	switch {
	case a.Has("n_heads_in_group"):
		b.heads, b.shared = heads, heads/max(a.Count("n_heads_in_group"), 1)
	case a.Flag("replace_with_linear"):
		b.heads = heads
	}
	if f.Has("ffn_mult") {
		b.width = (int(2*f.Number("ffn_mult")*float64(c.Count("hidden_size"))/3) + 255) / 256 * 256
	}
	if f.Has("intermediate_size") {
		b.width = f.Count("intermediate_size")
	}
	for _, part := range []*hf.Config{at, a, f} {
		c.Take(part)
	}
	return b
}
