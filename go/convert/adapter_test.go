package convert

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

const adapterSettings = `{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "base_model_name_or_path": "somebody/model", "target_modules": ["q_proj"]}`

// writeAdapter writes an adapter that changes queries and the last matrix of the feed-forward network.
func writeAdapter(t *testing.T, dir, settings string, more map[string]any) {
	t.Helper()
	writeAdapterOf(t, dir, settings, more, nil)
}

// writeAdapterOf is writeAdapter with numbers behind those of these matrices.
func writeAdapterOf(t *testing.T, dir, settings string, more map[string]any, numbers []byte) {
	t.Helper()
	save(t, dir, adapterConfig, settings)
	header, data := map[string]any{}, []byte{}
	add := func(name string, rows, cols int) {
		begin := len(data)
		for i := range rows * cols {
			v := math.Float32bits(valueOf(name, i))
			data = append(data, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		}
		header["base_model.model.model.layers."+name+".weight"] = map[string]any{"dtype": "F32", "shape": []int{rows, cols}, "data_offsets": []int{begin, len(data)}}
	}
	add("0.self_attn.q_proj.lora_A", 4, 128)
	add("0.self_attn.q_proj.lora_B", 128, 4)
	add("1.mlp.down_proj.lora_A", 4, 384)
	add("1.mlp.down_proj.lora_B", 128, 4)
	for name, v := range more {
		header[name] = v
	}
	save(t, dir, adapterWeights, string(safetensorsOf(t, header, append(data, numbers...))))
}

// TestAdapter converts an adapter. The rows of a change of queries are reordered as those of the queries are.
func TestAdapter(t *testing.T) {
	dir, base := t.TempDir(), testdata.Path(t, "models/src/TinyStories-656K")
	writeAdapter(t, dir, adapterSettings, nil)
	a, err := OpenAdapter(dir, base, Options{Type: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	f := written(t, &a.output)
	want := []string{
		"blk.0.attn_q.weight.lora_a F32 [128 4]", "blk.0.attn_q.weight.lora_b F32 [4 128]",
		"blk.1.ffn_down.weight.lora_a F32 [384 4]", "blk.1.ffn_down.weight.lora_b F32 [4 128]",
	}
	if got := shapes(f); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for key, want := range map[string]any{"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": float32(8)} {
		if v, _ := f.Value(key); v != want {
			t.Errorf("%s is %v", key, v)
		}
	}
	got := floatsOf(t, f, "blk.0.attn_q.weight.lora_b")
	for row := range 128 { // 8 heads of 16: channel 2 i + k was 8 k + i
		was := row/16*16 + row%16%2*8 + row%16/2
		for col := range 4 {
			if want := valueOf("0.self_attn.q_proj.lora_B", 4*was+col); got[4*row+col] != want {
				t.Fatalf("row %d, column %d: %v, want %v", row, col, got[4*row+col], want)
			}
		}
	}
}

// TestAdapterWithMagnitudes converts an adapter of DoRA. Magnitudes of queries are reordered as their rows are.
func TestAdapterWithMagnitudes(t *testing.T) {
	dir, base := t.TempDir(), testdata.Path(t, "models/src/TinyStories-656K")
	more, at := map[string]any{}, 4*(4*128+128*4+4*384+128*4)
	var numbers []byte
	for _, name := range []string{"0.self_attn.q_proj", "1.mlp.down_proj"} {
		for i := range 128 {
			numbers = binary.LittleEndian.AppendUint32(numbers, math.Float32bits(valueOf(name, i)))
		}
		more["base_model.model.model.layers."+name+".lora_magnitude_vector"] = map[string]any{"dtype": "F32", "shape": []int{128}, "data_offsets": []int{at, at + 512}}
		at += 512
	}
	writeAdapterOf(t, dir, strings.Replace(adapterSettings, `"r"`, `"use_dora": true, "r"`, 1), more, numbers)
	a, err := OpenAdapter(dir, base, Options{Type: "f16"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	f := written(t, &a.output)
	want := []string{
		"blk.0.attn_q.weight.lora_a F16 [128 4]", "blk.0.attn_q.weight.lora_b F16 [4 128]", "blk.0.attn_q.weight.lora_m F32 [128]",
		"blk.1.ffn_down.weight.lora_a F16 [384 4]", "blk.1.ffn_down.weight.lora_b F16 [4 128]", "blk.1.ffn_down.weight.lora_m F32 [128]",
	}
	if got := shapes(f); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if v, _ := f.Value("adapter.type"); v != "dora" {
		t.Errorf("adapter.type is %v", v)
	}
	queries, down := floatsOf(t, f, "blk.0.attn_q.weight.lora_m"), floatsOf(t, f, "blk.1.ffn_down.weight.lora_m")
	for row := range 128 {
		was := row/16*16 + row%16%2*8 + row%16/2
		if want := valueOf("0.self_attn.q_proj", was); queries[row] != want {
			t.Fatalf("magnitude %d of queries: %v, want %v", row, queries[row], want)
		}
		if want := valueOf("1.mlp.down_proj", row); down[row] != want {
			t.Fatalf("magnitude %d: %v, want %v", row, down[row], want)
		}
	}
}

func TestAdapterRefused(t *testing.T) {
	base := testdata.Path(t, "models/src/TinyStories-656K")
	for _, c := range []struct {
		name, settings string
		base           string
		more           map[string]any
		want           []string
	}{
		{"no base", adapterSettings, "", nil, []string{"somebody/model", "--base"}},
		{"dora", strings.Replace(adapterSettings, `"r"`, `"use_dora": true, "r"`, 1), base, nil, []string{"q_proj", "lora_magnitude_vector of 128 numbers"}},
		{"magnitudes of none", adapterSettings, base, map[string]any{"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector": map[string]any{"dtype": "F32", "shape": []int{0}, "data_offsets": []int{0, 0}}},
			[]string{"lora_magnitude_vector", "plain LoRA"}},
		{"patterns", strings.Replace(adapterSettings, `"r"`, `"alpha_pattern": {"x": 1}, "r"`, 1), base, nil, []string{"alpha_pattern"}},
		{"another kind", strings.Replace(adapterSettings, "LORA", "LOHA", 1), base, nil, []string{"LOHA", "LORA"}},
		{"whole modules", adapterSettings, base, map[string]any{"base_model.model.lm_head.weight": map[string]any{"dtype": "F32", "shape": []int{0, 4}, "data_offsets": []int{0, 0}}},
			[]string{"lm_head", "merge it"}},
		{"half a pair", adapterSettings, base, map[string]any{"base_model.model.model.layers.0.mlp.up_proj.lora_A.weight": map[string]any{"dtype": "F32", "shape": []int{4, 0}, "data_offsets": []int{0, 0}}},
			[]string{"mlp.up_proj", "only one"}},
		{"no alpha", `{}`, base, nil, []string{"lora_alpha"}},
	} {
		dir := t.TempDir()
		writeAdapter(t, dir, c.settings, c.more)
		_, err := OpenAdapter(dir, c.base, Options{})
		refused(t, c.name, err, c.want...)
	}
	for module, want := range map[string]string{
		"model.vision_tower.vision_model.encoder.layers.0.self_attn.q_proj": "none of the text model's",
		"model.layers.2.self_attn.q_proj":                                   "layer 2",
	} {
		dir := t.TempDir()
		save(t, dir, adapterConfig, adapterSettings)
		save(t, dir, adapterWeights, string(safetensorsOf(t, map[string]any{
			"base_model.model." + module + ".lora_A.weight": map[string]any{"dtype": "F32", "shape": []int{1, 128}, "data_offsets": []int{0, 512}},
			"base_model.model." + module + ".lora_B.weight": map[string]any{"dtype": "F32", "shape": []int{128, 1}, "data_offsets": []int{512, 1024}},
		}, make([]byte, 1024))))
		_, err := OpenAdapter(dir, base, Options{})
		refused(t, module, err, module, want)
	}
	_, err := OpenAdapter(t.TempDir(), base, Options{})
	refused(t, "nothing", err, adapterConfig)
	if IsAdapter(t.TempDir()) {
		t.Error("an empty folder is an adapter")
	}
}

// refused checks that an error is one line that has these words.
func refused(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	if strings.ContainsAny(err.Error(), "\n\x00") || len(err.Error()) > 4000 {
		t.Errorf("%s: %q is no line", what, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}
