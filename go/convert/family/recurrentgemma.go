package family

import (
	"math"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var recurrentGemma = lang.Family{
	Arch:  "recurrent_gemma",
	Names: "RecurrentGemmaForCausalLM",
	Rules: lang.PlusOne(lang.Rules{
		{"embed_tokens", "token_embd", nil},
		{"final_norm", "output_norm", nil},
		{"lm_head", "output", nil},
		{"temporal_pre_norm", "attn_norm", nil},
		{"channel_pre_norm", "ffn_norm", nil},
		{"temporal_block.q_proj", "attn_q", nil},
		{"temporal_block.k_proj", "attn_k", nil},
		{"temporal_block.v_proj", "attn_v", nil},
		{"temporal_block.o_proj", "attn_output", nil},
		{"temporal_block.linear_y", "lru_y", nil},
		{"temporal_block.linear_x", "lru_x", nil},
		{"temporal_block.linear_out", "lru_out", nil},
		{"temporal_block.conv_1d.weight", "lru_conv1d.weight", lang.Squeeze},
		{"temporal_block.conv_1d.bias", "lru_conv1d.bias", nil},
		{"temporal_block.rg_lru.recurrent_param", "lru_a", lruRates},
		{"temporal_block.rg_lru.input_gate_weight", "lru_input_gate.weight", lang.Transpose},
		{"temporal_block.rg_lru.input_gate_bias", "lru_input_gate.bias", nil},
		{"temporal_block.rg_lru.recurrent_gate_weight", "lru_decay_gate.weight", lang.Transpose},
		{"temporal_block.rg_lru.recurrent_gate_bias", "lru_decay_gate.bias", nil},
		{"mlp_block.gate_proj", "ffn_gate", nil},
		{"mlp_block.up_proj", "ffn_up", nil},
		{"mlp_block.down_proj", "ffn_down", nil},
	}),
	Settings: lang.Settings{
		{"attention.sliding_window", 'n', "attention_window_size"},
		{"final_logit_softcapping", 'f', "logits_soft_cap"},
		{"ssm.conv_kernel", 'n', "conv1d_width"},
		{"ssm.group_count", 'n', "num_attention_heads"},
	},
	Keys: func(k *lang.Keys) {
		k.N("context_length", 8192) // which no key says
		k.N("feed_forward_length", k.Count("intermediate_size")/2)
		k.N("ssm.inner_size", k.CountOr("lru_width", k.Count("hidden_size")))
		rotating(k, 0.5)
		kinds := k.Texts("block_types")
		if len(kinds) == 0 {
			kinds = []string{"recurrent", "recurrent", "attention"}
		}
		recurrent := make([]bool, k.Layers())
		for il := range recurrent {
			recurrent[il] = kinds[il%len(kinds)] == "recurrent"
		}
		k.Bs("attention.recurrent_layers", recurrent)
		// transformers computes the scale of embeddings in 16 bits
		k.F("embedding_scale", bfloat(math.Sqrt(float64(k.Count("hidden_size")))))
	},
	Tied:       true,
	Vocab:      noSpace,
	Activation: "gelu_pytorch_tanh",
}

// bfloat rounds a number to the nearest of 16 bits.
func bfloat(x float64) float64 {
	bits := math.Float32bits(float32(x))
	return float64(math.Float32frombits((bits + 0x7FFF + bits>>16&1) &^ 0xFFFF))
}

// lruRates makes of a parameter the greatest logarithm of a decay: -8 log(1 + e^x).
var lruRates = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	return v.Each(func(x float32) float32 {
		return float32(-8 * (math.Max(float64(x), 0) + math.Log1p(math.Exp(-math.Abs(float64(x))))))
	}), nil
})
