package projector

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// glmASR is Whisper's encoder with rotations in place of positions.
var glmASR = lang.Family{
	Arch:  arch,
	Names: "GlmasrModel",
	Rules: lang.Rules{
		{"audio_encoder.layer_norm", "mm.a.norm_pre", nil},
		{"audio_encoder.adapting.#", "mm.a.mlp.#", nil},
		{"audio_encoder.audio_bos_eos_token.weight", "v.boi v.eoi", eachRow},
		{"audio_encoder.proj", "", nil}, // of the encoder alone
	}.And(whisper),
	Types: whisperTypes,
	Rename: func(_ *hf.Config, name string) string {
		return strings.NewReplacer("audio_encoder.whisper.", "audio_tower.", "adapting.0.", "adapting.1.").Replace(name)
	},
	Keys: func(k *lang.Keys) {
		k.Put("audio_config", k.Value("whisper_config"))
		whisperKeys(k, "glma")
		k.N("audio.projector.stack_factor", k.Count("merge_factor"))
	},
}

// eachRow splits a matrix of two rows.
var eachRow lang.Op = func(_ *hf.Config, in []lang.View) ([]lang.View, error) {
	v := in[0]
	if len(v.Shape) != 2 || v.Shape[0] != 2 {
		return nil, fmt.Errorf("the shape %v, want two rows", v.Shape)
	}
	first := v.Strided(0, lang.Dim{N: v.Shape[1], Stride: 1})
	return []lang.View{first, v.Strided(v.Shape[1], lang.Dim{N: v.Shape[1], Stride: 1})}, nil
}
