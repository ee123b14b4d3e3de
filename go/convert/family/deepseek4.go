package family

import (
	"encoding/binary"
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

var deepseek4 = lang.Family{
	Arch:  "deepseek4",
	Names: "DeepseekV4ForCausalLM",
	Rules: lang.Rules{
		{"embed", "token_embd", nil},
		{"norm", "output_norm", nil},
		{"embed_tokens", "token_embd", nil},
		{"hc_head.hc_base", "output_hc_base.weight", nil},
		{"hc_head.hc_fn", "output_hc_fn.weight", nil},
		{"hc_head.hc_scale", "output_hc_scale.weight", nil},
		{"attn.norm", "attn_kv_a_norm", nil}, // these as transformers 5 writes them
		{"head", "output", nil},
		{"hc_head_base", "output_hc_base.weight", nil},
		{"hc_head_fn", "output_hc_fn.weight", nil},
		{"hc_head_scale", "output_hc_scale.weight", nil},
		{"hc_attn_base", "hc_attn_base.weight", nil},
		{"hc_attn_fn", "hc_attn_fn.weight", nil},
		{"hc_attn_scale", "hc_attn_scale.weight", nil},
		{"hc_ffn_base", "hc_ffn_base.weight", nil},
		{"hc_ffn_fn", "hc_ffn_fn.weight", nil},
		{"hc_ffn_scale", "hc_ffn_scale.weight", nil},
		{"attn_norm", "attn_norm", nil},
		{"ffn_norm", "ffn_norm", nil},
		{"attn.attn_sink", "attn_sinks.weight", nil},
		{"attn.wq_a", "attn_q_a", nil},
		{"attn.wq_b", "attn_q_b", nil},
		{"attn.q_norm", "attn_q_a_norm", nil},
		{"attn.wkv", "attn_kv", nil},
		{"attn.kv_norm", "attn_kv_a_norm", nil},
		{"attn.wo_a", "attn_output_a", nil},
		{"attn.wo_b", "attn_output_b", nil},
		{"attn.compressor.ape", "attn_compressor_ape.weight", nil},
		{"attn.compressor.wkv", "attn_compressor_kv", nil},
		{"attn.compressor.wgate", "attn_compressor_gate", nil},
		{"attn.compressor.norm", "attn_compressor_norm", nil},
		{"attn.indexer.wq_b", "indexer.attn_q_b", nil},
		{"attn.indexer.weights_proj", "indexer.proj", nil},
		{"attn.indexer.compressor.ape", "indexer_compressor_ape.weight", nil},
		{"attn.indexer.compressor.wkv", "indexer_compressor_kv", nil},
		{"attn.indexer.compressor.wgate", "indexer_compressor_gate", nil},
		{"attn.indexer.compressor.norm", "indexer_compressor_norm", nil},
		{"ffn.gate.weight", "ffn_gate_inp.weight", nil},
		{"ffn.gate.bias", "exp_probs_b.bias", nil},
		{"ffn.gate.tid2eid", "ffn_gate_tid2eid.weight", whole},
		{"ffn.experts.*.w1", "ffn_gate_exps", nil},
		{"ffn.experts.*.w2", "ffn_down_exps", nil},
		{"ffn.experts.*.w3", "ffn_up_exps", nil},
		{"ffn.shared_experts.w1", "ffn_gate_shexp", nil},
		{"ffn.shared_experts.w2", "ffn_down_shexp", nil},
		{"ffn.shared_experts.w3", "ffn_up_shexp", nil},
	},
	Settings: routedSettings.And(lang.Settings{
		{"rope.dimension_count", 'n', "qk_rope_head_dim"},
		{"attention.q_lora_rank", 'n', "q_lora_rank"},
		{"attention.output_lora_rank", 'n', "o_lora_rank"},
		{"attention.output_group_count", 'n', "o_groups"},
		{"attention.compress_rope_freq_base", 'f', "compress_rope_theta"},
		{"attention.sliding_window", 'n', "sliding_window"},
		{"hyper_connection.count", 'n', "hc_mult"},
		{"hyper_connection.sinkhorn_iterations", 'n', "hc_sinkhorn_iters"},
		{"hyper_connection.epsilon", 'f', "hc_eps"},
		{"hash_layer_count", 'n', "num_hash_layers"},
	}),
	Keys: func(k *lang.Keys) {
		vocabSize(k)
		indexKeys(k)
		k.Gating("sqrtsoftplus")
		k.N("attention.head_count_kv", k.CountOr("num_key_value_heads", 1))
		n := k.Layers()
		ratios := k.Integers("compress_ratios", k.List("compress_ratios"))
		if len(ratios) < n {
			k.Fail("compress_ratios has %d layers of %d", len(ratios), n)
			return
		}
		k.Ns("attention.compress_ratios", ratios[:n])
		if limit := k.NumberOr("swiglu_limit", 0); limit > 0 {
			k.Set("swiglu_clamp_exp", slices.Repeat([]float32{float32(limit)}, n))
		}
	},
	Fixed: lang.Fixed{{"norm_topk_prob", "true"}},   // no code heeds it
	Skip:  []string{"mtp.", "model.mtp.", ".scale"}, // scales are read together with their matrices
}

// whole makes numbers integers of 32 bits.
var whole = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	read := v.Read
	return lang.View{Shape: v.Shape, Type: gguf.I32, Bytes: func(dst []byte, at uint64) error {
		buf := make([]float32, len(dst)/4)
		if err := read(buf, at); err != nil {
			return err
		}
		for i, x := range buf {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(int32(x)))
		}
		return nil
	}}, nil
})
