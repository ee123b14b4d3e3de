package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzCheckpoint converts checkpoints with arbitrary files. They become a model, or an error of one line.
func FuzzCheckpoint(f *testing.F) {
	good := readCheckpoint(f, "qwen3")
	f.Add(good.config, smallTokenizer(512), `{"bos_token": "<s>"}`)
	f.Add(readCheckpoint(f, "qwen35").config, smallTokenizer(512), `{"chat_template": [{"name": "default", "template": "x"}]}`)
	f.Add(strings.Replace(good.config, "rope_theta", `x": NaN, "rope_theta`, 1), strings.Replace(smallTokenizer(9), "BPE", "Unigram", 1), `{"added_tokens_decoder": {"3": {"content": "x"}}}`)
	f.Add(good.config, strings.Replace(smallTokenizer(9), "BPE", "WordPiece", 1), `{}`)
	for _, config := range []string{
		`{"architectures": ["PlamoForCausalLM"], "num_attention_heads": 0, "num_hidden_layers": 1, "hidden_size": 8}`,
		`{"architectures": ["ExaoneMoEForCausalLM"], "num_hidden_layers": 1, "num_nextn_predict_layers": 2147483647}`,
		`{"architectures": ["DeciLMForCausalLM"], "num_hidden_layers": 1, "num_attention_heads": 2, "block_configs": [{}]}`,
	} {
		f.Add(config, smallTokenizer(9), `{}`)
	}
	dir := f.TempDir()
	weights := f.TempDir()
	good.write(f, weights)
	f.Fuzz(func(t *testing.T, config, tokenizer, settings string) {
		save(t, dir, "config.json", config)
		save(t, dir, "tokenizer.json", tokenizer)
		save(t, dir, "tokenizer_config.json", settings)
		path := filepath.Join(dir, "model.safetensors")
		if _, err := os.Lstat(path); err != nil {
			if err := os.Symlink(filepath.Join(weights, "model.safetensors"), path); err != nil {
				t.Fatal(err)
			}
		}
		m, err := Open(dir, Options{})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q is no line", err)
			}
			return
		}
		m.Close()
	})
}
