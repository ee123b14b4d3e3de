package convert

import (
	"math"
	"slices"
)

var jais = family{
	arch:  "jais",
	names: "JAISLMHeadModel",
	rules: rules{ // whose matrices are the other way round
		{"wte", "token_embd", times(jaisEmbeddings)},
		{"lm_head", "output", times(jaisOutput)},
		{"attn.c_attn.weight", "attn_qkv.weight", transpose},
		{"attn.c_proj.weight", "attn_output.weight", transpose},
		{"mlp.c_fc.weight", "ffn_up.weight", transpose},
		{"mlp.c_fc2.weight", "ffn_gate.weight", transpose},
		{"mlp.c_fc2", "ffn_gate", nil},
		{"mlp.c_proj.weight", "ffn_down.weight", transpose},
		{"relative_pe.slopes", "", nil}, // see jaisSlopes
	}.And(gpt),
	keys: func(k *keys) {
		k.want("activation_function", "swiglu")
		k.want("position_embedding_type", "alibi")
		k.n("attention.head_count_kv", k.heads())
	},
	change: jaisTied,
	finish: jaisSlopes,
}

// jaisEmbeddings and jaisOutput are what Jais multiplies embeddings and logits by.
func jaisEmbeddings(c *config) float64 { return c.number("mup_embeddings_scale embeddings_scale") }

func jaisOutput(c *config) float64 {
	if c.has("mup_output_alpha") {
		return c.number("mup_output_alpha") * c.number("mup_width_scale")
	}
	return c.number("width_scale")
}

// jaisTied makes of the embeddings, where the output shares them, two matrices: each has a factor of its own. Its config.json says
// only where it does not.
func jaisTied(c *config, f *family) *family {
	if !c.flagOr("tie_word_embeddings", true) {
		return f
	}
	c.put("tie_word_embeddings", true)
	kind := *f
	kind.rules = rules{{"wte", "token_embd output", func(c *config, in []view) ([]view, error) {
		a, err := times(jaisEmbeddings)(c, in)
		if err != nil {
			return nil, err
		}
		b, err := times(jaisOutput)(c, in)
		return slices.Concat(a, b), err
	}}}.And(f.rules)
	return &kind
}

// jaisSlopes sets the largest slope of ALiBi, of which the checkpoint has those of all heads.
func jaisSlopes(d *draft, k *keys) {
	bias := 8.0
	if t := d.weights.Tensor("transformer.relative_pe.slopes"); t != nil && t.Elems() > 0 {
		one := make([]float32, 1)
		if err := t.Floats(one, 0); err != nil {
			k.fail("%s", err)
			return
		}
		heads := math.Exp2(math.Floor(math.Log2(float64(max(k.heads(), 1)))))
		if bias = -math.Round(math.Log2(float64(one[0])) * heads); !(bias > 0 && bias < 1e6) {
			k.fail("the first slope is %v, want one between 0 and 1", one[0])
		}
	}
	k.f("attention.max_alibi_bias", bias)
}
