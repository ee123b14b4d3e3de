package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var talkie = lang.Family{
	Arch:  "talkie",
	Names: "TalkieForCausalLM",
	Rules: lang.Rules{
		{"embed", "token_embd", nil},
		{"lm_head", "output.weight", nil},
		{"lm_head_gain.w_g", "", nil}, // this becomes a key: see talkieGain
		{"attn.attn_query", "attn_q", backwards},
		{"attn.attn_key", "attn_k", backwards},
		{"attn.attn_value", "attn_v", nil},
		{"attn.attn_resid", "attn_output", nil},
		{"attn.head_gain.head_g", "attn_q_norm.weight", lang.Column},
		{"attn_gain.a_g", "attn_output.scale", nil},
		{"mlp.mlp_gate", "ffn_gate", nil},
		{"mlp.mlp_linear", "ffn_up", nil},
		{"mlp.mlp_resid", "ffn_down", nil},
		{"mlp_gain.a_g", "ffn_down.scale", nil},
		{"embed_skip.a_g", "layer_output_scale.weight", nil},
	},
	Keys: func(k *lang.Keys) {
		k.N("attention.head_count_kv", k.Heads())
		k.N("attention.key_length", k.HeadDim())
		k.N("attention.value_length", k.HeadDim())
		rotating(k, 1)
		k.F("attention.layer_norm_rms_epsilon", 0x1p-23)
		if k.Theta() == 0 {
			k.F("rope.freq_base", 1e6)
		}
	},
	Finish: func(d *lang.Draft, k *lang.Keys) {
		widths(d, k)
		talkieGain(d, k)
	},
}

// backwards negates the second half of each head's channels, since Talkie rotates in the other direction.
var backwards = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	rows, each := v.Rows()
	d := uint64(c.HeadDim())
	if d == 0 || d%2 != 0 || rows%d != 0 {
		return lang.View{}, fmt.Errorf("%d rows for heads of %d", rows, d)
	}
	read := v.Read
	v.Held = nil
	v.Read = func(dst []float32, at uint64) error {
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

// talkieGain sets the factor of logits.
func talkieGain(d *lang.Draft, k *lang.Keys) {
	t := d.Weights.Tensor("lm_head_gain.w_g")
	if t == nil {
		k.F("logit_scale", 1) // the factor is part of the matrix
		return
	}
	one := make([]float32, 1)
	if t.Elems() != 1 {
		k.Fail("lm_head_gain.w_g has %d numbers, want one", t.Elems())
	} else if err := t.Floats(one, 0); err != nil {
		k.Fail("%s", err)
	}
	k.Set("logit_scale", one[0])
}
