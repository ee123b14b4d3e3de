package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var gptj = lang.Family{
	Arch:  "gptj",
	Names: "GPTJForCausalLM",
	Rules: lang.Rules{
		{"attn.q_proj", "attn_q", nil},
		{"attn.k_proj", "attn_k", nil},
		{"attn.v_proj", "attn_v", nil},
	}.And(gptjLayers, gpt),
	Keys:       gptjKeys,
	Activation: "gelu_new",
}

// codegen is GPT-J with queries, keys and values in one matrix.
var codegen = lang.Family{
	Arch:       "gptj",
	Names:      "CodeGenForCausalLM",
	Rules:      lang.Rules{{"attn.qkv_proj", "attn_q attn_k attn_v", shards}}.And(gptjLayers, gpt),
	Keys:       gptjKeys,
	Activation: "gelu_new",
}

// gptjLayers is a layer of GPT-J but for the projections of queries, keys and values.
var gptjLayers = lang.Rules{
	{"attn.out_proj", "attn_output", nil},
	{"attn.causal_mask", "", nil},
	{"mlp.fc_in", "ffn_up", nil},
	{"mlp.fc_out", "ffn_down", nil},
}

func gptjKeys(k *lang.Keys) {
	k.N("feed_forward_length", k.CountOr("n_inner", 4*k.Count("n_embd")))
	k.N("rope.dimension_count", k.Count("rotary_dim"))
}

// shards splits a matrix that four machines had a quarter of, each with its queries, values and keys.
var shards lang.Op = func(_ *hf.Config, in []lang.View) ([]lang.View, error) {
	const machines = 4
	v := in[0]
	rows, each := v.Rows()
	if rows%(3*machines) != 0 {
		return nil, fmt.Errorf("%d rows, want queries, values and keys in %d parts", rows, machines)
	}
	n := rows / (3 * machines)
	var out []lang.View
	for _, at := range []uint64{0, 2, 1} {
		shape := append([]uint64{machines * n}, v.Shape[1:]...)
		part, err := v.Strided(at*n*each, lang.Dim{machines, 3 * n * each}, lang.Dim{n * each, 1}).As(shape...)
		if err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	return out, nil
}
