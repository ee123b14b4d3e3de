package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// latent is attention whose keys and values are stored as one vector.
var latent = lang.Rules{
	{"self_attn.q_a_proj", "attn_q_a", nil},
	{"self_attn.q_a_layernorm", "attn_q_a_norm", nil},
	{"self_attn.q_b_proj", "attn_q_b", nil},
	{"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", nil},
	{"self_attn.kv_a_layernorm", "attn_kv_a_norm", nil},
	{"self_attn.kv_b_proj", "attn_k_b attn_v_b", keysValues},
}

var latentSettings = routedSettings.And(lang.Settings{{"attention.q_lora_rank", 'n', "q_lora_rank"}})

// keysValues splits the matrix that makes the keys and values of all heads from that vector. The matrices of keys are
// transposed, since queries are multiplied by them.
var keysValues lang.Op = func(c *hf.Config, in []lang.View) ([]lang.View, error) {
	v := in[0]
	heads, nope, value := uint64(c.Heads()), uint64(c.Count("qk_nope_head_dim")), uint64(c.Count("v_head_dim"))
	if len(v.Shape) != 2 || v.Shape[0] != heads*(nope+value) {
		return nil, fmt.Errorf("the shape %v, want %d rows", v.Shape, heads*(nope+value))
	}
	rank := v.Shape[1]
	each := (nope + value) * rank
	return []lang.View{
		v.Strided(0, lang.Dim{heads, each}, lang.Dim{rank, 1}, lang.Dim{nope, rank}),
		v.Strided(nope*rank, lang.Dim{heads, each}, lang.Dim{value, rank}, lang.Dim{rank, 1}),
	}, nil
}

// latentKeys sets the sizes of such attention, and what its families say of their experts.
func latentKeys(k *lang.Keys) {
	rank, turning, nope := k.CountOr("kv_lora_rank", 512), k.Count("qk_rope_head_dim"), k.Count("qk_nope_head_dim")
	k.N("attention.head_count_kv", 1)
	k.N("attention.kv_lora_rank", rank)
	k.N("attention.key_length", rank+turning)
	k.N("attention.value_length", rank)
	k.N("attention.key_length_mla", nope+turning)
	k.N("attention.value_length_mla", k.Count("v_head_dim"))
	k.N("rope.dimension_count", turning)
	k.F("attention.layer_norm_rms_epsilon", k.NumberOr("rms_norm_eps", 1e-6))
	vocabSize(k)
	if !k.Has("first_k_dense_replace") && k.Experts() > 0 {
		k.N("leading_dense_block_count", 0)
	} else if k.Experts() == 0 {
		k.N("leading_dense_block_count", k.Layers())
	}
	k.Gating("")
	if k.Text("topk_method") == "greedy" { // whatever n_group is
		k.Drop("expert_group_count", "expert_group_used_count")
	}
	r := k.RopeOf("full_attention")
	if r.Has("mscale_all_dim") {
		k.F("rope.scaling.yarn_log_multiplier", 0.1*r.Number("mscale_all_dim"))
	}
	k.Config.Take(r)
}
