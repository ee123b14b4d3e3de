package family

import (
	"fmt"
	"math"
	"regexp"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// longcat has two layers in the file for each of the checkpoint, and norms of latents that are scaled by the widths.
var longcat = lang.Family{
	Arch:  "longcat-flash",
	Names: "LongcatFlashForCausalLM",
	Rules: lang.Rules{
		{"self_attn.q_a_layernorm", "attn_q_a_norm", lang.Times(widened("q_lora_rank"))},
		{"self_attn.kv_a_layernorm", "attn_kv_a_norm", lang.Times(widened("kv_lora_rank"))},
		{"mlp.router.classifier", "ffn_gate_inp", nil},
		{"mlp.router.e_score_correction_bias", "exp_probs_b.bias", nil},
		{"returned", "", nil},
	}.And(latent, ends, attention, dense, mixture),
	Settings: latentSettings.And(lang.Settings{
		{"feed_forward_length", 'n', "ffn_hidden_size"},
		{"expert_feed_forward_length", 'n', "expert_ffn_hidden_size"},
		{"expert_used_count", 'n', "moe_topk"},
		{"zero_expert_count", 'n', "zero_expert_num"},
	}),
	Keys: func(k *lang.Keys) {
		latentKeys(k)
		k.Drop("leading_dense_block_count")
		k.N("block_count", 2*k.Count("num_layers"))
	},
	Rename: longcatName,
	Skip:   []string{"model.mtp."},
	Fixed: lang.Fixed{{"attention_bias", "false"}, {"router_bias", "false"}, {"zero_expert_type", "identity"},
		{"mla_scale_q_lora mla_scale_kv_lora", "true"}},
}

// widened returns the factor of a latent of some rank: the root of how much wider the residual is.
func widened(rank string) func(*hf.Config) float64 {
	return func(c *hf.Config) float64 {
		return math.Sqrt(float64(c.Count("hidden_size")) / float64(max(c.Count(rank), 1)))
	}
}

// halfOf matches the names of the tensors of a layer's halves: what is before the number of the layer, that number, the
// name, the number of the half, and what follows.
var (
	halfOf = regexp.MustCompile(
		`^(.*layers\.)(\d{1,6})\.(self_attn|mlps|input_layernorm|post_attention_layernorm)\.([01])\.(.+)$`)
	expertOf = regexp.MustCompile(`^(.*layers\.)(\d{1,6})\.(mlp\.(?:experts\.(\d{1,6})\.)?.+)$`)
)

// longcatName numbers the halves of layers, and leaves out what checkpoints have of experts that return their input.
func longcatName(c *hf.Config, name string) string {
	if m := halfOf.FindStringSubmatch(name); m != nil {
		layer, _ := hf.Digits(m[2])
		half, _ := hf.Digits(m[4])
		module := m[3]
		if module == "mlps" {
			module = "mlp"
		}
		return fmt.Sprintf("%s%d.%s.%s", m[1], 2*layer+half, module, m[5])
	}
	m := expertOf.FindStringSubmatch(name)
	if m == nil {
		return name
	}
	layer, _ := hf.Digits(m[2])
	if e, ok := hf.Digits(m[4]); ok && e >= c.Experts() {
		return fmt.Sprintf("%s%d.returned", m[1], 2*layer)
	}
	return fmt.Sprintf("%s%d.%s", m[1], 2*layer, m[3])
}
