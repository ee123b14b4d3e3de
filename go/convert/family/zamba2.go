package family

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var zamba2 = lang.Family{
	Arch:  "zamba2",
	Names: "Zamba2ForCausalLM",
	Rules: lang.Rules{
		{"final_layernorm", "output_norm", nil},
		{"linear", "shared_out", nil},
		{"shared_transformer.input_layernorm", "attn_norm_2", nil},
		{"shared_transformer.self_attn.q_proj", "attn_q", nil},
		{"shared_transformer.self_attn.k_proj", "attn_k", nil},
		{"shared_transformer.self_attn.v_proj", "attn_v", nil},
		{"shared_transformer.self_attn.o_proj", "attn_output", nil},
		{"shared_transformer.pre_ff_layernorm", "ffn_norm", nil},
		{"shared_transformer.feed_forward.gate_up_proj", "ffn_gate ffn_up", lang.Halves},
		{"shared_transformer.feed_forward.down_proj", "ffn_down", nil},
		{"adapter.q_a", "attn_q_adapter_a", nil},
		{"adapter.q_b", "attn_q_adapter_b", nil},
		{"adapter.k_a", "attn_k_adapter_a", nil},
		{"adapter.k_b", "attn_k_adapter_b", nil},
		{"adapter.v_a", "attn_v_adapter_a", nil},
		{"adapter.v_b", "attn_v_adapter_b", nil},
		{"adapter.gate_up_a", "ffn_adapter_a", nil},
		{"adapter.gate_up_b", "ffn_gate_adapter_b ffn_up_adapter_b", lang.Halves},
		{"shared_again", "", nil},
	}.And(mambaScan, ends, attention),
	Settings: lang.Settings{
		{"adapter_rank", 'n', "adapter_rank"},
		{"ssm.conv_kernel", 'n', "mamba_d_conv"},
		{"ssm.state_size", 'n', "mamba_d_state"},
		{"ssm.group_count", 'n', "mamba_ngroups"},
		{"ssm.time_step_rank", 'n', "n_mamba_heads"},
		{"quern.ssm.time_step_min", 'f', "time_step_min"},
	},
	Keys: func(k *lang.Keys) {
		vocabSize(k)
		_, blocks := zambaUses(k.Config)
		k.N("shared_block_count", blocks)
		width := k.Count("hidden_size")
		dim := k.Channels(2 * width / max(k.Heads(), 1)) // of what is beside the embeddings
		k.Ns("attention.head_count_kv", lang.Where(k.TypesOf("hybrid"), k.HeadsKV(), 0))
		k.N("attention.key_length", dim)
		k.N("attention.value_length", dim)
		k.F("attention.scale", 1/math.Sqrt(float64(max(dim, 2))/2))
		k.N("ssm.inner_size", k.CountOr("mamba_expand", 2)*width)
		if !k.FlagOr("use_mem_rope", false) {
			k.Drop("rope.freq_base")
		}
	},
	Rename:     zambaName,
	Fixed:      lang.Fixed{{"use_long_context", "false"}},
	Tied:       true,
	Activation: "gelu",
}

// usedBy matches the name of a tensor of a shared block: its layer, and of adapters the matrix, the use and which of
// two it is.
var usedBy = regexp.MustCompile(`^(.*layers\.)(\d{1,6})\.shared_transformer\.(?:[a-z_]+\.(?:linear_)?(q|k|v|gate_up)` +
	`(?:_proj)?_adapter_list\.(\d{1,6})\.([01])\.weight$)?`)

// zambaUses returns the layers that use a shared block, and how many blocks there are: with embeddings that are not
// tied, blocks are not shared either.
func zambaUses(c *hf.Config) (uses []int, blocks int) {
	for il, is := range c.TypesOf("hybrid") {
		if is {
			uses = append(uses, il)
		}
	}
	if !c.FlagOr("tie_word_embeddings", true) {
		return uses, max(len(uses), 1)
	}
	return uses, max(c.CountOr("num_mem_blocks", 1), 1)
}

// zambaName gives adapters the layer that uses them, and leaves out the tensors of blocks that an earlier layer has.
func zambaName(c *hf.Config, name string) string {
	name = strings.Replace(name, ".mamba_decoder.", ".", 1)
	m := usedBy.FindStringSubmatch(name)
	if m == nil {
		return name
	}
	uses, blocks := zambaUses(c)
	layer, _ := hf.Digits(m[2])
	use, isAdapter := hf.Digits(m[4])
	if slices.Index(uses, layer) >= blocks || isAdapter && (use >= len(uses) || uses[use%blocks] != layer) {
		return m[1] + m[2] + ".shared_again"
	}
	if !isAdapter {
		return name
	}
	return fmt.Sprintf("%s%d.adapter.%s_%s.weight", m[1], uses[use], m[3], map[string]string{"0": "a", "1": "b"}[m[5]])
}
