package projector

import (
	"math"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// janus is the encoder that Janus Pro sees with; it makes pictures with others.
var janus = lang.Family{
	Arch:  arch,
	Names: "JanusForConditionalGeneration",
	Rules: lang.Rules{
		{"aligner.fc1", "mm.0", nil},
		{"aligner.hidden_layers.#", "mm.#", nil},
		{"vision_tower.encoder.layers.#.self_attn.projection_layer", "v.blk.#.attn_out", nil},
	}.And(vit),
	Rename: func(_ *hf.Config, name string) string {
		name = plain(name)
		if strings.HasPrefix(name, "generation_") || strings.HasPrefix(name, "vqmodel.") {
			return ""
		}
		return following(name, "aligner.hidden_layers.")
	},
	Keys: func(k *lang.Keys) {
		s := encoder(k, "vision_config")
		if width := s.CountOr("hidden_size", 1024); !s.Has("intermediate_size") {
			s.Put("intermediate_size", math.Round(float64(width)*s.NumberOr("mlp_ratio", 4)))
		}
		k.Take(s)
		v := vision(k, pixels{384, 16})
		k.Set("projector_type", "janus_pro")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		gelu(k, v)
		k.Take(v)
	},
}

// following adds 1 to the number behind the beginning of a name: other layers are counted before.
func following(name, begin string) string {
	rest, ok := strings.CutPrefix(name, begin)
	number, rest, _ := strings.Cut(rest, ".")
	n, isNumber := hf.Digits(number)
	if !ok || !isNumber {
		return name
	}
	return begin + strconv.Itoa(n+1) + "." + rest
}
