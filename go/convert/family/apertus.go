package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

var apertus = lang.Family{
	Arch:  "apertus",
	Names: "ApertusForCausalLM",
	Rules: lang.Rules{
		{"attention_layernorm", "attn_norm", nil},
		{"feedforward_layernorm", "ffn_norm", nil},
		{"mlp.act_fn.alpha_p", "", nil}, // these become keys: see xielu
		{"mlp.act_fn.alpha_n", "", nil},
		{"mlp.act_fn.beta", "", nil},
		{"mlp.act_fn.eps", "", nil},
	}.And(ends, attention, dense),
	Keys:       commonKeys,
	Finish:     xielu,
	Activation: "xielu",
}

// xielu sets the constants of the activation function: a checkpoint has a tensor of one number for each of them and
// each layer.
func xielu(d *lang.Draft, k *lang.Keys) {
	for _, name := range []string{"alpha_n", "alpha_p", "beta", "eps"} {
		all := make([]float32, d.Layers)
		for il := range all {
			t := d.Weights.Tensor(fmt.Sprintf("model.layers.%d.mlp.act_fn.%s", il, name))
			if t == nil || t.Elems() != 1 {
				k.Fail("layer %d has no mlp.act_fn.%s of one number", il, name)
				return
			}
			if err := t.Floats(all[il:il+1], 0); err != nil {
				k.Fail("%s", err)
				return
			}
		}
		k.KVs = append(k.KVs, gguf.KV{Key: "xielu." + name, Value: all}) // without the architecture's name
	}
}
