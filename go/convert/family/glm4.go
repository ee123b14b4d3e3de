package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var glm4 = lang.Family{
	Arch:   "glm4",
	Names:  "Glm4ForCausalLM Glm4vForConditionalGeneration GlmOcrForConditionalGeneration",
	Change: overAxes,
	Rules: lang.Rules{
		{"post_self_attn_layernorm", "post_attention_norm", nil},
		{"post_mlp_layernorm", "post_ffw_norm", nil},
		{"mlp.gate_up_proj", "ffn_up", nil},
	}.And(ends, attention, dense),
	Keys:  func(k *lang.Keys) { rotating(k, 0.5) },
	Vocab: glmVocab,
}

// overAxes returns the family of GLM 4.1V, whose rotations have sections for time, height and width: files then have the two
// channels of a rotation half of the rotating ones apart, and checkpoints side by side. GLM-OCR's last layer predicts a
// further token, which files of this architecture do not have.
func overAxes(c *hf.Config, f *lang.Family) *lang.Family {
	f = withoutNext(c, f)
	r := c.RopeOf("full_attention")
	defer c.Take(r)
	if r.List("mrope_section") == nil {
		return f
	}
	own := *f
	own.Rules = lang.Rules{
		{"self_attn.q_proj", "attn_q", halved},
		{"self_attn.k_proj", "attn_k", halved},
	}.And(f.Rules)
	return &own
}

// halved reorders the rows of each head that rotate, from pairs to halves.
var halved = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	rows, each := v.Rows()
	d := uint64(c.HeadDim())
	turning := uint64(float64(d) * c.Partial(0.5))
	if d == 0 || rows%d != 0 || turning%2 != 0 || turning > d {
		return lang.View{}, fmt.Errorf("%d rows for heads of %d, of which %d rotate", rows, d, turning)
	}
	var parts []lang.View
	for from := uint64(0); from < rows; from += d {
		half := func(i uint64) lang.View {
			return v.Strided((from+i)*each, lang.Dim{N: turning / 2, Stride: 2 * each}, lang.Dim{N: each, Stride: 1})
		}
		rest := v.Strided((from+turning)*each, lang.Dim{N: d - turning, Stride: each}, lang.Dim{N: each, Stride: 1})
		parts = append(parts, half(0), half(1), rest)
	}
	out, err := lang.Joined(parts...)
	if err != nil {
		return lang.View{}, err
	}
	return out.As(v.Shape...)
})
