package family

import (
	"github.com/quern-llm/quern/go/convert/lang"
)

var internlm2 = lang.Family{
	Arch:  "internlm2",
	Names: "InternLM2ForCausalLM",
	Rules: lang.Rules{
		{"tok_embeddings", "token_embd", nil},
		{"output", "output", nil},
		{"attention_norm", "attn_norm", nil},
		{"ffn_norm", "ffn_norm", nil},
		{"attention.wqkv", "attn_q attn_k attn_v", lang.Then(groups, paired)},
		{"attention.wo", "attn_output", nil},
		{"feed_forward.w1", "ffn_gate", nil},
		{"feed_forward.w2", "ffn_down", nil},
		{"feed_forward.w3", "ffn_up", nil},
	}.And(ends),
}

var xverse = lang.Family{
	Arch:  "xverse",
	Names: "XverseForCausalLM",
	Rules: ends.And(pairs, dense),
	Keys:  func(k *lang.Keys) { rotating(k, 1) },
}
