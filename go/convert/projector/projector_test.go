package projector

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// What published checkpoints leave out of config.json has the values that transformers has.
func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		config string
		want   map[string]any
	}{
		{`{"architectures": ["LlavaForConditionalGeneration"], "text_config": {"model_type": "mistral", "hidden_size": 5120},
			"vision_config": {"head_dim": 64, "hidden_act": "silu", "image_size": 1024, "model_type": "pixtral", "patch_size": 16}}`,
			map[string]any{"vision.embedding_length": 1024, "vision.feed_forward_length": 4096, "vision.block_count": 24,
				"vision.attention.head_count": 16, "vision.projection_dim": 5120, "use_silu": true}},
		{`{"architectures": ["LlavaForConditionalGeneration"], "text_config": {"model_type": "llama", "max_position_embeddings": 4096},
			"vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
			"num_attention_heads": 16, "image_size": 336, "patch_size": 14}}`,
			map[string]any{"vision.embedding_length": 1024, "vision.projection_dim": 4096, "vision.block_count": 24, "projector_type": "mlp"}},
		{`{"architectures": ["SmolVLMForConditionalGeneration"], "text_config": {"model_type": "llama", "hidden_size": 2048},
			"vision_config": {"model_type": "smolvlm_vision", "image_size": 384, "num_hidden_layers": 27, "patch_size": 14}}`,
			map[string]any{"vision.embedding_length": 1152, "vision.feed_forward_length": 3072, "vision.attention.head_count": 16,
				"vision.block_count": 27}},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"config.json": c.config, "preprocessor_config.json": `{"image_mean": [0, 0, 0], "image_std": [1, 1, 1]}`,
			"tokenizer_config.json": `{"added_tokens_decoder": {"12": {"content": "[IMG_BREAK]"}}}`,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		config, err := hf.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Of(config)
		if err != nil {
			t.Fatal(err)
		}
		k := &lang.Keys{Config: config, Arch: f.Arch}
		f.Keys(k)
		got := map[string]any{}
		for _, kv := range k.KVs {
			got[kv.Key] = kv.Value
		}
		for key, want := range c.want {
			if fmt.Sprint(got["clip."+key]) != fmt.Sprint(want) {
				t.Errorf("%s: %s is %v, want %v (%v)", c.config, key, got["clip."+key], want, config.Err())
			}
		}
	}
}

// Checkpoints without their encoders are refused with the reason, and MiniCPM-V of versions that are not known.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"architectures": ["LlavaLlamaForCausalLM"], "hidden_size": 8}`:                                 "another repository",
		`{"architectures": ["MobileLlamaForCausalLM"], "hidden_size": 8}`:                                "another repository",
		`{"architectures": ["Nothing"]}`:                                                                 "no projector that is converted",
		`{"architectures": ["MiniCPMV"], "version": 9.0, "hidden_size": 128, "query_num": 4}`:            "MiniCPM-V 9.0",
		`{"architectures": ["MiniCPMV"], "version": 2.6, "hidden_size": 128}`:                            "query_num",
		`{"architectures": ["GlmForCausalLM"], "hidden_size": 8}`:                                        "no vision_config",
		`{"architectures": ["GraniteSpeechForConditionalGeneration"], "hidden_size": 8}`:                 "no encoder_config",
		`{"architectures": ["DeepseekOCRForCausalLM"], "hidden_size": 8, "vision_config": {"width": 3}}`: "width",
		`{"architectures": ["Phi4ForCausalLMV"], "hidden_size": 8, "vision_config": {}}`:                 "patch_size",
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"config.json": text, "preprocessor_config.json": "{}"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		config, err := hf.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Of(config)
		if err == nil {
			f.Keys(&lang.Keys{Config: config, Arch: f.Arch})
			err = config.Err()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A name has its first number apart.
func TestParse(t *testing.T) {
	for name, want := range map[string]lang.Source{
		"visual.blocks.12.attn.qkv.weight":     {Layer: 12, Name: "visual.blocks.#.attn.qkv.weight", Expert: -1},
		"v.blocks.7.mlp.experts.12.fc1.weight": {Layer: 7, Name: "v.blocks.#.mlp.experts.*.fc1.weight", Expert: 12},
		"v.blocks.7.mlp.experts.fc1.weight":    {Layer: 7, Name: "v.blocks.#.mlp.experts.fc1.weight", Expert: -1},
		"mlp1.3.bias":                          {Layer: 3, Name: "mlp1.#.bias", Expert: -1},
		"mlp1.bias":                            {Layer: -1, Name: "mlp1.bias", Expert: -1},
		"a.1.b.2":                              {Layer: 1, Name: "a.#.b.2", Expert: -1},
		"":                                     {Layer: -1, Name: "", Expert: -1},
		"a.123456789.b":                        {Layer: -1, Name: "a.123456789.b", Expert: -1},
	} {
		if got := Parse(name); got != want {
			t.Errorf("%q: %+v, want %+v", name, got, want)
		}
	}
}
