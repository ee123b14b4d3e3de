package convert

import (
	"strings"
)

var rwkv6 = family{
	arch:  "rwkv6",
	names: "Rwkv6ForCausalLM",
	rules: rwkv6TimeMix("attention.").And(rules{
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
	settings: settings{{"wkv.head_size", 'n', "head_size"}, {"rescale_every_n_layers", 'n', "rescale_every"}},
	keys: func(k *keys) {
		rwkvKeys(k)
		if !k.has("intermediate_size") {
			k.n("feed_forward_length", k.count("hidden_size")*7/2/32*32)
		}
	},
	rename: func(_ *config, name string) string { return strings.Replace(name, "blocks.0.pre_ln.", "pre_ln.", 1) },
	prefix: "rwkv.",
	finish: rwkv6Ranks,
	vocab:  worldVocab,
}

var rwkv6qwen2 = family{
	arch:  "rwkv6qwen2",
	names: "RWKV6Qwen2ForCausalLM",
	rules: rules{
		{"self_attn.time_maa_w1", "time_mix_w1.weight", then(transpose, rwkv6Order)},
		{"self_attn.time_maa_w2", "time_mix_w2.weight", then(transpose, rwkv6Order)},
		{"self_attn.q_proj", "time_mix_receptance", nil},
		{"self_attn.k_proj", "time_mix_key", nil},
		{"self_attn.v_proj", "time_mix_value", nil},
		{"self_attn.o_proj", "time_mix_output", nil},
	}.And(rwkv6TimeMix("self_attn.")).And(ends, attention, dense),
	keys: func(k *keys) {
		rwkvKeys(k)
		k.n("wkv.head_size", k.headDim())
		k.n("attention.head_count_kv", k.headsKV())
		k.n("token_shift_count", 1)
		k.drop("attention.key_length", "attention.value_length")
	},
	finish: rwkv6Ranks,
}

// rwkv6TimeMix is the time mixing of RWKV 6, under a prefix.
func rwkv6TimeMix(at string) rules {
	var shares []string
	for _, of := range "wkvrg" {
		shares = append(shares, at+"time_maa_"+string(of))
	}
	return rules{
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

// rescaled makes matrices of later layers smaller, as what they are added to is halved every few layers.
var rescaled = one(func(c *config, v view) (view, error) {
	every := c.countOr("rescale_every", 0)
	if every == 0 {
		return v, nil
	}
	by := 1 / float32(uint64(1)<<min(max(c.layer, 0)/every, 62))
	return v.each(func(x float32) float32 { return x * by }), nil
})

// rwkv6Order brings the inputs of RWKV 6 that lie in the order r k v w g into the order w k v r g.
var rwkv6Order = one(func(_ *config, v view) (view, error) {
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

// rwkv6Ranks reads the ranks of the products that make shares and decays off their shapes.
func rwkv6Ranks(d *draft, k *keys) {
	rank(d, k, "time_mix_extra_dim", "blk.0.time_mix_w1.weight", 5)
	rank(d, k, "time_decay_extra_dim", "blk.0.time_mix_decay_w1.weight", 1)
}
