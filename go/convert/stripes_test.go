package convert

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/convert/family"
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// TestStriped reads queries, keys and values that were divided between two machines before they were quantized, as MiMo
// V2.5's are: each has 10 of 20 rows, in blocks of 4, of which the last is shorter.
func TestStriped(t *testing.T) {
	const (
		rows, cols, machines = 20, 10, 2
		each, side           = rows / machines, 4
		down, across         = 3, 3 // blocks of a machine
	)
	const good = `{"architectures": ["MiMoV2ForCausalLM"], "num_hidden_layers": 2, "hidden_size": 10, "num_attention_heads": 4, "head_dim": 2, "v_head_dim": 1, "num_key_value_heads": 2, "swa_num_key_value_heads": 4,
"hybrid_layer_pattern": [0, 1], "quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 4]}}`
	read := func(config string, layer string, down int) ([]float32, error) {
		name, dir := "model."+layer+".self_attn.qkv_proj.weight", t.TempDir()
		data := make([]byte, 0, rows*cols+4*down*across)
		for range rows * cols {
			data = append(data, 0x38) // 1
		}
		for i := range down * across {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i)))
		}
		save(t, dir, "config.json", config)
		save(t, dir, "model.safetensors", string(safetensorsOf(t, map[string]any{
			name:                map[string]any{"dtype": "F8_E4M3", "shape": []int{rows, cols}, "data_offsets": []int{0, rows * cols}},
			name + "_scale_inv": map[string]any{"dtype": "F32", "shape": []int{down, across}, "data_offsets": []int{rows * cols, len(data)}},
		}, data)))
		m := &Model{config: must(hf.Read(dir)), weights: must(safetensors.OpenFile(filepath.Join(dir, "model.safetensors")))}
		defer m.weights.Close()
		m.family = must(family.Of(m.config))
		v, err := m.of(name)
		if err != nil {
			return nil, err
		}
		got := make([]float32, rows*cols)
		return got, v.Read(got, 0)
	}
	var want []float32
	for _, kind := range []struct{ from, rows int }{{0, 4}, {4, 4}, {8, 2}} { // of a machine
		for i := range machines {
			for r := range kind.rows {
				for c := range cols {
					want = append(want, float32((i*down+(kind.from+r)/side)*across+c/side))
				}
			}
		}
	}
	for _, layer := range []string{"layers.1", "mtp.layers.0"} { // both have a window
		got, err := read(good, layer, machines*down)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v,\nwant %v, %v", layer, got, want, err)
		}
	}
	for _, c := range []struct {
		name, old, now, layer string
		down                  int
	}{
		{"a layer without a window", "", "", "layers.0", machines * down},
		{"blocks that no machine's end", "", "", "layers.1", rows / side},
		{"other blocks", "[4, 4]", "[8, 4]", "layers.1", machines * down},
		{"other columns of blocks", "[4, 4]", "[4, 8]", "layers.1", machines * down},
		{"no size of blocks", `, "weight_block_size": [4, 4]`, "", "layers.1", machines * down},
		{"heads that machines do not share", `"num_key_value_heads": 2, "swa_num_key_value_heads": 4`, `"num_key_value_heads": 3, "swa_num_key_value_heads": 4`, "layers.1", machines * down},
		{"nothing for a machine", `"num_key_value_heads": 2`, `"num_key_value_heads": 0`, "layers.1", machines * down},
	} {
		_, err := read(strings.Replace(good, c.old, c.now, 1), c.layer, c.down)
		refused(t, c.name, err)
	}
}

