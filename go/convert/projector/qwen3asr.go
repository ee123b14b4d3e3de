package projector

import (
	"math"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

// qwenAudio is the encoder of sounds that Qwen's models have since Qwen3-Omni.
var qwenAudio = lang.Rules{
	{"audio_tower.conv2d1.weight", "a.conv2d.1.weight", nil},
	{"audio_tower.conv2d1.bias", "a.conv2d.1.bias", acrossPlane},
	{"audio_tower.conv2d2.weight", "a.conv2d.2.weight", nil},
	{"audio_tower.conv2d2.bias", "a.conv2d.2.bias", acrossPlane},
	{"audio_tower.conv2d3.weight", "a.conv2d.3.weight", nil},
	{"audio_tower.conv2d3.bias", "a.conv2d.3.bias", acrossPlane},
	{"audio_tower.conv_out", "a.conv_out", nil},
	{"audio_tower.ln_post", "a.post_ln", nil},
	{"audio_tower.proj1", "mm.a.mlp.1", nil},
	{"audio_tower.proj2", "mm.a.mlp.2", nil},
}.And(adapter, whisper)

// qwenAudioTypes are those of its convolutions.
var qwenAudioTypes = lang.Types{{"a.conv2d.", gguf.F16}, {"a.conv_out.", gguf.F16}}

var qwen3asr = lang.Family{
	Arch:  arch,
	Names: "Qwen3ASRForConditionalGeneration",
	Rules: qwenAudio,
	Types: qwenAudioTypes,
	Extra: waves,
	Keys:  qwenAudioKeys,
}

var qwen3omni = lang.Family{
	Arch:   arch,
	Names:  "Qwen3OmniMoeForConditionalGeneration",
	Rules:  qwenVision.And(qwenAudio),
	Types:  qwenAudioTypes,
	Extra:  waves,
	Rename: func(c *hf.Config, name string) string { return deepstack(c, omniName(name)) },
	Keys: func(k *lang.Keys) {
		qwenKeys(k)
		k.Set("vision.projector_type", "qwen3vl_merger")
		qwenAudioKeys(k)
	},
}

func qwenAudioKeys(k *lang.Keys) {
	a := heard(k)
	k.Set("audio.projector_type", "qwen3a")
	k.Take(a)
}

// omniName returns the name that a tensor has in Qwen3-VL.
func omniName(name string) string {
	if !strings.Contains(name, "visual.merger") {
		return name
	}
	return strings.NewReplacer("visual.merger_list.", "visual.deepstack_merger_list.", ".ln_q.", ".norm.",
		".mlp.0.", ".linear_fc1.", ".mlp.2.", ".linear_fc2.").Replace(name)
}

// acrossPlane gives the bias of a convolution the dimensions of a plane.
var acrossPlane = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) { return v.As(v.Elems(), 1, 1) })

// positions is how many positions of sounds have a wave each.
const positions = 1500

// waves returns the positions of sounds, which checkpoints leave to the program: sines of falling frequencies, and then
// their cosines (Attention Is All You Need, section 3.5, in the order of Whisper).
func waves(c *hf.Config) map[string]lang.View {
	a := encoder(&lang.Keys{Config: c}, "audio_config")
	defer c.Take(a)
	n := a.Count(widthNames)
	if n > 1<<13 || n < 4 || n%2 != 0 {
		a.Fail("an encoder of sounds with a width of %d", n)
		return nil
	}
	half := n / 2
	all := make([]float32, positions*n)
	for i := range half {
		scale := float32(math.Exp(float64(float32(-math.Log(10000)/float64(half-1)) * float32(i))))
		for p := range positions {
			angle := float64(float32(p) * scale)
			all[p*n+i], all[p*n+half+i] = float32(math.Sin(angle)), float32(math.Cos(angle))
		}
	}
	v := lang.Constant(all)
	v.Shape = []uint64{positions, uint64(n)}
	return map[string]lang.View{"a.position_embd.weight": v}
}
