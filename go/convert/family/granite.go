package family

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var granite = lang.Family{
	Arch:     "granite",
	Names:    "GraniteForCausalLM",
	Rules:    ends.And(pairs, dense),
	Settings: graniteSettings,
	Keys:     graniteKeys,
}

var granitemoe = lang.Family{
	Arch:  "granitemoe",
	Names: "GraniteMoeForCausalLM GraniteMoeSharedForCausalLM",
	Rules: graniteExperts.And(ends, pairs, dense),
	Settings: graniteSettings.And(lang.Settings{{"expert_shared_feed_forward_length", 'n',
		"shared_intermediate_size"}}),
	Keys: graniteKeys,
}

var granitehybrid = lang.Family{
	Arch:   "granitehybrid",
	Names:  "GraniteMoeHybridForCausalLM",
	Rules:  graniteExperts.And(mambaScan, ends, pairs, dense),
	Change: graniteKind,
	Settings: graniteSettings.And(lang.Settings{
		{"expert_shared_feed_forward_length", 'n', "shared_intermediate_size"},
	}).And(hybridSettings),
	Keys: func(k *lang.Keys) {
		graniteKeys(k)
		hybridKeys(k)
		stepLimits(k)
	},
	Fixed: scanAct,
}

// bamba is Granite's hybrid under other names, with rotations of half of each head.
var bamba = lang.Family{
	Arch:  "granitehybrid",
	Names: "BambaForCausalLM",
	Rules: lang.Rules{
		{"final_layernorm", "output_norm", nil},
		{"pre_ff_layernorm", "ffn_norm", nil},
		{"self_attn.q_proj", "attn_q", partlyPaired((*hf.Config).Heads)},
		{"self_attn.k_proj", "attn_k", partlyPaired((*hf.Config).HeadsKV)},
	}.And(feedForward, mambaScan, ends, attention),
	Settings: hybridSettings,
	Keys: func(k *lang.Keys) {
		vocabSize(k)
		rotating(k, 0.5)
		attends := make([]bool, k.Layers())
		for _, il := range k.Integers("attn_layer_indices", k.List("attn_layer_indices")) {
			if int(il) >= len(attends) {
				k.Fail("attn_layer_indices has %d, and there are %d layers", il, len(attends))
				return
			}
			attends[il] = true
		}
		k.Ns("attention.head_count_kv", lang.Where(attends, k.HeadsKV(), 0))
		k.N("ssm.inner_size", k.CountOr("mamba_expand", 2)*k.Count("hidden_size"))
		stepLimits(k)
	},
	Fixed: scanAct,
}

// partlyPaired is lang.Permute of the channels of each head that rotate: the first half, unless config.json says otherwise.
func partlyPaired(heads func(*hf.Config) int) lang.Op {
	return lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
		rows, each := v.Rows()
		h := uint64(max(heads(c), 1))
		d := rows / h
		n := uint64(float64(d) * c.Partial(0.5))
		if rows != h*d || n < 2 || n%2 != 0 || n > d {
			return lang.View{}, fmt.Errorf("%d rows for %d heads, of which %d channels rotate", rows, h, n)
		}
		rotated, err := v.Strided(0, lang.Dim{h, d * each}, lang.Dim{n / 2, each}, lang.Dim{2, n / 2 * each},
			lang.Dim{each, 1}).As(h, n*each)
		if err != nil || n == d {
			rotated.Shape = v.Shape
			return rotated, err
		}
		both, err := lang.Beside(rotated, v.Strided(n*each, lang.Dim{h, d * each}, lang.Dim{(d - n) * each, 1}))
		if err != nil {
			return lang.View{}, err
		}
		return both.As(v.Shape...)
	})
}