// TestSharedScale reads a part of Qwen 4 Exp's table of n-grams in 8 bits: all parts share one scale.
func TestSharedScale(t *testing.T) {
	dir := t.TempDir()
	const table = "model.layers.1.ple.ple_embedding.ngram_embedding"
	save(t, dir, "config.json", `{"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}`)
	save(t, dir, "model.safetensors", string(safetensorsOf(t, map[string]any{
		table + ".shard_3.weight": map[string]any{"dtype": "F8_E4M3", "shape": []int{2, 2}, "data_offsets": []int{0, 4}},
		table + ".weight_scale":   map[string]any{"dtype": "BF16", "shape": []int{}, "data_offsets": []int{4, 6}},
	}, []byte{0x38, 0x38, 0x38, 0x40, 0x00, 0x3f}))) // 1, 1, 1, 2 times 0.5
	m := &Model{config: must(hf.Read(dir)), weights: must(safetensors.OpenFile(filepath.Join(dir, "model.safetensors")))}
	defer m.weights.Close()
	v, got := must(m.of(table+".shard_3.weight")), make([]float32, 4)
	if err := v.Read(got, 0); err != nil || !slices.Equal(got, []float32{0.5, 0.5, 0.5, 1}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestMachines converts Grok 2 as it was published: its experts are in the files of several machines, and its
// vocabulary has a format of its own.
func TestMachines(t *testing.T) {
	dir := t.TempDir()
	c := checkpoint{config: sized("Grok1ForCausalLM", 1, 64, 64, 4, 2, 512, `"head_dim": 16, "rms_norm_eps": 1e-5, "num_local_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "embedding_multiplier_scale": 4,
"output_multiplier_scale": 0.5, "final_logit_softcapping": 50, "rope_type": "original", "original_max_position_embeddings": 8192, "scaling_factor": 16.0, "extrapolation_factor": 1.0, "attn_factor": 1.0,
"beta_fast": 8, "beta_slow": 1, "attn_temperature_len": 1024`), tensors: `
model.embed_tokens.weight 512 64
model.norm.weight 64
lm_head.weight 512 64
0: model.layers.#.self_attn.q_proj.weight 64 64
0: model.layers.#.self_attn.k_proj.weight 32 64
0: model.layers.#.self_attn.v_proj.weight 32 64
0: model.layers.#.self_attn.o_proj.weight 64 64
0: model.layers.#.pre_attn_norm.weight 64
0: model.layers.#.post_attn_norm.weight 64
0: model.layers.#.pre_moe_norm.weight 64
0: model.layers.#.post_moe_norm.weight 64
0: model.layers.#.mlp.gate_proj.weight 64 64
0: model.layers.#.mlp.up_proj.weight 64 64
0: model.layers.#.mlp.down_proj.weight 64 64
0: model.layers.#.block_sparse_moe.gate.weight 8 64
0: model.layers.#.block_sparse_moe.experts.*.w1.weight 64 64
0: model.layers.#.block_sparse_moe.experts.*.w2.weight 64 64
0: model.layers.#.block_sparse_moe.experts.*.w3.weight 64 64
`}
	c.write(t, dir)
	want := shapesAndSums(t, must(converted(t, dir, Options{})))

	const machines = 4
	apart := t.TempDir()
	save(t, apart, "config.json", c.config)
	save(t, apart, "tokenizer.tok.json", listed())
	files := map[string]map[string]any{}
	data := map[string][]byte{}
	put := func(file, name string, shape []int, value func(i int) float32) {
		if files[file] == nil {
			files[file] = map[string]any{}
		}
		n, begin := 1, len(data[file])
		for _, d := range shape {
			n *= d
		}
		for i := range n {
			data[file] = binary.LittleEndian.AppendUint32(data[file], math.Float32bits(value(i)))
		}
		files[file][name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{begin, len(data[file])}}
	}
	for _, x := range c.list(t) {
		kind := x.name[max(0, len(x.name)-len("w1.weight")):]
		if !strings.Contains(x.name, ".experts.") {
			put("pytorch_model-00000-TP-common.safetensors", x.name, x.shape, func(i int) float32 { return valueOf(x.name, i) })
			continue
		}
		for m := range machines {
			shape, at := []int{16, 64}, func(i int) int { return m*16*64 + i }
			if kind == "w2.weight" {
				shape, at = []int{64, 16}, func(i int) int { return i/16*64 + m*16 + i%16 }
			}
			put(fmt.Sprintf("pytorch_model-0000%c-TP-%03d.safetensors", '0'+kind[1]-'0', m), x.name, shape, func(i int) float32 { return valueOf(x.name, at(i)) })
		}
	}
	for name, header := range files {
		save(t, apart, name, string(safetensorsOf(t, header, data[name])))
	}
	if !Is(apart) {
		t.Error("it is not taken for a checkpoint")
	}
	made := must(converted(t, apart, Options{}))
	if got := shapesAndSums(t, made); !slices.Equal(got, want) {
		t.Errorf("got %q,\nwant %q", got, want)
	}
	if pre, _ := made.Value("tokenizer.ggml.pre"); pre != "grok-2" {
		t.Errorf("words are cut as %v", pre)
	}
}

// shapesAndSums returns a line for each tensor: its name, type, dimensions and the checksum of its bytes.
func shapesAndSums(t *testing.T, f *gguf.File) []string {
	t.Helper()
	var all []string
	for _, x := range f.Tensors {
		all = append(all, fmt.Sprintf("%s %v %v %08x", x.Name, x.Type, x.Dims, crc32.ChecksumIEEE(x.Data)))
	}
	return all
}

// listed returns a vocabulary in Grok 2's format: 3 special tokens, then bytes and two merged tokens.
func listed() string {
	type token struct {
		ID    int   `json:"token"`
		Bytes []int `json:"bytes"`
	}
	of := func(id int, text string) token {
		t := token{ID: id}
		for i := range len(text) {
			t.Bytes = append(t.Bytes, int(text[i]))
		}
		return t
	}
	regular := []token{of(259, "th"), of(260, "the")}
	for b := range 256 {
		regular = append(regular, token{3 + b, []int{b}})
	}
	text, err := json.Marshal(map[string]any{
		"regular_tokens": regular, "special_tokens": []token{of(0, "<|pad|>"), of(1, "<|separator|>"), of(2, "<|eos|>")}, "word_split": "V1", "vocab_size": 512,
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}
