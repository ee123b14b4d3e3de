package family

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var rwkv6 = lang.Family{
	Arch:  "rwkv6",
	Names: "Rwkv6ForCausalLM",
	Rules: rwkv6TimeMix("attention.").And(lang.Rules{
		{"embeddings", "token_embd", nil},
		{"pre_ln", "token_embd_norm", nil},
		{"ln_out", "output_norm", nil},
		{"head", "output", nil},
		{"ln1", "attn_norm", nil},
		{"ln2", "attn_norm_2", nil},
		{"attention.time_faaaa", "time_mix_first.weight", nil},
		{"attention.ln_x", "time_mix_ln", nil},
		{"feed_forward.time_maa_k", "channel_mix_lerp_k.weight", lang.Squeeze},
		{"feed_forward.time_maa_r", "channel_mix_lerp_r.weight", lang.Squeeze},
		{"feed_forward.key", "channel_mix_key", nil},
		{"feed_forward.value", "channel_mix_value", rescaled},
		{"feed_forward.receptance", "channel_mix_receptance", nil},
	}),
	Settings: lang.Settings{{"wkv.head_size", 'n', "head_size"}, {"rescale_every_n_layers", 'n', "rescale_every"}},
	Keys: func(k *lang.Keys) {
		rwkvKeys(k)
		if !k.Has("intermediate_size") {
			k.N("feed_forward_length", k.Count("hidden_size")*7/2/32*32)
		}
	},
	Rename: func(_ *hf.Config, name string) string { return strings.Replace(name, "blocks.0.pre_ln.", "pre_ln.", 1) },
	Prefix: "rwkv.",
	Finish: rwkv6Ranks,
	Vocab:  worldVocab,
}

var rwkv6qwen2 = lang.Family{
	Arch:  "rwkv6qwen2",
	Names: "RWKV6Qwen2ForCausalLM",
	Rules: lang.Rules{
		{"self_attn.time_maa_w1", "time_mix_w1.weight", lang.Then(lang.Transpose, rwkv6Order)},
		{"self_attn.time_maa_w2", "time_mix_w2.weight", lang.Then(lang.Transpose, rwkv6Order)},
		{"self_attn.q_proj", "time_mix_receptance", nil},
		{"self_attn.k_proj", "time_mix_key", nil},
		{"self_attn.v_proj", "time_mix_value", nil},
		{"self_attn.o_proj", "time_mix_output", nil},
	}.And(rwkv6TimeMix("self_attn.")).And(ends, attention, dense),
	Keys: func(k *lang.Keys) {
		rwkvKeys(k)
		k.N("wkv.head_size", k.HeadDim())
		k.N("attention.head_count_kv", k.HeadsKV())
		k.N("token_shift_count", 1)
		k.Drop("attention.key_length", "attention.value_length")
	},
	Finish: rwkv6Ranks,
}

// rwkv6TimeMix is the time mixing of RWKV 6, whose names have this prefix.
func rwkv6TimeMix(at string) lang.Rules {
	var shares []string
	for _, of := range "wkvrg" {
		shares = append(shares, at+"time_maa_"+string(of))
	}
	return lang.Rules{
		{strings.Join(shares, " "), "time_mix_lerp_fused.weight", fused},
		{at + "time_maa_x", "time_mix_lerp_x.weight", lang.Squeeze},
		{at + "time_maa_w1", "time_mix_w1.weight", lang.Transpose},
		{at + "time_maa_w2", "time_mix_w2.weight", lang.Transpose},
		{at + "time_decay", "time_mix_decay.weight", lang.Squeeze},
		{at + "time_decay_w1", "time_mix_decay_w1.weight", lang.Transpose},
		{at + "time_decay_w2", "time_mix_decay_w2.weight", lang.Transpose},
		{at + "receptance", "time_mix_receptance", nil},
		{at + "key", "time_mix_key", nil},
		{at + "value", "time_mix_value", nil},
		{at + "gate", "time_mix_gate", nil},
		{at + "output", "time_mix_output", rescaled},
	}
}

// rescaled divides matrices of later layers by powers of two, since the residual stream is halved after every few
// layers.
var rescaled = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	every := c.CountOr("rescale_every", 0)
	if every == 0 {
		return v, nil
	}
	by := 1 / float32(uint64(1)<<min(max(c.Layer, 0)/every, 62))
	return v.Each(func(x float32) float32 { return x * by }), nil
})

// rwkv6Order reorders inputs from r k v w g to w k v r g.
var rwkv6Order = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	parts, err := lang.CutAxis(v, 0, 5, false)
	if err != nil {
		return lang.View{}, err
	}
	all, err := lang.Joined(parts[3], parts[1], parts[2], parts[0], parts[4])
	if err != nil {
		return lang.View{}, err
	}
	return all.As(v.Shape...)
})

// rwkv6Ranks sets the ranks of low-rank products by the shapes of their tensors.
func rwkv6Ranks(d *lang.Draft, k *lang.Keys) {
	rank(d, k, "time_mix_extra_dim", "blk.0.time_mix_w1.weight", 5)
	rank(d, k, "time_decay_extra_dim", "blk.0.time_mix_decay_w1.weight", 1)
}
