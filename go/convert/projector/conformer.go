package projector

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

// fastConformer are the parts of a layer of a Fast Conformer that are called the same by NeMo and transformers.
var fastConformer = lang.Rules{
	{"norm_feed_forward1", "ffn_norm", nil},
	{"feed_forward1.linear1", "ffn_up", nil},
	{"feed_forward1.linear2", "ffn_down", nil},
	{"norm_feed_forward2", "ffn_norm_1", nil},
	{"feed_forward2.linear1", "ffn_up_1", nil},
	{"feed_forward2.linear2", "ffn_down_1", nil},
	{"norm_self_att", "ln1", nil},
	{"norm_conv", "norm_conv", nil},
	{"norm_out", "ln2", nil},
}

// conformerTypes are those of convolutions.
var conformerTypes = lang.Types{{"a.blk.#.conv_", gguf.F32}, {"a.conv1d.", gguf.F32}}

var lfm2audio = lang.Family{
	Arch:  arch,
	Names: "Lfm2AudioForConditionalGeneration",
	Rules: lang.Rules{
		{"conformer.pre_encode.conv.#.weight", "a.conv1d.#.weight", nil},
		{"conformer.pre_encode.conv.#.bias", "a.conv1d.#.bias", acrossPlane},
		{"conformer.pre_encode.out", "a.pre_encode.out", nil},
		{"audio_adapter.model.#", "mm.a.mlp.#", nil},
		{"audio_embedding.embedding", "a.position_embd", nil}, // of sounds that are spoken, under the name that llama.cpp has
		{"audio_embedding.embedding_norm", "a.position_embd_norm", nil},
		{"audio_embedding.to_logits", "a.embd_to_logits", nil},
		batchNorm("conformer.layers.#.conv.batch_norm"),
	}.And(within("conformer.layers.#.", "a.blk.#.", lang.Rules{
		{"self_attn.linear_q", "attn_q", nil},
		{"self_attn.linear_k", "attn_k", nil},
		{"self_attn.linear_v", "attn_v", nil},
		{"self_attn.linear_out", "attn_out", nil},
		{"self_attn.linear_pos", "linear_pos", nil},
		{"self_attn.pos_bias_u", "pos_bias_u", nil},
		{"self_attn.pos_bias_v", "pos_bias_v", nil},
		{"conv.depthwise_conv", "conv_dw", lang.Squeeze},
		{"conv.pointwise_conv1", "conv_pw1", lang.Squeeze},
		{"conv.pointwise_conv2", "conv_pw2", lang.Squeeze},
	}.And(fastConformer))),
	Types: conformerTypes,
	Rename: func(_ *hf.Config, name string) string {
		if strings.HasPrefix(name, "audio_loss_weight") { // of training
			return ""
		}
		return name
	},
	Keys: func(k *lang.Keys) {
		k.Put("audio_config", k.Value("encoder"))
		a := audio(k)
		k.N("audio.feed_forward_length", a.Count("d_model"))
		k.Set("projector_type", "lfm2a")
		k.N("audio.num_mel_bins", a.Count("feat_in"))
		k.F("audio.attention.layer_norm_epsilon", 1e-5)
		k.Take(a)
	},
}
