package family

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var qwen3vl = lang.Family{
	Arch:  "qwen3vl",
	Names: "Qwen3VLForConditionalGeneration",
	Rules: ends.And(attention, dense),
	Keys:  deepstack,
}

var qwen3vlmoe = lang.Family{
	Arch:  "qwen3vlmoe",
	Names: "Qwen3VLMoeForConditionalGeneration",
	Rules: lang.Rules{
		{"mlp.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight",
			lang.Then(upright(2, 0), lang.Halves)},
		{"mlp.experts.down_proj", "ffn_down_exps.weight", upright(0, 1)},
	}.And(ends, attention, dense, mixture),
	Settings: expertSettings,
	Keys:     deepstack,
}

// upright transposes the matrices of experts if they are stored with what they make along the last dimension, as
// checkpoints had them before transformers 5. Their rows are the sum of so many times the experts' width and, where
// that is 0, the model's; their columns the other. If the shape is both, the matrices are as they should be, as
// transformers has it.
func upright(widths, columns int) lang.Op {
	return lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
		width, model := uint64(c.Count("moe_intermediate_size")), uint64(c.Count("hidden_size"))
		rows, cols := uint64(widths)*width, uint64(columns)*width
		if widths == 0 {
			rows = model
		} else {
			cols = model
		}
		if k := len(v.Shape); k == 3 && v.Shape[k-2] == rows && v.Shape[k-1] == cols {
			return v, nil
		}
		out, err := lang.Transpose(c, []lang.View{v})
		if err != nil {
			return lang.View{}, err
		}
		return out[0], nil
	})
}

// deepstack sets how many layers take embeddings of images. Text models do not use them, but the key is needed.
func deepstack(k *lang.Keys) {
	v := k.Within("vision_config")
	k.N("n_deepstack_layers", len(v.List("deepstack_visual_indexes")))
	k.Take(v)
}
