package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var plamo = lang.Family{
	Arch:  "plamo",
	Names: "PlamoForCausalLM",
	Rules: lang.Rules{
		{".norm", "attn_norm", nil},
		{"self_attn.q_proj", "attn_q", sharing(0)},
		{"self_attn.o_proj", "attn_output", sharing(1)},
	}.And(ends, attention, dense),
	Keys: func(k *lang.Keys) {
		k.N("context_length", k.CountOr("max_position_embeddings", 4096))
		k.N("attention.head_count_kv", sharedHeads(k.Config))
	},
}

// sharedHeads returns the number of heads of keys. config.json has the number of queries for each of them instead.
func sharedHeads(c *hf.Config) int { return c.Heads() / max(c.CountOr("n_shared_head", 8), 1) }

// sharing reorders heads of queries along an axis: in a checkpoint, neighbours have different heads of keys; in GGUF,
// the same.
func sharing(axis int) lang.Op {
	return lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
		n, h := uint64(max(sharedHeads(c), 1)), uint64(c.Heads())
		if axis >= len(v.Shape) || h == 0 || h%n != 0 || v.Shape[axis]%h != 0 {
			return lang.View{}, fmt.Errorf("the shape %v for %d heads that share %d", v.Shape, h, n)
		}
		outer, inner := uint64(1), uint64(1)
		for i, d := range v.Shape {
			switch {
			case i < axis:
				outer *= d
			case i > axis:
				inner *= d
			}
		}
		d := v.Shape[axis] / h * inner
		return v.Strided(0, lang.Dim{outer, h * d}, lang.Dim{n, d}, lang.Dim{h / n, n * d},
			lang.Dim{d, 1}).As(v.Shape...)
	})
}
