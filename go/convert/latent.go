package convert

import (
	"fmt"
)

// latent is attention whose keys and values are kept as one vector.
var latent = rules{
	{"self_attn.q_a_proj", "attn_q_a", nil},
	{"self_attn.q_a_layernorm", "attn_q_a_norm", nil},
	{"self_attn.q_b_proj", "attn_q_b", nil},
	{"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", nil},
	{"self_attn.kv_a_layernorm", "attn_kv_a_norm", nil},
	{"self_attn.kv_b_proj", "attn_k_b attn_v_b", keysValues},
}

var latentSettings = routedSettings.And(settings{{"attention.q_lora_rank", 'n', "q_lora_rank"}})

// keysValues splits the matrix that makes keys and values of the vector by heads; keys become what queries are multiplied by.
var keysValues op = func(c *config, in []view) ([]view, error) {
	v := in[0]
	heads, nope, value := uint64(c.heads()), uint64(c.count("qk_nope_head_dim")), uint64(c.count("v_head_dim"))
	if len(v.shape) != 2 || v.shape[0] != heads*(nope+value) {
		return nil, fmt.Errorf("the shape %v, want %d rows", v.shape, heads*(nope+value))
	}
	rank := v.shape[1]
	each := (nope + value) * rank
	return []view{
		v.strided(0, dim{heads, each}, dim{rank, 1}, dim{nope, rank}),
		v.strided(nope*rank, dim{heads, each}, dim{value, rank}, dim{rank, 1}),
	}, nil
}

func latentKeys(k *keys) {
	rank, turning, nope := k.countOr("kv_lora_rank", 512), k.count("qk_rope_head_dim"), k.count("qk_nope_head_dim")
	k.n("attention.head_count_kv", 1)
	k.n("attention.kv_lora_rank", rank)
	k.n("attention.key_length", rank+turning)
	k.n("attention.value_length", rank)
	k.n("attention.key_length_mla", nope+turning)
	k.n("attention.value_length_mla", k.count("v_head_dim"))
	k.n("rope.dimension_count", turning)
	k.f("attention.layer_norm_rms_epsilon", k.numberOr("rms_norm_eps", 1e-6))
	vocabSize(k)
	if !k.has("first_k_dense_replace") && k.experts() > 0 {
		k.n("leading_dense_block_count", 0)
	} else if k.experts() == 0 {
		k.n("leading_dense_block_count", k.layers())
	}
	k.gating("")
	r := k.ropeOf("full_attention")
	if r.has("mscale_all_dim") {
		k.f("rope.scaling.yarn_log_multiplier", 0.1*r.number("mscale_all_dim"))
	}
	k.config.take(r)
}
