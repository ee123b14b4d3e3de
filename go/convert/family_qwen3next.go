package convert

import (
	"fmt"
)

var qwen3next = family{
	arch:  "qwen3next",
	names: "Qwen3NextForCausalLM",
	rules: plusOne(rules{
		{"linear_attn.in_proj_qkvz", "attn_qkv attn_gate", queriesKeysValuesGates},
		{"linear_attn.in_proj_ba", "ssm_ba", nil},
	}.And(linear, predicting, ends, attention, dense, mixture)),
	settings: expertSettings.And(linearSettings),
	keys: func(k *keys) {
		linearKeys(k)
		nextKeys(k)
	},
	next:   countNext,
	rename: nextOfQwen,
}

// queriesKeysValuesGates brings rows that lie by heads into the order of the tensors: queries, keys and values in one, gates
// in another.
var queriesKeysValuesGates op = func(c *config, in []view) ([]view, error) {
	v := in[0]
	heads, dk := uint64(keyHeads(c)), uint64(c.count("linear_key_head_dim"))
	dv := uint64(valueDim(c)) * uint64(valueHeads(c)) / max(heads, 1) // of all values of a head of keys
	each := 2*dk + 2*dv
	if len(v.shape) != 2 || v.shape[0] != heads*each {
		return nil, fmt.Errorf("the shape %v, want %d rows", v.shape, heads*each)
	}
	cols := v.shape[1]
	part := func(from, n uint64) view {
		p, _ := v.strided(from*cols, dim{heads, each * cols}, dim{n, cols}, dim{cols, 1}).as(heads*n, cols)
		return p
	}
	all, err := joined(part(0, dk), part(dk, dk), part(2*dk, dv))
	return []view{all, part(2*dk+dv, dv)}, err
}
