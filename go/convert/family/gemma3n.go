package family

import (
	"math"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

// gemma3n has several residual streams, and embeddings for each layer.
var gemma3n = lang.Family{
	Arch:  "gemma3n",
	Names: "Gemma3nForConditionalGeneration Gemma3nForCausalLM",
	Rules: perLayer.And(lang.Rules{
		{"altup_projections.*", "altup_proj", nil},
		{"altup_unembed_projections.*", "altup_unembd_proj", nil},
		{"altup.correction_coefs", "altup_correct_coef", nil},
		{"altup.correct_output_scale", "altup_correct_scale.weight", nil},
		{"altup.prediction_coefs", "altup_predict_coef", nil},
		{"altup.modality_router", "altup_router", nil},
		{"altup.router_norm", "altup_router_norm", nil},
		{"laurel.linear_left", "laurel_l", nil},
		{"laurel.linear_right", "laurel_r", nil},
		{"laurel.post_laurel_norm", "laurel_post_norm", nil},
		{"embed_tokens", "token_embd", forAllTokens},
		{"embed_tokens_per_layer", "per_layer_token_embd", forAllTokens},
	}, gemmaRules),
	Settings: lang.Settings{
		{"attention.sliding_window", 'n', "sliding_window"},
		{"final_logit_softcapping", 'f', "final_logit_softcapping"},
		{"embedding_length_per_layer_input", 'n', "hidden_size_per_layer_input"},
		{"attention.shared_kv_layers", 'n', "num_kv_shared_layers"},
		{"altup.active_idx", 'n', "altup_active_idx"},
		{"altup.num_inputs", 'n', "altup_num_inputs"},
	},
	Keys: gemma3nKeys,
	Tied: true,
	Count: func(c *hf.Config, name string) int {
		if strings.HasPrefix(name, "altup_") {
			return c.CountOr("altup_num_inputs", 4) - 1
		}
		return 0
	},
	Vocab:      noSpace,
	Activation: "gelu_new",
	Fixed:      lang.Fixed{{"altup_correct_scale", "true"}},
}

// perLayer is the embeddings of each layer.
var perLayer = lang.Rules{
	{"per_layer_input_gate", "inp_gate", nil},
	{"per_layer_projection", "proj", nil},
	{"post_per_layer_input_norm", "post_norm", nil},
	{"embed_tokens_per_layer", "per_layer_token_embd", nil},
	{"per_layer_model_projection", "per_layer_model_proj", nil},
	{"per_layer_projection_norm", "per_layer_proj_norm", nil},
}

// forAllTokens adds rows of zeros for the tokens of images and sounds, which have no embeddings.
var forAllTokens = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	rows, each := v.Rows()
	all := uint64(c.CountOr("vocab_size", int(min(rows, vocab.MaxTokens))))
	if len(v.Shape) != 2 || rows >= all {
		return v, nil
	}
	zeros := lang.View{Shape: []uint64{all - rows, each},
		Read: func(dst []float32, _ uint64) error { clear(dst); return nil }}
	return lang.Joined(v, zeros)
})

func gemma3nKeys(k *lang.Keys) {
	gemma3Keys(k)
	k.Want("altup_num_inputs", "4")
	k.Bs("attention.sliding_window_pattern", k.TypesOf("sliding_attention"))
	shares := k.Numbers("activation_sparsity_pattern")
	if shares == nil {
		return
	}
	scales := make([]float32, len(shares))
	for i, share := range shares { // the share of gates that are closed, if they are normally distributed
		if !(share >= 0 && share < 1) {
			k.Fail("activation_sparsity_pattern has %v, want numbers from 0 to below 1", share)
			return
		}
		width := k.Value("intermediate_size")
		if all, ok := width.([]any); ok && i < len(all) {
			width = all[i]
		}
		n, _ := hf.AsCount(width)
		// GGUF's deviations are those of a sample, and transformers' those of all n gates.
		scales[i] = float32(math.Sqrt2 * math.Erfinv(2*float64(share)-1) * math.Sqrt(1-1/float64(max(n, 1))))
	}
	k.Set("activation_sparsity_scale", scales)
}
