package family

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var jais = lang.Family{
	Arch:  "jais",
	Names: "JAISLMHeadModel",
	Rules: lang.Rules{ // its matrices are transposed
		{"wte", "token_embd", lang.Times(jaisEmbeddings)},
		{"lm_head", "output", lang.Times(jaisOutput)},
		{"attn.c_attn.weight", "attn_qkv.weight", lang.Transpose},
		{"attn.c_proj.weight", "attn_output.weight", lang.Transpose},
		{"mlp.c_fc.weight", "ffn_up.weight", lang.Transpose},
		{"mlp.c_fc2.weight", "ffn_gate.weight", lang.Transpose},
		{"mlp.c_fc2", "ffn_gate", nil},
		{"mlp.c_proj.weight", "ffn_down.weight", lang.Transpose},
		{"relative_pe.slopes", "", nil}, // this becomes a key: see jaisSlopes
	}.And(gpt),
	Keys: func(k *lang.Keys) {
		k.Want("activation_function", "swiglu")
		k.Want("position_embedding_type", "alibi")
		k.N("attention.head_count_kv", k.Heads())
	},
	Change: jaisTied,
	Finish: jaisSlopes,
}

// jaisEmbeddings and jaisOutput return the factors of embeddings and logits.
func jaisEmbeddings(c *hf.Config) float64 { return c.Number("mup_embeddings_scale embeddings_scale") }

func jaisOutput(c *hf.Config) float64 {
	if c.Has("mup_output_alpha") {
		return c.Number("mup_output_alpha") * c.Number("mup_width_scale")
	}
	return c.Number("width_scale")
}

// jaisTied makes two matrices of the embeddings if the output shares them, since each has a factor of its own.
// config.json says only if it does not.
func jaisTied(c *hf.Config, f *lang.Family) *lang.Family {
	if !c.FlagOr("tie_word_embeddings", true) {
		return f
	}
	c.Put("tie_word_embeddings", true)
	kind := *f
	kind.Rules = lang.Rules{{"wte", "token_embd output", func(c *hf.Config, in []lang.View) ([]lang.View, error) {
		a, err := lang.Times(jaisEmbeddings)(c, in)
		if err != nil {
			return nil, err
		}
		b, err := lang.Times(jaisOutput)(c, in)
		return slices.Concat(a, b), err
	}}}.And(f.Rules)
	return &kind
}

// jaisSlopes sets the largest slope of ALiBi. A checkpoint has the slopes of all heads.
func jaisSlopes(d *lang.Draft, k *lang.Keys) {
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
