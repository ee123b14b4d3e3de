package family

import (
	"math"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var opt = lang.Family{
	Arch:  "opt",
	Names: "OPTForCausalLM",
	Rules: lang.Rules{
		{"embed_positions", "position_embd", learnedPositions},
		{"project_in", "token_embd_proj", nil},
		{"project_out", "output_proj", nil},
	}.And(optLayers, lang.Rules{{"final_layer_norm", "output_norm", nil}}, ends),
	Keys: func(k *lang.Keys) {
		k.N("feed_forward_length", k.Count("ffn_dim"))
		k.F("attention.layer_norm_epsilon", 1e-5)
		if !k.FlagOr("do_layer_norm_before", true) {
			k.B("quern.post_norm", true)
		}
	},
	Fixed:      lang.Fixed{{"_remove_final_layer_norm", "false"}},
	Prefix:     "model.decoder. decoder.",
	Activation: "relu",
	Tied:       true,
}

var xglm = lang.Family{
	Arch:  "opt",
	Names: "XGLMForCausalLM",
	Rules: lang.Rules{
		{"layer_norm", "output_norm", nil},
		{"embed_positions.weights", "", nil}, // computed by Extra
	}.And(optLayers, ends),
	Keys: func(k *lang.Keys) {
		k.N("feed_forward_length", k.Count("ffn_dim"))
		k.N("attention.head_count", k.Count("attention_heads"))
		k.F("attention.layer_norm_epsilon", 1e-5)
		if k.FlagOr("scale_embedding", true) {
			k.F("embedding_scale", math.Sqrt(float64(k.Count("d_model"))))
		}
	},
	Extra:      xglmPositions,
	Fixed:      lang.Fixed{{"add_cross_attention", "false"}},
	Activation: "relu",
	Tied:       true,
}

// optLayers is a layer of OPT.
var optLayers = lang.Rules{
	{"self_attn_layer_norm", "attn_norm", nil},
	{".final_layer_norm", "ffn_norm", nil},
	{"self_attn.out_proj", "attn_output", nil},
	{"fc1", "ffn_up", nil},
	{"fc2", "ffn_down", nil},
}.And(attention)

// xglmPositions makes the table of positions, which XGLM's checkpoints lack: sines and then cosines of each position times
// frequencies, in F32 as the original has it.
func xglmPositions(c *hf.Config) map[string]lang.View {
	n, width := c.Count("max_position_embeddings"), c.Count("d_model")
	if n > 1<<20 || width > 1<<16 || width < 4 {
		c.Fail("%d positions of width %d, want at most %d of 4 to %d", n, width, 1<<20, 1<<16)
		return nil
	}
	const before = 2 // rows that nothing is at
	freqs := make([]float32, width/2)
	for i := range freqs {
		freqs[i] = float32(math.Exp(-math.Log(10000) / float64(len(freqs)-1) * float64(i)))
	}
	return map[string]lang.View{"position_embd.weight": {
		Shape: []uint64{uint64(n), uint64(width)},
		Read: func(dst []float32, at uint64) error {
			for i := range dst {
				row, col := (at+uint64(i))/uint64(width), int((at+uint64(i))%uint64(width))
				turn := func(j int) float64 { return float64(float32(row+before) * freqs[j]) }
				switch {
				case col < len(freqs):
					dst[i] = float32(math.Sin(turn(col)))
				case col < 2*len(freqs):
					dst[i] = float32(math.Cos(turn(col - len(freqs))))
				default: // of an odd width
					dst[i] = 0
				}
			}
			return nil
		},
	}}
}
