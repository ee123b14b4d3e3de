package convert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// TestRefused breaks a checkpoint in several ways. Each is an error of one line that names the fault.
func TestRefused(t *testing.T) {
	good := readCheckpoint(t, "qwen3")
	for _, c := range []struct {
		name   string
		config [2]string // replaced in config.json
		tensor [2]string // replaced in the tensors
		break_ func(t *testing.T, dir string)
		want   []string
	}{
		{"unknown architecture", [2]string{"Qwen3ForCausalLM", "MambaNobodyKnows"}, [2]string{}, nil, []string{"MambaNobodyKnows", "LlamaForCausalLM"}},
		{"no architectures", [2]string{`["Qwen3ForCausalLM"]`, "[]"}, [2]string{}, nil, []string{"config.json", "architectures"}},
		{"architectures of numbers", [2]string{`["Qwen3ForCausalLM"]`, "[3]"}, [2]string{}, nil, []string{"config.json", "architectures"}},
		{"half a config", [2]string{`}`, ""}, [2]string{}, nil, []string{"config.json"}},
		{"no layers", [2]string{`"num_hidden_layers": 4, `, ""}, [2]string{}, nil, []string{"num_hidden_layers"}},
		{"layers of text", [2]string{`"num_hidden_layers": 4`, `"num_hidden_layers": "4"`}, [2]string{}, nil, []string{"num_hidden_layers", "integer"}},
		{"too many layers", [2]string{`"num_hidden_layers": 4`, `"num_hidden_layers": 2000000000`}, [2]string{}, nil, []string{"layers"}},
		{"a head of nothing", [2]string{`"num_attention_heads": 4`, `"num_attention_heads": 0`}, [2]string{}, nil, nil},
		{"negative heads", [2]string{`"num_key_value_heads": 2`, `"num_key_value_heads": -2`}, [2]string{}, nil, []string{"num_key_value_heads"}},
		{"a huge vocabulary", [2]string{`"vocab_size": 512`, `"vocab_size": 2000000000`}, [2]string{}, nil, []string{"vocab_size"}},
		{"unknown rotations", [2]string{`"rope_theta": 1000000`, `"rope_theta": 1000000, "rope_scaling": {"rope_type": "spiral"}`}, [2]string{}, nil, []string{"spiral"}},
		{"quantized", [2]string{`"rope_theta"`, `"quantization_config": {"quant_method": "aqlm"}, "rope_theta"`}, [2]string{}, nil, []string{"config.json", "aqlm", "gptq"}},
		{"a tensor is missing", [2]string{}, [2]string{"0-3: model.layers.#.mlp.up_proj.weight 192 64", ""}, nil, []string{"ffn_up"}},
		{"a layer is missing", [2]string{}, [2]string{"0-3: model.layers.#.mlp.up_proj.weight", "0-2: model.layers.#.mlp.up_proj.weight"}, nil, []string{"blk.3.ffn_up"}},
		{"a tensor too many", [2]string{}, [2]string{"model.norm.weight 64", "model.norm.weight 64\nmodel.surprise.weight 64"}, nil, []string{"model.surprise.weight", "--skip"}},
		{"a layer too many", [2]string{}, [2]string{"0-3: model.layers.#.mlp.up_proj", "0-4: model.layers.#.mlp.up_proj"}, nil, []string{"layer 4"}},
		{"a wrong shape", [2]string{}, [2]string{"up_proj.weight 192 64", "up_proj.weight 64 192"}, nil, []string{"ffn_up"}},
		{"a tensor of bytes", [2]string{}, [2]string{"up_proj.weight 192 64", "up_proj.weight 192 64 U8"}, nil, []string{"ffn_up"}},
		{"a shape of nothing", [2]string{}, [2]string{"up_proj.weight 192 64", "up_proj.weight 0 64"}, nil, []string{"ffn_up"}},
		{"no tokenizer", [2]string{}, [2]string{}, func(t *testing.T, dir string) { remove(t, dir, "tokenizer.json") }, []string{"tokenizer.json"}},
		{"an unknown tokenizer", [2]string{}, [2]string{}, func(t *testing.T, dir string) {
			save(t, dir, "tokenizer.json", strings.Replace(smallTokenizer(512), `"type":"BPE"`, `"type":"Divination"`, 1))
		}, []string{"tokenizer.json", "Divination"}},
		{"pieces of nothing", [2]string{}, [2]string{}, func(t *testing.T, dir string) {
			remove(t, dir, "tokenizer.json")
			save(t, dir, "tokenizer.model", "\x00")
		}, []string{"tokenizer.model: not a SentencePiece model"}},
		{"an unknown pre-tokenizer", [2]string{}, [2]string{}, func(t *testing.T, dir string) {
			save(t, dir, "tokenizer.json", strings.Replace(smallTokenizer(512), `p{L}+`, `p{L}{2,7}`, 1))
		}, []string{"tokenizer.json", "--pre", "{2,7}"}},
		{"merges of numbers", [2]string{}, [2]string{}, func(t *testing.T, dir string) {
			save(t, dir, "tokenizer.json", strings.Replace(smallTokenizer(512), `["th","e"]`, `[1,2]`, 1))
		}, []string{"merges[1]"}},
		{"more tokens than rows", [2]string{`"vocab_size": 512`, `"vocab_size": 600`}, [2]string{}, nil, []string{"600", "512"}},
		{"a template of numbers", [2]string{}, [2]string{}, func(t *testing.T, dir string) { save(t, dir, "tokenizer_config.json", `{"chat_template": 7}`) }, []string{"chat_template"}},
		{"weights that are no floats", [2]string{}, [2]string{}, func(t *testing.T, dir string) {
			path := filepath.Join(dir, "model.safetensors")
			save(t, dir, "model.safetensors", strings.Replace(string(must(os.ReadFile(path))), `"F32"`, `"U32"`, 1))
		}, []string{"is U32, want floats"}},
		{"no weights", [2]string{}, [2]string{}, func(t *testing.T, dir string) { remove(t, dir, "model.safetensors") }, []string{"model.safetensors"}},
		{"the configuration of a wider model", [2]string{`"hidden_size": 64`, `"hidden_size": 128`}, [2]string{}, nil, []string{"shape"}},
		{"the configuration of a model of another kind", [2]string{"Qwen3ForCausalLM", "LlamaForCausalLM"}, [2]string{}, nil, []string{"none that llama models have"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			made := good
			made.config = strings.Replace(made.config, c.config[0], c.config[1], 1)
			if c.config[0] == "}" {
				made.config = strings.TrimSuffix(strings.TrimSpace(good.config), "}")
			}
			made.tensors = strings.Replace(made.tensors, c.tensor[0], c.tensor[1], 1)
			made.write(t, dir)
			if c.break_ != nil {
				c.break_(t, dir)
			}
			m, err := Open(dir, Options{})
			if err == nil {
				m.Close()
			}
			refused(t, c.name, err, c.want...)
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// TestSizesRefused names the sizes that a family's checkpoints may have and no model here computes.
func TestSizesRefused(t *testing.T) {
	for _, c := range []struct {
		family, was, is string
		want            []string
	}{
		{"bart", `"decoder_attention_heads":4`, `"decoder_attention_heads":2`, []string{"decoder_attention_heads is 2", "want 4"}},
		{"jamba", `"mamba_dt_rank":16`, `"mamba_dt_rank":7`, []string{"time_step_rank", "7, want a multiple of 16"}},
	} {
		dir, made := t.TempDir(), readArchive(t, "testdata/transformers/"+c.family+".json")[0]
		config := strings.Replace(string(made.Config), c.was, c.is, 1)
		if config == string(made.Config) {
			t.Fatalf("%s: no %s", c.family, c.was)
		}
		made.Config = []byte(config)
		made.write(t, dir)
		save(t, dir, "tokenizer.json", anyTokenizer(272))
		save(t, dir, "tokenizer_config.json", `{"bos_token": "<s>", "eos_token": "</s>"}`)
		_, err := Open(dir, Options{})
		refused(t, c.family, err, c.want...)
	}
}

// TestNothingHalfWritten truncates a checkpoint during a conversion, and cancels a conversion: no file is left.
func TestNothingHalfWritten(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	readCheckpoint(t, "qwen3").write(t, dir)
	path := filepath.Join(to, "model.gguf")
	m, err := Open(dir, Options{Type: "q8_0"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := m.WriteFile(stopped, path, false); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	need, err := m.empty().Size() // how much must be free on the disk
	if n, wrote := m.WriteFile(t.Context(), path, false); err != nil || wrote != nil || uint64(n) != need {
		t.Errorf("%d bytes, %v; %d were to be written, %v", n, wrote, need, err)
	}
	if err := errors.Join(os.Remove(path), os.Truncate(filepath.Join(dir, "model.safetensors"), 20000)); err != nil {
		t.Fatal(err)
	}
	_, err = m.WriteFile(t.Context(), path, false)
	refused(t, "a file that was cut", err, "model.safetensors")
	if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// TestMixes converts to a mix of types, and refuses a mix that needs an importance matrix.
func TestMixes(t *testing.T) {
	dir := t.TempDir()
	checkpoint{config: `{"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 1, "hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 4,
"num_key_value_heads": 4, "head_dim": 64, "max_position_embeddings": 512, "vocab_size": 261, "rms_norm_eps": 1e-6, "tie_word_embeddings": true}`,
		tensors: `
model.embed_tokens.weight 261 256
model.norm.weight 256
model.layers.0.input_layernorm.weight 256
model.layers.0.post_attention_layernorm.weight 256
model.layers.0.self_attn.q_proj.weight 256 256
model.layers.0.self_attn.k_proj.weight 256 256
model.layers.0.self_attn.v_proj.weight 256 256
model.layers.0.self_attn.o_proj.weight 256 256
model.layers.0.self_attn.q_norm.weight 64
model.layers.0.self_attn.k_norm.weight 64
model.layers.0.mlp.gate_proj.weight 256 256
model.layers.0.mlp.up_proj.weight 256 256
model.layers.0.mlp.down_proj.weight 256 256
`}.write(t, dir)
	f, err := converted(t, dir, Options{Type: "q4_k_m"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]gguf.Type{
		"token_embd.weight": gguf.Q6_K, "blk.0.attn_q.weight": gguf.Q4_K, "blk.0.attn_v.weight": gguf.Q6_K, "blk.0.attn_q_norm.weight": gguf.F32,
	} {
		if x, ok := f.Tensor(name); !ok || x.Type != want {
			t.Errorf("%s is %v, want %v", name, x, want)
		}
	}
	if n, err := f.Uint("general.file_type"); n != 15 || err != nil {
		t.Errorf("the type of the file is %d, %v", n, err)
	}
	_, err = converted(t, dir, Options{Type: "IQ2_XXS"})
	refused(t, "two bits", err, "IQ2_XXS", "importance matrix")
}

// TestNotFinite refuses weights that are infinite or NaN.
func TestNotFinite(t *testing.T) {
	dir := t.TempDir()
	readCheckpoint(t, "qwen3").write(t, dir)
	path := filepath.Join(dir, "model.safetensors")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(b[len(b)-4:], "\x00\x00\xc0\x7f")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, err = m.WriteFile(t.Context(), filepath.Join(t.TempDir(), "model.gguf"), false)
	refused(t, "not a number", err, "finite")
}

// TestMostly chooses the type of the output by the tensors that are written, not by those of images.
func TestMostly(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, "model.safetensors", string(safetensorsOf(t, map[string]any{
		"model.vision_tower.x.weight": map[string]any{"dtype": "F32", "shape": []int{2, 4}, "data_offsets": []int{0, 32}},
		"model.embed_tokens.weight":   map[string]any{"dtype": "BF16", "shape": []int{2, 2}, "data_offsets": []int{32, 40}},
	}, make([]byte, 40))))
	weights, err := safetensors.OpenFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	m := &Model{weights: weights, family: &lang.Family{}, config: &hf.Config{}}
	if got := m.mostly(); got != gguf.BF16 {
		t.Errorf("got %v", got)
	}
}
