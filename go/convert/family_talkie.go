package convert

import "fmt"

var talkie = family{
	arch:  "talkie",
	names: "TalkieForCausalLM",
	rules: rules{
		{"embed", "token_embd", nil},
		{"lm_head", "output.weight", nil},
		{"lm_head_gain.w_g", "", nil}, // see talkieGain
		{"attn.attn_query", "attn_q", backwards},
		{"attn.attn_key", "attn_k", backwards},
		{"attn.attn_value", "attn_v", nil},
		{"attn.attn_resid", "attn_output", nil},
		{"attn.head_gain.head_g", "attn_q_norm.weight", column},
		{"attn_gain.a_g", "attn_output.scale", nil},
		{"mlp.mlp_gate", "ffn_gate", nil},
		{"mlp.mlp_linear", "ffn_up", nil},
		{"mlp.mlp_resid", "ffn_down", nil},
		{"mlp_gain.a_g", "ffn_down.scale", nil},
		{"embed_skip.a_g", "layer_output_scale.weight", nil},
	},
	keys: func(k *keys) {
		k.n("attention.head_count_kv", k.heads())
		k.n("attention.key_length", k.headDim())
		k.n("attention.value_length", k.headDim())
		rotating(k, 1)
		k.f("attention.layer_norm_rms_epsilon", 0x1p-23)
		if k.theta() == 0 {
			k.f("rope.freq_base", 1e6)
		}
	},
	finish: func(d *draft, k *keys) {
		widths(d, k)
		talkieGain(d, k)
	},
}

// backwards negates the second half of each head's channels: Talkie rotates the other way round.
var backwards = one(func(c *config, v view) (view, error) {
	rows, each := v.rows()
	d := uint64(c.headDim())
	if d == 0 || d%2 != 0 || rows%d != 0 {
		return view{}, fmt.Errorf("%d rows for heads of %d", rows, d)
	}
	read := v.read
	v.read = func(dst []float32, at uint64) error {
		if err := read(dst, at); err != nil {
			return err
		}
		for i := range dst {
			if (at+uint64(i))/each%d >= d/2 {
				dst[i] = -dst[i]
			}
		}
		return nil
	}
	return v, nil
})

// talkieGain sets what logits are multiplied by.
func talkieGain(d *draft, k *keys) {
	t := d.weights.Tensor("lm_head_gain.w_g")
	if t == nil {
		k.f("logit_scale", 1) // it is in the matrix
		return
	}
	one := make([]float32, 1)
	if t.Elems() != 1 {
		k.fail("lm_head_gain.w_g has %d numbers, want one", t.Elems())
	} else if err := t.Floats(one, 0); err != nil {
		k.fail("%s", err)
	}
	k.set("logit_scale", one[0])
}
