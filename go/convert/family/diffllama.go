package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var diffLlama = lang.Family{
	Arch:  "diffllama",
	Names: "DiffLlamaForCausalLM",
	Rules: lang.Rules{
		{"self_attn.v_proj", "attn_v", pairedValues},
		{"self_attn.lambda_q1", "attn_lambda_q1.weight", nil},
		{"self_attn.lambda_k1", "attn_lambda_k1.weight", nil},
		{"self_attn.lambda_q2", "attn_lambda_q2.weight", nil},
		{"self_attn.lambda_k2", "attn_lambda_k2.weight", nil},
	}.And(ends, attention, dense),
	Keys: func(k *lang.Keys) { k.N("attention.value_length", 2*k.HeadDim()) },
}

// pairedValues gives each head of keys the values of two: head i and head i + n/2 of n both have those of these two.
var pairedValues = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	rows, each := v.Rows()
	n := uint64(max(c.HeadsKV(), 1))
	d := rows / n
	if n%2 != 0 || rows != n*d {
		return lang.View{}, fmt.Errorf("%d rows for the values of %d heads, want an even number of heads", rows, n)
	}
	shape := append([]uint64{2 * rows}, v.Shape[1:]...)
	return v.Strided(0, lang.Dim{2, 0}, lang.Dim{n / 2, d * each}, lang.Dim{2, n / 2 * d * each}, lang.Dim{d * each, 1}).As(shape...)
})
