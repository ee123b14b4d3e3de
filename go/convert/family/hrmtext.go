package family

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var hrmText = lang.Family{
	Arch:  "hrm_text",
	Names: "HrmTextForCausalLM",
	Rules: lang.Rules{
		{"embed_tokens", "token_embd", nil},
		{"lm_head", "output", nil},
		{"z_L_init", "hrm.z_l_init", nil},
		{"attn.gqkv_proj", "attn_gate attn_q attn_k attn_v", quarters},
		{"attn.o_proj", "attn_output", nil},
		{"mlp.gate_up_proj", "ffn_gate ffn_up", lang.Halves},
		{"mlp.down_proj", "ffn_down", nil},
	},
	Settings: lang.Settings{{"embedding_scale", 'f', "embedding_scale"}},
	Keys: func(k *lang.Keys) {
		each, high, low := stackOf(k.Config), k.Count("H_cycles"), k.Count("L_cycles")
		if all := max(each, high, low); all > 1<<12 {
			k.Fail("H_cycles, L_cycles and layers of %d, the most is %d", all, 1<<12)
			return
		}
		k.N("block_count", each*high*(low+1))
		k.N("hrm.layers_per_stack", each)
		k.N("hrm.h_cycles", high)
		k.N("hrm.l_cycles", low)
		k.B("hrm.prefix_lm", k.Flag("prefix_lm"))
		k.N("attention.head_count_kv", k.HeadsKV())
		k.N("attention.key_length", k.HeadDim())
		k.N("attention.value_length", k.HeadDim())
		rotating(k, 1)
	},
	Rename: func(c *hf.Config, name string) string { // the layers of the low stack come first
		for i, stack := range []string{"model.L_module.layers.", "model.H_module.layers."} {
			rest, ok := strings.CutPrefix(name, stack)
			number, tail, _ := strings.Cut(rest, ".")
			if n, isNumber := hf.Digits(number); ok && isNumber && n < stackOf(c) {
				return fmt.Sprintf("model.layers.%d.%s", i*stackOf(c)+n, tail)
			}
		}
		return name
	},
}

// quarters splits the rows into four parts.
var quarters lang.Op = func(_ *hf.Config, in []lang.View) ([]lang.View, error) { return lang.Cut(in[0], 4, false) }

// stackOf returns the number of layers in one of the two stacks.
func stackOf(c *hf.Config) int { return c.CountOr("num_layers_per_stack", c.Layers()) }
