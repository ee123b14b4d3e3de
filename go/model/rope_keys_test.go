package model

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// Keys of how rotations are stretched, those of old files too, mean what they mean in llama.cpp:
// the best three logits at the 48th position are its own. Those of LongRoPE, the factors of Llama 3,
// and the keys of YaRN that it reads for few architectures are in TestArchitectures.
func TestRopeKeys(t *testing.T) {
	type keys map[string]any
	type top map[int]float64
	var (
		none   = top{119: 6.514083, 66: 5.809107, 117: 5.69966}
		linear = top{119: 5.715594, 117: 5.619844, 66: 5.44784}
		yarn   = top{77: 5.168764, 53: 4.854218, 120: 4.713081}
	)
	var w witness
	raw, err := os.ReadFile("testdata/archs/olmo.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs("testdata/archs/olmo.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		keys keys
		want top
	}{
		{"none", keys{"type": "none", "factor": float32(4)}, none},
		{"linear", keys{"type": "linear", "factor": float32(4)}, linear},
		{"linear without a type", keys{"factor": float32(4)}, linear},
		{"linear of old files", keys{"scale_linear": float32(4)}, linear},
		{"a factor of 0", keys{"type": "linear", "factor": float32(0)}, none},
		{"factor before scale_linear", keys{"type": "linear", "factor": float32(4), "scale_linear": float32(2)}, linear},
		{"linear with a length", keys{"type": "linear", "factor": float32(4), "attn_factor": float32(1.3)}, top{125: 5.56603, 28: 5.360669, 108: 5.041152}},
		{"yarn", keys{"type": "yarn", "factor": float32(8), "original_context_length": uint32(64)}, yarn},
		{"yarn of old files", keys{"type": "yarn", "scale_linear": float32(8), "original_context_length": uint32(64)}, yarn},
		{"yarn of the whole context", keys{"type": "yarn", "factor": float32(8)}, top{120: 5.665012, 28: 5.031761, 49: 4.943235}},
		{
			"yarn with a length",
			keys{"type": "yarn", "factor": float32(8), "original_context_length": uint32(64), "attn_factor": float32(1.3)},
			top{120: 4.930582, 9: 4.105777, 77: 4.078425},
		},
		{
			"yarn with its length, as OLMo 3 has it",
			keys{"type": "yarn", "factor": float32(8), "original_context_length": uint32(64), "yarn_attn_factor": float32(1.2079441541679836)},
			yarn,
		},
		{
			"yarn with a factor of its length",
			keys{"type": "yarn", "factor": float32(8), "original_context_length": uint32(64), "yarn_attn_factor": float32(1)},
			yarn,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := read(t, path)
			for key, v := range tt.keys {
				name := "olmo.rope.scaling." + key
				if key == "scale_linear" {
					name = "olmo.rope.scale_linear"
				}
				d.set(name, v)
			}
			m, err := load(t, d.write(t, "x.gguf"), Packed)
			if err != nil {
				t.Fatal(err)
			}
			rows := newStepper(t, m, 48).step(t, w.IDs[:48])
			for id, want := range tt.want {
				if got := float64(rows[47][id]); !(math.Abs(got-want) <= 1e-3) {
					t.Errorf("logit %g of token %d, want %g", got, id, want)
				}
			}
		})
	}
}