var graniteSWA = lang.Family{
	Arch:  "granite_swa",
	Names: "GraniteSWAForCausalLM GraniteMoeSWAForCausalLM",
	Rules: lang.Rules{
		{"self_attn.sinks", "attn_sinks.weight", nil},
		{"block_sparse_moe.router", "ffn_gate_inp", nil},
		{"block_sparse_moe.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", lang.Halves},
		{"block_sparse_moe.experts.down_proj", "ffn_down_exps.weight", nil},
		{"shared_mlp.input_linear", "ffn_up_shexp", nil}, // this one is not split
	}.And(graniteExperts, ends, pairs, dense),
	Settings: graniteSettings.And(lang.Settings{
		{"expert_shared_feed_forward_length", 'n', "shared_intermediate_size"},
		{"attention.sliding_window", 'n', "sliding_window"},
	}),
	Keys: func(k *lang.Keys) {
		graniteKeys(k)
		k.Bs("attention.sliding_window_pattern", k.TypesOf("sliding_attention"))
		if rotates, base := layerBases(k); rotates != nil {
			k.F("rope.freq_base", base)
			k.Bs("attention.rope_pattern", rotates)
		}
	},
}

var graniteSettings = lang.Settings{
	{"attention.scale", 'f', "attention_multiplier"},
	{"embedding_scale", 'f', "embedding_multiplier"},
	{"residual_scale", 'f', "residual_multiplier"},
	{"logit_scale", 'f', "logits_scaling"},
}

// hybridSettings are of state spaces of the second kind.
var hybridSettings = lang.Settings{
	{"ssm.conv_kernel", 'n', "mamba_d_conv"},
	{"ssm.state_size", 'n', "mamba_d_state"},
	{"ssm.group_count", 'n', "mamba_n_groups"},
	{"ssm.time_step_rank", 'n', "mamba_n_heads"},
}

// sharedDense is the feed-forward network of models without experts.
var sharedDense = lang.Rules{
	{"shared_mlp.input_linear", "ffn_gate ffn_up", lang.Halves},
	{"shared_mlp.output_linear", "ffn_down", nil},
}

// graniteExperts is experts in one tensor, and the network that is used for every token.
var graniteExperts = lang.Rules{
	{"block_sparse_moe.router.layer", "ffn_gate_inp", nil},
	{"block_sparse_moe.input_linear", "ffn_gate_exps ffn_up_exps", lang.Halves},
	{"block_sparse_moe.output_linear", "ffn_down_exps", nil},
	{"shared_mlp.input_linear", "ffn_gate_shexp ffn_up_shexp", lang.Halves},
	{"shared_mlp.output_linear", "ffn_down_shexp", nil},
}

// graniteKeys sets what all kinds of Granite have.
func graniteKeys(k *lang.Keys) {
	commonKeys(k)
	k.Drop("attention.key_length", "attention.value_length")
	if k.Experts() == 0 {
		k.Drop("expert_count", "expert_used_count")
	}
}

// graniteKind returns another architecture if no layer is a scan, and other rules if there are no experts.
func graniteKind(c *hf.Config, f *lang.Family) *lang.Family {
	scans := slices.Contains(c.TypesOf("mamba"), true)
	kind := *f
	dense := lang.Settings{}
	if c.Experts() == 0 {
		kind.Rules = sharedDense.And(f.Rules)
		dense = lang.Settings{{"feed_forward_length", 'n', "shared_intermediate_size"}}
	}
	if !scans {
		kind.Arch, kind.Keys = "granite", graniteKeys
		if c.Experts() > 0 {
			kind.Arch = "granitemoe"
		}
		kind.Settings = graniteSettings.And(f.Settings[4:5])
	}
	kind.Settings = kind.Settings.And(dense)
	return &kind
}

// hybridKeys sets which layers have attention.
func hybridKeys(k *lang.Keys) {
	attends := k.TypesOf("attention")
	k.Ns("attention.head_count_kv", lang.Where(attends, k.HeadsKV(), 0))
	inner := k.Count("mamba_n_heads") * k.Count("mamba_d_head")
	k.N("ssm.inner_size", inner)
	rotates := k.Text("position_embedding_type") == "rope"
	k.B("rope.scaling.finetuned", rotates)
	if !rotates {
		k.Drop("rope.freq_base")
	}
}
