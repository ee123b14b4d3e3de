package projector

import (
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

// whisper is the encoder of Whisper.
var whisper = lang.Rules{
	{"audio_tower.conv1.weight", "a.conv1d.1.weight", nil},
	{"audio_tower.conv1.bias", "a.conv1d.1.bias", upright},
	{"audio_tower.conv2.weight", "a.conv1d.2.weight", nil},
	{"audio_tower.conv2.bias", "a.conv1d.2.bias", upright},
	{"audio_tower.embed_positions", "a.position_embd", nil},
	{"audio_tower.layer_norm", "a.post_ln", nil},
}.And(within("audio_tower.layers.#.", "a.blk.#.", lang.Rules{
	{"self_attn_layer_norm", "ln1", nil},
	{"final_layer_norm", "ln2", nil},
	{"fc1", "ffn_up", nil},
	{"fc2", "ffn_down", nil},
}.And(siglip)))

// whisperTypes are those of its convolutions.
var whisperTypes = lang.Types{{"a.conv1d.", gguf.F16}}

// adapter is what makes rows of the text model.
var adapter = lang.Rules{
	{"multi_modal_projector.linear_1", "mm.a.mlp.1", nil},
	{"multi_modal_projector.linear_2", "mm.a.mlp.2", nil},
	{"multi_modal_projector.ln_pre", "mm.a.norm_pre", nil},
	{"multi_modal_projector.ln_mid", "mm.a.norm_mid", nil},
}

var qwen2audio = lang.Family{
	Arch:  arch,
	Names: "Qwen2AudioForConditionalGeneration",
	Rules: lang.Rules{{"multi_modal_projector.linear", "mm.a.fc", nil}}.And(whisper),
	Types: whisperTypes,
	Keys:  func(k *lang.Keys) { whisperKeys(k, "qwen2a") },
}

var ultravox = lang.Family{
	Arch:  arch,
	Names: "UltravoxModel",
	Rules: adapter.And(whisper),
	Types: whisperTypes,
	Keys: func(k *lang.Keys) {
		whisperKeys(k, "ultravox")
		k.N("audio.projector.stack_factor", k.Count("stack_factor"))
	},
}

var voxtral = lang.Family{
	Arch:  arch,
	Names: "VoxtralForConditionalGeneration",
	Rules: adapter.And(whisper),
	Types: whisperTypes,
	Keys: func(k *lang.Keys) {
		whisperKeys(k, "voxtral")
		k.N("audio.projector.stack_factor", 4)
	},
}

// musicFlamingo was trained in BF16, whose range F16 lacks: its convolutions stay F32.
var musicFlamingo = lang.Family{
	Arch:  arch,
	Names: "AudioFlamingo3ForConditionalGeneration MusicFlamingoForConditionalGeneration",
	Rules: adapter.And(whisper),
	Types: lang.Types{{"a.conv1d.", gguf.F32}},
	Keys:  func(k *lang.Keys) { whisperKeys(k, "musicflamingo") },
}

// whisperKeys sets what is said of the encoder.
func whisperKeys(k *lang.Keys, kind string) {
	k.Set("projector_type", kind)
	k.Take(heard(k))
}

// heard sets what all encoders of sounds by their spectra have, and returns their settings.
func heard(k *lang.Keys) *hf.Config {
	a := audio(k)
	k.N("audio.num_mel_bins", a.CountOr("num_mel_bins", 128))
	k.F("audio.attention.layer_norm_epsilon", a.NumberOr("layer_norm_eps", 1e-5))
	return a
}
