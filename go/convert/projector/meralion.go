package projector

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var meralion = lang.Family{
	Arch:  arch,
	Names: "MERaLiON2ForConditionalGeneration",
	Rules: lang.Rules{
		{"ln_speech", "mm.a.norm_pre", nil},
		{"speech_audio_adapter.mlp_adapter.#", "mm.a.mlp.#", nil},
		{"speech_audio_adapter.gate_proj", "mm.a.mlp.1", nil},
		{"speech_audio_adapter.pool_proj", "mm.a.mlp.2", nil},
		{"speech_audio_adapter.out_proj", "mm.a.mlp.3", nil},
	}.And(whisper),
	Types: whisperTypes,
	Rename: func(_ *hf.Config, name string) string {
		if rest, ok := strings.CutPrefix(name, "speech_encoder."); ok {
			return "audio_tower." + rest
		}
		return name
	},
	Keys: func(k *lang.Keys) {
		k.Put("audio_config", k.Value("speech_config"))
		whisperKeys(k, "meralion")
		k.N("audio.projector.stack_factor", k.CountOr("speech_mlp_scale_factor", 15))
	},
}
