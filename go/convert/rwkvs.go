package convert

import (
	"fmt"
	"slices"
	"strings"
)

// rwkvs are models whose time mixing is RWKV's.
var rwkvs = []family{
	{
		arch:  "rwkv6",
		names: "Rwkv6ForCausalLM",
		rules: slices.Concat(finchMix("attention."), []rule{
			{"embeddings", "token_embd", nil},
			{"pre_ln", "token_embd_norm", nil},
			{"ln_out", "output_norm", nil},
			{"head", "output", nil},
			{"ln1", "attn_norm", nil},
			{"ln2", "attn_norm_2", nil},
			{"attention.time_faaaa", "time_mix_first.weight", nil},
			{"attention.ln_x", "time_mix_ln", nil},
			{"feed_forward.time_maa_k", "channel_mix_lerp_k.weight", squeeze},
			{"feed_forward.time_maa_r", "channel_mix_lerp_r.weight", squeeze},
			{"feed_forward.key", "channel_mix_key", nil},
			{"feed_forward.value", "channel_mix_value", rescaled},
			{"feed_forward.receptance", "channel_mix_receptance", nil},
		}),
		settings: []setting{{"wkv.head_size", 'n', "head_size"}, {"rescale_every_n_layers", 'n', "rescale_every"}},
		keys: func(k *keys) {
			rwkvKeys(k)
			if !k.has("intermediate_size") {
				k.n("feed_forward_length", k.count("hidden_size")*7/2/32*32)
			}
		},
		rename: func(_ *config, name string) string { return strings.Replace(name, "blocks.0.pre_ln.", "pre_ln.", 1) },
		prefix: "rwkv.",
		finish: finchRanks,
		vocab:  worldVocab,
	},
	{
		arch:  "rwkv6qwen2",
		names: "RWKV6Qwen2ForCausalLM",
		rules: slices.Concat(with(finchMix("self_attn."),
			rule{"self_attn.time_maa_w1", "time_mix_w1.weight", then(transpose, finchOrder)},
			rule{"self_attn.time_maa_w2", "time_mix_w2.weight", then(transpose, finchOrder)},
			rule{"self_attn.q_proj", "time_mix_receptance", nil},
			rule{"self_attn.k_proj", "time_mix_key", nil},
			rule{"self_attn.v_proj", "time_mix_value", nil},
			rule{"self_attn.o_proj", "time_mix_output", nil}), ends, attention, dense),
		keys: func(k *keys) {
			rwkvKeys(k)
			k.n("wkv.head_size", k.headDim())
			k.n("attention.head_count_kv", k.headsKV())
			k.n("token_shift_count", 1)
			k.drop("attention.key_length", "attention.value_length")
		},
		finish: finchRanks,
	},
	{
		arch:  "rwkv7",
		names: "RWKV7ForCausalLM Rwkv7ForCausalLM",
		rules: slices.Concat(gooseMix("attn."), []rule{
			{"embeddings", "token_embd", nil},
			{"pre_norm", "token_embd_norm", nil},
			{"norm", "output_norm", nil},
			{"lm_head", "output", nil},
			{"attn_norm", "attn_norm", nil},
			{"ffn_norm", "attn_norm_2", nil},
			{"attn.g_norm", "time_mix_ln", nil},
			{"ffn.x_k", "channel_mix_lerp_k.weight", squeeze},
			{"ffn.key", "channel_mix_key", nil},
			{"ffn.value", "channel_mix_value", nil},
		}),
		settings: []setting{{"wkv.head_size", 'n', "head_size head_dim"}, {"attention.layer_norm_epsilon", 'f', "norm_eps layer_norm_epsilon"}},
		keys: func(k *keys) {
			rwkvKeys(k)
			k.drop("attention.layer_norm_rms_epsilon", "attention.key_length", "attention.value_length")
			if !k.has("intermediate_size") {
				k.n("feed_forward_length", 4*k.count("hidden_size"))
			}
		},
		rename: gooseName,
		change: ungated,
		finish: gooseRanks,
		vocab:  worldVocab,
	},
	{
		arch:  "arwkv7",
		names: "RwkvHybridForCausalLM",
		rules: slices.Concat(gooseMix("self_attn.time_mixer."), []rule{
			{"self_attn.time_mixer.g_norm", "time_mix_ln", nil},
			{"self_attn.time_mixer.ln_x", "time_mix_ln", nil},
		}, ends, attention, dense),
		settings: []setting{{"wkv.head_size", 'n', "head_size"}},
		keys: func(k *keys) {
			rwkvKeys(k)
			k.n("token_shift_count", 1)
			k.drop("attention.key_length", "attention.value_length")
			k.want("wkv_version", "7")
		},
		rename: gooseName,
		change: ungated,
		finish: gooseRanks,
	},
}

// finchMix is the time mixing of RWKV 6, under a prefix.
func finchMix(at string) []rule {
	var shares []string
	for _, of := range "wkvrg" {
		shares = append(shares, at+"time_maa_"+string(of))
	}
	return []rule{
		{strings.Join(shares, " "), "time_mix_lerp_fused.weight", fused},
		{at + "time_maa_x", "time_mix_lerp_x.weight", squeeze},
		{at + "time_maa_w1", "time_mix_w1.weight", transpose},
		{at + "time_maa_w2", "time_mix_w2.weight", transpose},
		{at + "time_decay", "time_mix_decay.weight", squeeze},
		{at + "time_decay_w1", "time_mix_decay_w1.weight", transpose},
		{at + "time_decay_w2", "time_mix_decay_w2.weight", transpose},
		{at + "receptance", "time_mix_receptance", nil},
		{at + "key", "time_mix_key", nil},
		{at + "value", "time_mix_value", nil},
		{at + "gate", "time_mix_gate", nil},
		{at + "output", "time_mix_output", rescaled},
	}
}

