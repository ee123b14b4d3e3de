package convert

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestProjectorsRefused gives checkpoints of encoders faults. Each is an error of one line that names what is wrong.
func TestProjectorsRefused(t *testing.T) {
	cases := projectorCases(t)
	for _, c := range []struct {
		name, of  string
		config    [2]string // what is replaced in config.json, and by what
		tensors   [2]string // in the list of tensors
		processor string    // preprocessor_config.json; empty: as it is; -: none
		typ       string
		want      []string
	}{
		{"none", "qwen3vl", [2]string{"Qwen3VLForCond", "Qwen3ForCond"}, [2]string{}, "", "", []string{"config.json", "no projector", "Gemma3For"}},
		{"no encoder", "gemma3", [2]string{`"vision_config"`, `"blind_config"`}, [2]string{}, "", "", []string{"vision_config"}},
		{"no architectures", "gemma3", [2]string{`"architectures"`, `"buildings"`}, [2]string{}, "", "", []string{"no architectures"}},
		{"a mix", "gemma3", [2]string{}, [2]string{}, "", "Q4_K_M", []string{"Q4_K_M", "q8_0"}},
		{"no processor", "gemma3", [2]string{}, [2]string{}, "-", "", []string{"preprocessor_config.json"}},
		{"two colours", "gemma3", [2]string{}, [2]string{}, `{"image_mean": [0.5, 0.5], "image_std": [0.5, 0.5]}`, "",
			[]string{"preprocessor_config.json", "image_mean", "2"}},
		{"colours of text", "gemma3", [2]string{}, [2]string{}, `{"image_mean": ["red"]}`, "", []string{"image_mean"}},
		{"a processor that is none", "gemma3", [2]string{}, [2]string{}, `[`, "", []string{"preprocessor_config.json"}},
		{"no width", "gemma3", [2]string{`"hidden_size": 32`, `"size": 32`}, [2]string{}, "", "", []string{"hidden_size"}},
		{"huge patches", "gemma3", [2]string{`"patch_size": 4`, `"patch_size": 2000000000`}, [2]string{}, "", "", []string{"patch_size"}},
		{"no patches", "gemma3", [2]string{`"patch_size": 4`, `"patch_size": 0`}, [2]string{}, "", "", []string{"patch_size"}},
		{"huge depth", "qwen3vl", [2]string{`"depth": 3`, `"depth": 2000000000`}, [2]string{}, "", "", []string{"layers"}},
		{"a layer too many", "qwen3vl", [2]string{`"depth": 3`, `"depth": 4`}, [2]string{}, "", "", []string{"layer 3 of 4"}},
		{"a tensor of one layer", "qwen3vl", [2]string{}, [2]string{"0-2: model.visual.blocks.#.norm1.bias", "0-1: model.visual.blocks.#.norm1.bias"},
			"", "", []string{"layers 0 and 2"}},
		{"an unknown tensor", "qwen3vl", [2]string{}, [2]string{"model.visual.pos_embed.weight", "model.visual.surprise.weight"}, "", "",
			[]string{"model.visual.surprise.weight", "--skip"}},
		{"two of a tensor", "qwen3vl", [2]string{}, [2]string{"model.visual.pos_embed.weight 16 32", "model.visual.pos_embed.weight 16 32 1 0\nvisual.pos_embed.weight 16 32"},
			"", "", []string{"model.visual.pos_embed.weight", "same"}},
		{"a layer that is not there", "qwen3vl", [2]string{`"deepstack_visual_indexes": [1]`, `"deepstack_visual_indexes": [7]`}, [2]string{}, "", "",
			[]string{"deepstack_visual_indexes", "7"}},
		{"more than it says", "qwen3vl", [2]string{`"deepstack_visual_indexes": [1]`, `"deepstack_visual_indexes": []`}, [2]string{}, "", "",
			[]string{"deepstack_merger_list.0"}},
		{"three frames", "qwen3vl", [2]string{}, [2]string{"patch_embed.proj.weight 32 3 2 4 4", "patch_embed.proj.weight 32 3 3 4 4"}, "", "",
			[]string{"v.patch_embd.weight", "2 pictures"}},
		{"windows anywhere", "qwen25vl", [2]string{`"fullatt_block_indexes": [1, 3]`, `"fullatt_block_indexes": [1, 2]`}, [2]string{}, "", "",
			[]string{"fullatt_block_indexes"}},
		{"no windows", "qwen25vl", [2]string{`"fullatt_block_indexes"`, `"indexes"`}, [2]string{}, "", "", []string{"fullatt_block_indexes"}},
		{"another encoder", "pixtral", [2]string{`"model_type": "pixtral"`, `"model_type": "dinov2"`}, [2]string{}, "", "",
			[]string{"dinov2", "pixtral", "clip_vision_model"}},
		{"few embeddings", "pixtral", [2]string{}, [2]string{"embed_tokens.weight 48 32", "embed_tokens.weight 12 32"}, "", "",
			[]string{"img_break", "token 12"}},
		{"half a head", "pixtral", [2]string{`"num_attention_heads": 2, "num_channels"`, `"num_attention_heads": 5, "num_channels"`}, [2]string{}, "", "",
			[]string{"attn_k", "5 heads"}},
		{"an activation", "smolvlm", [2]string{`"hidden_act": "gelu_pytorch_tanh"`, `"hidden_act": "sine"`}, [2]string{}, "", "", []string{"sine"}},
		{"half a patch", "lfm2", [2]string{}, [2]string{"patch_embedding.weight 32 768", "patch_embedding.weight 32 760"}, "", "",
			[]string{"v.patch_embd.weight", "square"}},
		{"a share of nothing", "internvl/chat", [2]string{`"downsample_ratio": 0.5`, `"downsample_ratio": 0`}, [2]string{}, "", "", []string{"downsample_ratio"}},
		{"wide waves", "qwen3a", [2]string{`"d_model": 32`, `"d_model": 1000000`}, [2]string{}, "", "", []string{"1000000"}},
		{"five dimensions", "gemma3", [2]string{}, [2]string{"patch_embedding.weight 32 3 4 4", "patch_embedding.weight 32 3 4 2 2"}, "", "",
			[]string{"v.patch_embd.weight"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			of := cases[slices.IndexFunc(cases, func(x projectorCase) bool { return x.Name == c.of })]
			config := spaced(string(of.Config))
			if !strings.Contains(config, c.config[0]) {
				t.Fatalf("config.json lacks %s", c.config[0])
			}
			of.Config = []byte(strings.ReplaceAll(config, c.config[0], c.config[1]))
			list := strings.Join(of.Tensors, "\n")
			if !strings.Contains(list, c.tensors[0]) {
				t.Fatalf("the list of tensors lacks %s", c.tensors[0])
			}
			of.Tensors = strings.Split(strings.ReplaceAll(list, c.tensors[0], c.tensors[1]), "\n")
			switch c.processor {
			case "":
			case "-":
				of.Processor = nil
			default:
				of.Processor = []byte(c.processor)
			}
			dir := t.TempDir()
			of.write(t, dir)
			m, err := OpenProjector(dir, Options{Type: c.typ, Threads: 1})
			if err == nil {
				m.Close()
				t.Fatal("it is converted")
			}
			text := strings.ReplaceAll(err.Error(), dir, "DIR")
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q, want %q", text, want)
				}
			}
			if strings.Contains(text, "\n") || len(text) > 1200 {
				t.Errorf("%q, want one line", text)
			}
		})
	}
}

