package convert

import (
	"fmt"

	"github.com/quern-llm/quern/go/gguf"
)

var apertus = family{
	arch:  "apertus",
	names: "ApertusForCausalLM",
	rules: rules{
		{"attention_layernorm", "attn_norm", nil},
		{"feedforward_layernorm", "ffn_norm", nil},
		{"mlp.act_fn.alpha_p", "", nil}, // which keys say: see xielu
		{"mlp.act_fn.alpha_n", "", nil},
		{"mlp.act_fn.beta", "", nil},
		{"mlp.act_fn.eps", "", nil},
	}.And(ends, attention, dense),
	keys:   commonKeys,
	extra:  llama3Factors,
	finish: xielu,
}

// xielu reads the constants of the activation, a tensor of one number for each layer.
func xielu(d *draft, k *keys) {
	for _, name := range []string{"alpha_n", "alpha_p", "beta", "eps"} {
		all := make([]float32, d.layers)
		for il := range all {
			t := d.weights.Tensor(fmt.Sprintf("model.layers.%d.mlp.act_fn.%s", il, name))
			if t == nil || t.Elems() != 1 {
				k.fail("layer %d has no mlp.act_fn.%s of one number", il, name)
				return
			}
			if err := t.Floats(all[il:il+1], 0); err != nil {
				k.fail("%s", err)
				return
			}
		}
		k.list = append(k.list, gguf.KV{Key: "xielu." + name, Value: all}) // of no architecture
	}
}