// gooseMix is the time mixing of RWKV 7, under a prefix.
func gooseMix(at string) []rule {
	rules := []rule{
		gooseShares(at, "rwkvag"),
		{at + "x_x", "time_mix_lerp_fused.weight", apart},
		{at + "k_k", "time_mix_k_k.weight", squeeze},
		{at + "k_a", "time_mix_k_a.weight", squeeze},
		{at + "r_k", "time_mix_r_k.weight", flat},
		{at + "r_proj", "time_mix_receptance", nil},
		{at + "k_proj", "time_mix_key", nil},
		{at + "v_proj", "time_mix_value", nil},
		{at + "o_proj", "time_mix_output", nil},
	}
	for _, of := range []string{"w", "a", "v", "g"} {
		rules = append(rules,
			rule{at + of + "_lora.first.weight", "time_mix_" + of + "1.weight", nil},
			rule{at + of + "_lora.second.weight", "time_mix_" + of + "2.weight", nil},
			rule{at + of + "_lora.second.bias", "time_mix_" + of + "0.weight", nil})
	}
	return rules
}

// gooseName names what checkpoints number: the two products of a low rank. The norm of embeddings is none of the first layer's.
func gooseName(_ *config, name string) string {
	return strings.NewReplacer("layers.0.pre_norm.", "pre_norm.", "_lora.lora.0.", "_lora.first.", "_lora.lora.2.", "_lora.second.").Replace(name)
}

// gooseShares is the shares of the token before in these inputs.
func gooseShares(at, inputs string) rule {
	var names []string
	for _, of := range inputs {
		names = append(names, at+"x_"+string(of))
	}
	return rule{strings.Join(names, " "), "time_mix_lerp_fused.weight", fused}
}

// ungated is for models without gates, which have an input less.
func ungated(c *config, f *family) *family {
	if gated, set := c.m["wkv_has_gate"].(bool); gated || !set {
		return f
	}
	kind := *f
	kind.rules = with(f.rules, gooseShares("self_attn.time_mixer.", "rwkva"), gooseShares("attn.", "rwkva"))
	return &kind
}

// fused puts the shares of the token before, one tensor for each input, into one.
var fused op = func(c *config, in []view) ([]view, error) {
	rows := make([]view, len(in))
	for i, v := range in {
		rows[i] = v.squeezed()
	}
	v, err := stacked(rows)
	if err != nil {
		return nil, err
	}
	return apart(c, []view{v})
}

// apart returns such a tensor in GGUF's layout, with dimensions of 1 between inputs and channels.
var apart = one(func(_ *config, v view) (view, error) {
	v = v.squeezed()
	if len(v.shape) != 2 {
		return view{}, fmt.Errorf("the shape %v, want shares by inputs and channels", v.shape)
	}
	return v.as(v.shape[0], 1, 1, v.shape[1])
})

// rescaled makes matrices of later layers smaller, as what they are added to is halved every few layers.
var rescaled = one(func(c *config, v view) (view, error) {
	every := c.countOr("rescale_every", 0)
	if every == 0 {
		return v, nil
	}
	by := 1 / float32(uint64(1)<<min(max(c.layer, 0)/every, 62))
	return v.each(func(x float32) float32 { return x * by }), nil
})

// finchOrder brings the inputs of RWKV 6 that lie in the order r k v w g into the order w k v r g.
var finchOrder = one(func(_ *config, v view) (view, error) {
	parts, err := cutAxis(v, 0, 5, false)
	if err != nil {
		return view{}, err
	}
	all, err := joined(parts[3], parts[1], parts[2], parts[0], parts[4])
	if err != nil {
		return view{}, err
	}
	return all.as(v.shape...)
})

// rwkvKeys has what models without attention say in its place.
func rwkvKeys(k *keys) {
	k.n("context_length", 1<<20)
	k.n("attention.head_count", 0)
	k.drop("attention.head_count_kv", "rope.freq_base")
}

// finchRanks reads the ranks of the products that make shares and decays off their shapes.
func finchRanks(m *Model, k *keys) {
	m.rank(k, "time_mix_extra_dim", "blk.0.time_mix_w1.weight", 5)
	m.rank(k, "time_decay_extra_dim", "blk.0.time_mix_decay_w1.weight", 1)
}

// gooseRanks does so for RWKV 7, and has something where the first layer has no values of a layer before, which nobody reads.
func gooseRanks(m *Model, k *keys) {
	for _, i := range []string{"0", "1", "2"} {
		to := "blk.0.time_mix_v" + i + ".weight"
		if from := m.target("blk.0.time_mix_a" + i + ".weight"); from != nil && m.target(to) == nil {
			t := *from
			t.name = to
			m.targets = append(m.targets, &t)
		}
	}
	m.rank(k, "attention.decay_lora_rank", "blk.0.time_mix_w1.weight", 1)
	m.rank(k, "attention.iclr_lora_rank", "blk.0.time_mix_a1.weight", 1)
	m.rank(k, "attention.value_residual_mix_lora_rank", "blk.0.time_mix_v1.weight", 1)
	if m.target("blk.0.time_mix_g1.weight") != nil {
		m.rank(k, "attention.gate_lora_rank", "blk.0.time_mix_g1.weight", 1)
	}
}

// rank sets a key to the rows of a tensor in each of its parts.
func (m *Model) rank(k *keys, key, name string, parts uint64) {
	t := m.target(name)
	if t == nil || len(t.dims) != 2 {
		k.fail("there is no matrix %s, of which %s is read", name, key)
		return
	}
	k.n(key, int(t.dims[1]/parts))
}
