package family

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var rwkv7 = lang.Family{
	Arch:  "rwkv7",
	Names: "RWKV7ForCausalLM Rwkv7ForCausalLM",
	Rules: gooseMix("attn.").And(lang.Rules{
		{"embeddings", "token_embd", nil},
		{"pre_norm", "token_embd_norm", nil},
		{"norm", "output_norm", nil},
		{"lm_head", "output", nil},
		{"attn_norm", "attn_norm", nil},
		{"ffn_norm", "attn_norm_2", nil},
		{"attn.g_norm", "time_mix_ln", nil},
		{"ffn.x_k", "channel_mix_lerp_k.weight", lang.Squeeze},
		{"ffn.key", "channel_mix_key", nil},
		{"ffn.value", "channel_mix_value", nil},
	}),
	Settings: lang.Settings{{"wkv.head_size", 'n', "head_size head_dim"},
		{"attention.layer_norm_epsilon", 'f', "norm_eps layer_norm_epsilon"}},
	Keys: func(k *lang.Keys) {
		rwkvKeys(k)
		k.Drop("attention.layer_norm_rms_epsilon", "attention.key_length", "attention.value_length")
		if !k.Has("intermediate_size") {
			k.N("feed_forward_length", 4*k.Count("hidden_size"))
		}
	},
	Rename: gooseName,
	Change: ungated,
	Finish: gooseRanks,
	Vocab:  worldVocab,
}

var arwkv7 = lang.Family{
	Arch:  "arwkv7",
	Names: "RwkvHybridForCausalLM",
	Rules: gooseMix("self_attn.time_mixer.").And(lang.Rules{
		{"self_attn.time_mixer.g_norm", "time_mix_ln", nil},
		{"self_attn.time_mixer.ln_x", "time_mix_ln", nil},
	}, ends, attention, dense),
	Settings: lang.Settings{{"wkv.head_size", 'n', "head_size"}},
	Keys: func(k *lang.Keys) {
		rwkvKeys(k)
		k.N("token_shift_count", 1)
		k.Drop("attention.key_length", "attention.value_length")
		k.Want("wkv_version", "7")
	},
	Rename: gooseName,
	Change: ungated,
	Finish: gooseRanks,
}

// gooseMix is the time mixing of RWKV 7, whose names have this prefix.
func gooseMix(at string) lang.Rules {
	rules := lang.Rules{
		gooseShares(at, "rwkvag"),
		{at + "x_x", "time_mix_lerp_fused.weight", apart},
		{at + "k_k", "time_mix_k_k.weight", lang.Squeeze},
		{at + "k_a", "time_mix_k_a.weight", lang.Squeeze},
		{at + "r_k", "time_mix_r_k.weight", lang.Flat},
		{at + "r_proj", "time_mix_receptance", nil},
		{at + "k_proj", "time_mix_key", nil},
		{at + "v_proj", "time_mix_value", nil},
		{at + "o_proj", "time_mix_output", nil},
	}
	for _, of := range []string{"w", "a", "v", "g"} {
		rules = append(rules,
			lang.Rule{at + of + "_lora.first.weight", "time_mix_" + of + "1.weight", nil},
			lang.Rule{at + of + "_lora.second.weight", "time_mix_" + of + "2.weight", nil},
			lang.Rule{at + of + "_lora.second.bias", "time_mix_" + of + "0.weight", nil})
	}
	return rules
}

// gooseName names the two factors of low-rank products, which checkpoints number, and moves the norm of embeddings out
// of the first layer.
func gooseName(_ *hf.Config, name string) string {
	return strings.NewReplacer("layers.0.pre_norm.", "pre_norm.", "_lora.lora.0.", "_lora.first.", "_lora.lora.2.",
		"_lora.second.").Replace(name)
}

// gooseShares is the rule for the shares of the previous token in these inputs.
func gooseShares(at, inputs string) lang.Rule {
	var names []string
	for _, of := range inputs {
		names = append(names, at+"x_"+string(of))
	}
	return lang.Rule{strings.Join(names, " "), "time_mix_lerp_fused.weight", fused}
}

// ungated returns rules with one input less for models without gates.
func ungated(c *hf.Config, f *lang.Family) *lang.Family {
	if c.FlagOr("wkv_has_gate", true) {
		return f
	}
	kind := *f
	kind.Rules = lang.Rules{gooseShares("self_attn.time_mixer.", "rwkva"), gooseShares("attn.", "rwkva")}.And(f.Rules)
	return &kind
}

// gooseRanks sets the ranks of low-rank products. It also copies tensors for the first layer, which has no values of a
// layer before it: they must exist, and nothing reads them.
func gooseRanks(d *lang.Draft, k *lang.Keys) {
	for _, i := range []string{"0", "1", "2"} {
		to := "blk.0.time_mix_v" + i + ".weight"
		if from := d.Target("blk.0.time_mix_a" + i + ".weight"); from != nil && d.Target(to) == nil {
			t := *from
			t.Name = to
			d.Targets = append(d.Targets, &t)
		}
	}
	rank(d, k, "attention.decay_lora_rank", "blk.0.time_mix_w1.weight", 1)
	rank(d, k, "attention.iclr_lora_rank", "blk.0.time_mix_a1.weight", 1)
	rank(d, k, "attention.value_residual_mix_lora_rank", "blk.0.time_mix_v1.weight", 1)
	if d.Target("blk.0.time_mix_g1.weight") != nil {
		rank(d, k, "attention.gate_lora_rank", "blk.0.time_mix_g1.weight", 1)
	}
}
