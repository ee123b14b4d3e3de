package convert

import (
	"math"
	"slices"
)

var jais = Family{
	Arch:  "jais",
	Names: "JAISLMHeadModel",
	Rules: Rules{ // whose matrices are the other way round
		{"wte", "token_embd", Times(jaisEmbeddings)},
		{"lm_head", "output", Times(jaisOutput)},
		{"attn.c_attn.weight", "attn_qkv.weight", Transpose},
		{"attn.c_proj.weight", "attn_output.weight", Transpose},
		{"mlp.c_fc.weight", "ffn_up.weight", Transpose},
		{"mlp.c_fc2.weight", "ffn_gate.weight", Transpose},
		{"mlp.c_fc2", "ffn_gate", nil},
		{"mlp.c_proj.weight", "ffn_down.weight", Transpose},
		{"relative_pe.slopes", "", nil}, // see jaisSlopes
	}.And(gpt),
	Keys: func(k *Keys) {
		k.Want("activation_function", "swiglu")
		k.Want("position_embedding_type", "alibi")
		k.N("attention.head_count_kv", k.Heads())
	},
	Change: jaisTied,
	Finish: jaisSlopes,
}

// jaisEmbeddings and jaisOutput are what Jais multiplies embeddings and logits by.
func jaisEmbeddings(c *Config) float64 { return c.Number("mup_embeddings_scale embeddings_scale") }

func jaisOutput(c *Config) float64 {
	if c.Has("mup_output_alpha") {
		return c.Number("mup_output_alpha") * c.Number("mup_width_scale")
	}
	return c.Number("width_scale")
}

// jaisTied makes of the embeddings, where the output shares them, two matrices: each has a factor of its own. Its config.json says
// only where it does not.
func jaisTied(c *Config, f *Family) *Family {
	if !c.FlagOr("tie_word_embeddings", true) {
		return f
	}
	c.Put("tie_word_embeddings", true)
	kind := *f
	kind.Rules = Rules{{"wte", "token_embd output", func(c *Config, in []View) ([]View, error) {
		a, err := Times(jaisEmbeddings)(c, in)
		if err != nil {
			return nil, err
		}
		b, err := Times(jaisOutput)(c, in)
		return slices.Concat(a, b), err
	}}}.And(f.Rules)
	return &kind
}

// jaisSlopes sets the largest slope of ALiBi, of which the checkpoint has those of all heads.
func jaisSlopes(d *Draft, k *Keys) {
	bias := 8.0
	if t := d.Weights.Tensor("transformer.relative_pe.slopes"); t != nil && t.Elems() > 0 {
		one := make([]float32, 1)
		if err := t.Floats(one, 0); err != nil {
			k.Fail("%s", err)
			return
		}
		heads := math.Exp2(math.Floor(math.Log2(float64(max(k.Heads(), 1)))))
		if bias = -math.Round(math.Log2(float64(one[0])) * heads); !(bias > 0 && bias < 1e6) {
			k.Fail("the first slope is %v, want one between 0 and 1", one[0])
		}
	}
	k.F("attention.max_alibi_bias", bias)
}