// spaced returns JSON with a space after each colon and comma.
func spaced(text string) string {
	return strings.NewReplacer(`":`, `": `, `,"`, `, "`, `,0`, `, 0`, `,3`, `, 3`).Replace(text)
}

// FuzzProjector converts encoders with arbitrary settings. They become a projector, or an error of one line.
func FuzzProjector(f *testing.F) {
	cases := projectorCases(f)
	weights, root := map[int]string{}, f.TempDir()
	for i, c := range cases {
		f.Add(i, string(c.Config), string(c.Processor))
	}
	f.Fuzz(func(t *testing.T, of int, config, processor string) {
		of = int(uint(of) % uint(len(cases)))
		if weights[of] == "" {
			weights[of] = filepath.Join(root, strconv.Itoa(of))
			if err := os.Mkdir(weights[of], 0o700); err != nil {
				t.Fatal(err)
			}
			c := cases[of]
			for i, line := range c.Tensors { // their numbers do not matter
				words := strings.Fields(line)
				c.Tensors[i] = strings.Join(words[:len(words)-2], " ") + " none 0"
			}
			c.write(t, weights[of])
		}
		dir := weights[of]
		save(t, dir, "config.json", config)
		save(t, dir, "preprocessor_config.json", processor)
		m, err := OpenProjector(dir, Options{})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q is no line", err)
			}
			return
		}
		m.Close()
	})
}
