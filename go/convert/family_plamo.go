package convert

import (
	"fmt"
)

var plamo = family{
	arch:  "plamo",
	names: "PlamoForCausalLM",
	rules: rules{
		{".norm", "attn_norm", nil},
		{"self_attn.q_proj", "attn_q", sharing(0)},
		{"self_attn.o_proj", "attn_output", sharing(1)},
	}.And(ends, attention, dense),
	keys: func(k *keys) {
		k.n("context_length", k.countOr("max_position_embeddings", 4096))
		k.n("attention.head_count_kv", sharedHeads(k.config))
	},
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
