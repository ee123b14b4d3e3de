package projector

import (
	"math"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// qwenVision is the encoder that Qwen's models have since Qwen3-VL, with what follows layers that others read too.
var qwenVision = lang.Rules{
	{"visual.patch_embed.proj.weight", "v.patch_embd.weight v.patch_embd.weight.1", frames},
	{"visual.patch_embed.proj.bias", "v.patch_embd.bias", nil},
	{"visual.pos_embed", "v.position_embd", nil},
	{"visual.merger.norm", "v.post_ln", nil},
	{"visual.merger.linear_fc1", "mm.0", nil},
	{"visual.merger.linear_fc2", "mm.2", nil},
	{"visual.deepstack_merger_list.#.norm", "v.deepstack.#.norm", nil},
	{"visual.deepstack_merger_list.#.linear_fc1", "v.deepstack.#.fc1", nil},
	{"visual.deepstack_merger_list.#.linear_fc2", "v.deepstack.#.fc2", nil},
}.And(within("visual.blocks.#.", "v.blk.#.", lang.Rules{
	{"norm1", "ln1", nil},
	{"norm2", "ln2", nil},
	{"attn.qkv", "attn_qkv", nil},
	{"attn.proj", "attn_out", nil},
	{"mlp.linear_fc1", "ffn_up", nil},
	{"mlp.linear_fc2", "ffn_down", nil},
}))

var qwen3vl = lang.Family{
	Arch: arch,
	Names: "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration Qwen3_5ForConditionalGeneration " +
		"Qwen3_5MoeForConditionalGeneration Qwen4ExpForConditionalGeneration",
	Rules:  qwenVision,
	Rename: deepstack,
	Keys: func(k *lang.Keys) {
		k.Set("projector_type", "qwen3vl_merger")
		qwenKeys(k)
	},
}

// qwenKeys sets what is said of the encoder.
func qwenKeys(k *lang.Keys) {
	v := encoder(k, "vision_config")
	patch := side(v, "patch_size", 16)
	grid := int(math.Sqrt(float64(v.CountOr("num_position_embeddings", 2304))))
	k.Take(vision(k, pixels{grid * patch, 16}))
	k.B("use_gelu", true)
	k.N("vision.spatial_merge_size", v.CountOr("spatial_merge_size", 2))
	k.F("vision.attention.layer_norm_epsilon", textEpsilon(k))
	is := make([]bool, layers(v))
	for _, il := range k.Integers("deepstack_visual_indexes", v.List("deepstack_visual_indexes")) {
		if int(il) >= len(is) {
			v.Fail("deepstack_visual_indexes has %d of %d layers", il, len(is))
			break
		}
		is[il] = true
	}
	k.Bs("vision.is_deepstack_layers", is)
	k.Take(v)
}

// textEpsilon returns the epsilon of the text model's norms, which these encoders have too.
func textEpsilon(k *lang.Keys) float64 {
	if t := k.Within("thinker_config"); t.Object("text_config") != nil {
		text := t.Within("text_config")
		defer k.Take(text)
		return text.NumberOr("rms_norm_eps", 1e-6)
	}
	return k.NumberOr("rms_norm_eps", 1e-6)
}

// deepstack gives tensors the number of the layer that they follow. In checkpoints they are counted.
func deepstack(c *hf.Config, name string) string {
	name = plain(name)
	rest, ok := strings.CutPrefix(name, "visual.deepstack_merger_list.")
	number, rest, _ := strings.Cut(rest, ".")
	i, isNumber := hf.Digits(number)
	v := part(c, "vision_config")
	if !ok || !isNumber || v == nil {
		return name
	}
	list := v.List("deepstack_visual_indexes")
	c.Take(v)
	if i >= len(list) {
		return name + " of more than deepstack_visual_indexes has" // no rule has it
	}
	il, isCount := hf.AsCount(list[i])
	if !isCount {
		return name
	}
	return "visual.deepstack_merger_list." + strconv.Itoa(il) + "." + rest
}
