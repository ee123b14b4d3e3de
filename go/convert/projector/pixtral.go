package projector

import (
	"fmt"
	"path/filepath"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// pixtralRules are the encoder of Pixtral, whose queries and keys rotate neighbouring channels in GGUF.
var pixtralRules = lang.Rules{
	{"vision_tower.patch_conv", "v.patch_embd", nil},
	{"vision_tower.ln_pre", "v.pre_ln", nil},
	{"multi_modal_projector.norm", "mm.input_norm", nil},
	{"multi_modal_projector.patch_merger.merging_layer", "mm.patch_merger", nil},
	{"multi_modal_projector.linear_1", "mm.1", nil},
	{"multi_modal_projector.linear_2", "mm.2", nil},
}.And(within("vision_tower.transformer.layers.#.", "v.blk.#.", lang.Rules{
	{"attention_norm", "ln1", nil},
	{"ffn_norm", "ln2", nil},
	{"attention.q_proj", "attn_q", lang.Permute(visionHeads)},
	{"attention.k_proj", "attn_k", lang.Permute(visionHeads)},
	{"attention.v_proj", "attn_v", nil},
	{"attention.o_proj", "attn_out", nil},
	{"feed_forward.gate_proj", "ffn_gate", nil},
	{"feed_forward.up_proj", "ffn_up", nil},
	{"feed_forward.down_proj", "ffn_down", nil},
}))

var pixtral = lang.Family{
	Arch:   arch,
	Names:  "Mistral3ForConditionalGeneration LlavaForConditionalGeneration",
	Rules:  pixtralRules,
	Change: withBreak,
	Keys:   func(k *lang.Keys) { pixtralKeys(k, "pixtral") },
}

var lightOnOCR = lang.Family{
	Arch:  arch,
	Names: "LightOnOCRForConditionalGeneration LightOnOcrForConditionalGeneration",
	Rules: pixtralRules,
	Keys:  func(k *lang.Keys) { pixtralKeys(k, "lightonocr") },
}

func pixtralKeys(k *lang.Keys, kind string) {
	v := vision(k, pixels{1024, 16})
	k.Set("projector_type", kind)
	k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-5))
	gelu(k, v)
	if k.Has("spatial_merge_size") {
		k.N("vision.spatial_merge_size", k.Count("spatial_merge_size"))
	}
	k.Take(v)
}

// visionHeads returns the number of heads of the encoder of pictures.
func visionHeads(c *hf.Config) int {
	v := c.Within("vision_config")
	defer c.Take(v)
	return v.Count(headsNames)
}

// withBreak returns LLaVA's family for its own encoders, and else the family with a rule for the row of the text model's
// embeddings that ends the rows of a picture.
func withBreak(c *hf.Config, f *lang.Family) *lang.Family {
	v := c.Within("vision_config")
	defer c.Take(v)
	switch v.Text("model_type") {
	case "clip_vision_model", "siglip_vision_model":
		return &llava
	case "pixtral":
	default:
		v.Want("model_type", "pixtral", "clip_vision_model", "siglip_vision_model")
		return f
	}
	id, ok := tokenID(c, "[IMG_BREAK]")
	if !ok {
		c.Fail("the tokenizer beside it has no token [IMG_BREAK], which ends the rows of a picture")
	}
	own, row := *f, lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
		if len(v.Shape) != 2 || uint64(id) >= v.Shape[0] {
			return lang.View{}, fmt.Errorf("the shape %v, want a row for token %d", v.Shape, id)
		}
		return v.Strided(uint64(id)*v.Shape[1], lang.Dim{N: v.Shape[1], Stride: 1}), nil
	})
	own.Rules = f.Rules.And(lang.Rules{
		{"language_model.model.embed_tokens.weight", "v.token_embd.img_break", row},
		{"language_model.embed_tokens.weight", "v.token_embd.img_break", row},
	})
	return &own
}

// tokenID returns the id of a token that is not part of texts.
func tokenID(c *hf.Config, token string) (int, bool) {
	dir := filepath.Dir(c.Path())
	if t, err := hf.ReadFile(filepath.Join(dir, "tokenizer_config.json")); err == nil {
		for number, v := range t.Object("added_tokens_decoder") {
			o, _ := v.(map[string]any)
			if id, is := hf.Digits(number); is && o["content"] == token {
				return id, true
			}
		}
	}
	t, err := hf.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		return 0, false
	}
	for _, v := range t.List("added_tokens") {
		o, _ := v.(map[string]any)
		if id, is := hf.AsCount(o["id"]); is && o["content"] == token {
			return id, true
		}
	}
	return 0, false
}
