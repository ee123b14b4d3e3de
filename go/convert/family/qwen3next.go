package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var qwen3next = lang.Family{
	Arch:  "qwen3next",
	Names: "Qwen3NextForCausalLM",
	Rules: lang.PlusOne(lang.Rules{
		{"linear_attn.in_proj_qkvz", "attn_qkv attn_gate", queriesKeysValuesGates},
		{"linear_attn.in_proj_ba", "ssm_ba", nil},
	}.And(linear, predicting, ends, attention, dense, mixture)),
	Settings: expertSettings.And(linearSettings),
	Keys: func(k *lang.Keys) {
		linearKeys(k)
		nextKeys(k)
	},
	Next:   countNext,
	Rename: nextOfQwen,
	Fixed:  scanAct,
}

// queriesKeysValuesGates splits a matrix whose rows are, for each head of keys, queries, keys, values and gates.
// Queries, keys and values become one matrix, gates another.
var queriesKeysValuesGates lang.Op = func(c *hf.Config, in []lang.View) ([]lang.View, error) {
	v := in[0]
	heads, dk := uint64(keyHeads(c)), uint64(c.Count("linear_key_head_dim"))
	dv := uint64(valueDim(c)) * uint64(valueHeads(c)) / max(heads,
		1) // the rows of all values with the same head of keys
	each := 2*dk + 2*dv
	if len(v.Shape) != 2 || v.Shape[0] != heads*each {
		return nil, fmt.Errorf("the shape %v, want %d rows", v.Shape, heads*each)
	}
	cols := v.Shape[1]
	part := func(from, n uint64) lang.View {
		p, _ := v.Strided(from*cols, lang.Dim{heads, each * cols}, lang.Dim{n, cols}, lang.Dim{cols, 1}).As(heads*n,
			cols)
		return p
	}
	all, err := lang.Joined(part(0, dk), part(dk, dk), part(2*dk, dv))
	return []lang.View{all, part(2*dk+dv, dv)}, err
}
