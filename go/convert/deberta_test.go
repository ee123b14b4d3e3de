package convert

import (
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// debertaOf writes a small DeBERTa with other words in config.json and other tensors.
func debertaOf(t *testing.T, family, name string, config, tensors *strings.Replacer) string {
	t.Helper()
	all := readArchive(t, "testdata/transformers/"+family+".json")
	c := all[slices.IndexFunc(all, func(c truth) bool { return c.Name == name })]
	if config != nil {
		was := string(c.Config)
		if c.Config = []byte(config.Replace(was)); string(c.Config) == was {
			t.Fatal("config.json is as it was")
		}
	}
	if tensors != nil {
		was := strings.Join(c.Tensors, "\n")
		now := tensors.Replace(was)
		if now == was {
			t.Fatalf("the tensors are as they were: %s", was)
		}
		c.Tensors = slices.DeleteFunc(strings.Split(now, "\n"), func(line string) bool { return line == "" })
	}
	dir := t.TempDir()
	c.write(t, dir)
	save(t, dir, "tokenizer.json", anyTokenizer(272))
	save(t, dir, "tokenizer_config.json", `{"bos_token": "<s>", "eos_token": "</s>"}`)
	return dir
}

// TestDeBERTaRefused gives checkpoints settings that are not computed, and tensors that do not fit. Each is an error of one
// line that names the fault.
func TestDeBERTaRefused(t *testing.T) {
	was := strings.NewReplacer
	for _, tt := range []struct {
		family, name    string
		config, tensors *strings.Replacer
		want            string
	}{
		{"debertav2", "plain", was(`"position_buckets":8`, `"position_buckets":2`), nil, "2 buckets"},
		{"debertav2", "plain", was(`"position_buckets":8`, `"position_buckets":9`), nil, "9 buckets"},
		{"debertav2", "plain", was(`"position_buckets":8`, `"position_buckets":1e9`), nil, "want 0 to"},
		{"debertav2", "plain", was(`"position_buckets":8`, `"position_buckets":1e30`), nil, "position_buckets is 1e+30"},
		{"debertav2", "plain", was(`"position_buckets":8`, `"position_buckets":"8"`), nil, "position_buckets"},
		{"debertav2", "plain", was(`"position_buckets":8`, `"position_buckets":16`), nil, "attn_rel_k.weight"},
		{"debertav2", "plain", was(`"max_relative_positions":-1`, `"max_relative_positions":1e30`), nil, "max_relative_positions is 1e+30"},
		{"debertav2", "plain", was(`"max_relative_positions":-1`, `"max_relative_positions":4`), nil, "8 buckets of 4"},
		{"debertav2", "each", was(`"max_relative_positions":-1`, `"max_relative_positions":32`), nil, "attn_rel_k.weight"},
		{"debertav2", "plain", was(`["c2p","p2c"]`, `["c2p","p2p"]`), nil, "pos_att_type"},
		{"debertav2", "plain", was(`["c2p","p2c"]`, `["c2p","c2p"]`), nil, "pos_att_type"},
		{"debertav2", "plain", was(`["c2p","p2c"]`, `[3]`), nil, "pos_att_type"},
		{"debertav2", "plain", was(`"layer_norm"`, `"rms_norm"`), nil, "norm_rel_ebd"},
		{"debertav2", "plain", was(`"hidden_size":64`, `"hidden_size":64,"embedding_size":32`), nil, "embedding_size is 32"},
		{"debertav2", "plain", was(`"hidden_size":64`, `"hidden_size":64,"attention_head_size":32`), nil, "attention_head_size is 32"},
		{"debertav2", "plain", was(`"share_att_key":true`, `"share_att_key":false`), nil, "has c2p, and layer 0 has no projection"},
		{"debertav2", "plain", was(`"position_biased_input":false`, `"position_biased_input":true`), nil, "position_biased_input"},
		{"debertav2", "plain", was(`"num_attention_heads":4`, `"num_attention_heads":8`), nil, "attention.head_count"},
		{"debertav2", "plain", was(`"num_attention_heads":4`, `"num_attention_heads":0`), nil, "head_count"},
		{"debertav2", "plain", nil, was("encoder.rel_embeddings.weight 16 64 0.5 0", ""), "no encoder.rel_embeddings.weight"},
		{"debertav2", "plain", nil, was("encoder.rel_embeddings.weight 16 64", "encoder.rel_embeddings.weight 16 32"), "[16 32] and [64 64]"},
		{"debertav2", "plain", nil, was("encoder.rel_embeddings.weight 16 64", "encoder.rel_embeddings.weight 16"), "shapes [16]"},
		{"debertav2", "plain", nil, was("encoder.LayerNorm.weight 64", "encoder.LayerNorm.weight 32"), "want a norm of rows"},
		{"debertav2", "plain", nil, was("encoder.LayerNorm.weight 64 0.4 0.8", ""), "no encoder.LayerNorm"},
		{"debertav2", "conv", was(`"conv_kernel_size":3`, `"conv_kernel_size":4`), nil, "conv_kernel_size is 4"},
		{"debertav2", "conv", was(`"conv_kernel_size":3`, `"conv_kernel_size":3,"conv_groups":2`), nil, "conv_groups"},
		{"debertav2", "conv", was(`"conv_act":"gelu"`, `"conv_act":"sine"`), nil, "sine"},
		{"debertav2", "conv", nil, was("encoder.conv.conv.weight 64 64 3", "encoder.conv.conv.weight 64 64"), "three dimensions"},
		{"debertav2", "tanh", was(`"pooler_hidden_act":"tanh"`, `"pooler_hidden_act":"sine"`), nil, "sine"},
		{"debertav2", "texts", was(`"pooler_hidden_size":64`, `"pooler_hidden_size":32`), nil, "pooler_hidden_size is 32"},
		{"deberta", "plain", was(`"hidden_size":64`, `"hidden_size":64,"talking_head":true`), nil, "talking_head"},
		{"deberta", "plain", was(`"hidden_size":64`, `"hidden_size":64,"position_buckets":8`), nil, "position_buckets"},
		{"deberta", "plain", nil, was("in_proj.weight 192 64", "in_proj.weight 190 64"), "[190 64]"},
	} {
		dir := debertaOf(t, tt.family, tt.name, tt.config, tt.tensors)
		_, err := converted(t, dir, Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", tt.family, err, tt.want)
		}
	}
}

// TestDeBERTaSpellings converts a checkpoint with the first names of norms, and one with a table of positions that is not
// used, which make what others do.
func TestDeBERTaSpellings(t *testing.T) {
	write := func(tensors *strings.Replacer) *gguf.File {
		f, err := converted(t, debertaOf(t, "debertav2", "plain", nil, tensors), Options{Type: "q4_k_m"})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	want := write(nil)
	for _, name := range []string{"blk.0.attn_rel_k.weight", "blk.2.attn_rel_q.weight"} {
		if x, ok := want.Tensor(name); !ok || !slices.Equal(x.Dims, []uint64{16, 16, 4}) {
			t.Errorf("%s: %v", name, x)
		}
	}
	old := write(strings.NewReplacer("LayerNorm.weight", "LayerNorm.gamma", "LayerNorm.bias", "LayerNorm.beta"))
	for _, line := range diff(shapes(old), shapes(want)) { // whose numbers are others, by their names
		t.Errorf("gamma and beta: %s", line)
	}
	more := write(strings.NewReplacer("embeddings.word_embeddings",
		"embeddings.position_embeddings.weight 512 64 0.5 0\nembeddings.word_embeddings"))
	for _, line := range diff(shapesAndSums(t, more), shapesAndSums(t, want)) {
		t.Errorf("a table of positions: %s", line)
	}
}

// TestDeBERTaAdapter refuses an adapter of a projection that distances share, and takes one of what they do not.
func TestDeBERTaAdapter(t *testing.T) {
	base := debertaOf(t, "debertav2", "plain", nil, nil)
	for module, refused := range map[string]bool{"query_proj": true, "key_proj": true, "value_proj": false} {
		header, data := map[string]any{}, make([]byte, 2*4*64*4)
		name := "base_model.model.encoder.layer.0.attention.self." + module
		header[name+".lora_A.weight"] = map[string]any{"dtype": "F32", "shape": []int{4, 64}, "data_offsets": []int{0, 1024}}
		header[name+".lora_B.weight"] = map[string]any{"dtype": "F32", "shape": []int{64, 4}, "data_offsets": []int{1024, 2048}}
		dir := t.TempDir()
		save(t, dir, "adapter_config.json", adapterSettings)
		save(t, dir, "adapter_model.safetensors", string(safetensorsOf(t, header, data)))
		a, err := OpenAdapter(dir, base, Options{})
		if err == nil {
			a.Close()
		}
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "merge the adapter into its model first") {
			t.Errorf("%s: %v", module, err)
		}
	}
}
