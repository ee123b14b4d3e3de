package convert

import (
	"fmt"
	"strings"
)

var hrmText = family{
	arch:  "hrm_text",
	names: "HrmTextForCausalLM",
	rules: rules{
		{"embed_tokens", "token_embd", nil},
		{"lm_head", "output", nil},
		{"z_L_init", "hrm.z_l_init", nil},
		{"attn.gqkv_proj", "attn_gate attn_q attn_k attn_v", quarters},
		{"attn.o_proj", "attn_output", nil},
		{"mlp.gate_up_proj", "ffn_gate ffn_up", halves},
		{"mlp.down_proj", "ffn_down", nil},
	},
	settings: settings{{"embedding_scale", 'f', "embedding_scale"}},
	keys: func(k *keys) {
		each, high, low := stackOf(k.config), k.count("H_cycles"), k.count("L_cycles")
		if all := max(each, high, low); all > 1<<12 {
			k.fail("H_cycles, L_cycles and layers of %d, the most is %d", all, 1<<12)
			return
		}
		k.n("block_count", each*high*(low+1))
		k.n("hrm.layers_per_stack", each)
		k.n("hrm.h_cycles", high)
		k.n("hrm.l_cycles", low)
		k.b("hrm.prefix_lm", k.flag("prefix_lm"))
		k.n("attention.head_count_kv", k.headsKV())
		k.n("attention.key_length", k.headDim())
		k.n("attention.value_length", k.headDim())
		rotating(k, 1)
	},
	rename: func(c *config, name string) string { // the low stack is before the high one
		for i, stack := range []string{"model.L_module.layers.", "model.H_module.layers."} {
			rest, ok := strings.CutPrefix(name, stack)
			number, tail, _ := strings.Cut(rest, ".")
			if n, isNumber := digits(number); ok && isNumber && n < stackOf(c) {
				return fmt.Sprintf("model.layers.%d.%s", i*stackOf(c)+n, tail)
			}
		}
		return name
	},
}

// quarters splits rows in four.
var quarters op = func(_ *config, in []view) ([]view, error) { return cut(in[0], 4, false) }

// stackOf returns the layers of one of HRM's two stacks.
func stackOf(c *config) int { return c.countOr("num_layers_per_stack", c.layers()) }
