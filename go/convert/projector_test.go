package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/safetensors"
)

// A projectorCase is a small checkpoint, and the projector that llama.cpp's converter writes of it.
// scripts/golden_mmproj.py writes it, and says what its fields are.
type projectorCase struct {
	Name              string
	Config, Processor json.RawMessage
	Types, Also       []string
	Tensors           []string
	Keys              map[string][2]json.RawMessage
	Written           []string
}

func projectorCases(t testing.TB) []projectorCase {
	t.Helper()
	var all []projectorCase
	for _, name := range []string{"pictures", "sounds"} {
		var archive struct{ Cases []projectorCase }
		if err := json.Unmarshal(must(os.ReadFile("testdata/mmproj/"+name+".json")), &archive); err != nil || len(archive.Cases) == 0 {
			t.Fatalf("%s: %d cases, %v", name, len(archive.Cases), err)
		}
		all = append(all, archive.Cases...)
	}
	return all
}

// write writes the checkpoint. Names of its tensors that begin with the left of a spelling WAS>IS begin with the right.
func (c projectorCase) write(t *testing.T, dir string, spelling ...string) {
	t.Helper()
	truth{Config: c.Config, Tensors: c.Tensors, spelling: spelling}.write(t, dir)
	if c.Processor != nil {
		save(t, dir, "preprocessor_config.json", string(c.Processor))
	}
	save(t, dir, "tokenizer_config.json", `{"added_tokens_decoder": {"12": {"content": "[IMG_BREAK]"}}}`)
}

// TestProjectors converts the encoders of small checkpoints, and compares all keys, names, types, dimensions and numbers
// with what llama.cpp's converter writes.
func TestProjectors(t *testing.T) {
	for _, c := range projectorCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c.write(t, dir)
			types := map[string][]string{}
			if c.Types == nil {
				c.Types = []string{"f32", "f16", "q8_0"}
			}
			for i, typ := range c.Types {
				f, numbers := projected(t, dir, typ)
				for _, tensor := range f.Tensors {
					types[tensor.Name] = append(types[tensor.Name], tensor.Type.String())
				}
				if i > 0 {
					continue
				}
				c.compareKeys(t, f)
				defer func() { c.compareTensors(t, f, types, numbers) }()
			}
			if !HasProjector(dir) {
				t.Error("it is said to have no projector")
			}
			if len(c.Also) > 0 {
				other := t.TempDir()
				c.write(t, other, c.Also...)
				_, numbers := projected(t, dir, "f32")
				if _, same := projected(t, other, "f32"); !slices.Equal(sums(numbers), sums(same)) {
					t.Errorf("with %q: %q", c.Also, diff(sums(same), sums(numbers)))
				}
			}
		})
	}
}

// projected converts a projector, and returns it with the bytes of its tensors.
func projected(t *testing.T, dir, typ string) (*gguf.File, map[string][]byte) {
	t.Helper()
	m, err := OpenProjector(dir, Options{Type: typ, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var b bytes.Buffer
	if _, err := m.Write(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	f := must(gguf.Parse(b.Bytes()))
	all := map[string][]byte{}
	for _, tensor := range f.Tensors {
		all[tensor.Name] = plainBytes(t, tensor)
	}
	return f, all
}

// sums returns a line for each tensor.
func sums(all map[string][]byte) []string {
	var lines []string
	for name, b := range all {
		sum := sha256.Sum256(b)
		lines = append(lines, name+" "+hex.EncodeToString(sum[:4]))
	}
	slices.Sort(lines)
	return lines
}

func (c projectorCase) compareKeys(t *testing.T, f *gguf.File) {
	kinds := map[string]string{"uint32": "UINT32", "int32": "INT32", "string": "STRING", "bool": "BOOL", "float32": "FLOAT32",
		"[]float32": "ARRAY/FLOAT32", "[]bool": "ARRAY/BOOL", "[]uint32": "ARRAY/UINT32", "[]int32": "ARRAY/INT32"}
	var got, want []string
	for _, kv := range f.KVs {
		if _, ours := c.Keys[kv.Key]; ours || strings.HasPrefix(kv.Key, "clip.") {
			got = append(got, fmt.Sprintf("%s %s %v", kv.Key, kinds[fmt.Sprintf("%T", kv.Value)], kv.Value))
		}
	}
	for key, v := range c.Keys {
		kind := strings.Trim(string(v[0]), `"`)
		var value any
		switch kind {
		case "FLOAT32":
			var x float32
			_ = json.Unmarshal(v[1], &x)
			value = x
		case "ARRAY/FLOAT32":
			var x []float32
			_ = json.Unmarshal(v[1], &x)
			value = x
		default:
			_ = json.Unmarshal(v[1], &value)
		}
		want = append(want, fmt.Sprintf("%s %s %v", key, kind, value))
	}
	for _, line := range diff(got, want) {
		t.Error(line)
	}
}

func (c projectorCase) compareTensors(t *testing.T, f *gguf.File, types map[string][]string, numbers map[string][]byte) {
	var got []string
	for _, tensor := range f.Tensors {
		var dims []string
		for _, d := range tensor.Dims {
			dims = append(dims, strconv.FormatUint(d, 10))
		}
		sum := sha256.Sum256(numbers[tensor.Name])
		got = append(got, fmt.Sprintf("%s %s %s %s", tensor.Name, strings.Join(types[tensor.Name], " "), strings.Join(dims, "x"),
			hex.EncodeToString(sum[:4])))
	}
	slices.Sort(got)
	layers := map[string][]string{}
	for _, line := range got {
		if layer := layerAfter.FindString(line); layer != "" {
			layers[layer] = append(layers[layer], line)
		}
	}
	got = slices.DeleteFunc(got, layerAfter.MatchString)
	for layer, lines := range layers {
		sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
		got = append(got, fmt.Sprintf("%s %d %s", layer, len(lines), hex.EncodeToString(sum[:4])))
	}
	var want []string
	for _, line := range c.Written {
		if exact, some, ok := strings.Cut(line, " ~"); ok {
			line = compareSome(t, got, exact, strings.Split(some, ","), numbers)
		}
		want = append(want, line)
	}
	for _, line := range diff(got, want) {
		t.Error(line)
	}
}

// compareSome compares some numbers of a tensor that is computed. It returns the line that got has for the tensor.
func compareSome(t *testing.T, got []string, line string, some []string, numbers map[string][]byte) string {
	name, _, _ := strings.Cut(line, " ")
	b := numbers[name]
	for i, text := range some {
		at := i * 7919 % max(len(b)/4, 1)
		x := math.Float32frombits(binary.LittleEndian.Uint32(b[4*at:]))
		if want := must(strconv.ParseFloat(text, 64)); math.Abs(float64(x)-want) > 2e-4 {
			t.Errorf("%s: number %d is %v, want %v", name, at, x, want)
		}
	}
	i := slices.IndexFunc(got, func(own string) bool { return strings.HasPrefix(own, line) })
	if i < 0 {
		return line
	}
	return got[i]
}

// layerAfter begins the names of tensors in layers after the first.
var layerAfter = regexp.MustCompile(`^[av]\.blk\.[1-9]\d*\.`)

// plainBytes returns the numbers of a tensor as F32, if it is F32 or F16, and else its bytes.
func plainBytes(t *testing.T, tensor gguf.Tensor) []byte {
	t.Helper()
	if tensor.Type != gguf.F16 {
		return tensor.Data
	}
	var b []byte
	for i := 0; i < len(tensor.Data); i += 2 {
		x := safetensors.Half(binary.LittleEndian.Uint16(tensor.Data[i:]))
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// TestLlava converts a checkpoint of LLaVA, which llama.cpp's converter does not take any more, and compares names, dimensions
// and keys with those of a file.
func TestLlava(t *testing.T) {
	c := projectorCase{
		Config: []byte(`{"architectures": ["LlavaForConditionalGeneration"], "text_config": {"model_type": "llama", "hidden_size": 64},
			"vision_feature_layer": -2, "vision_config": {"model_type": "clip_vision_model", "hidden_act": "quick_gelu", "hidden_size": 64,
			"intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 56, "patch_size": 14,
			"layer_norm_eps": 1e-6}}`),
		Processor: []byte(`{"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}`),
		Tensors:   []string{"language_model.model.embed_tokens.weight 8 64 1 0"},
	}
	const at = "vision_tower.vision_model."
	for _, line := range []string{
		"embeddings.class_embedding 64", "embeddings.patch_embedding.weight 64 3 14 14", "embeddings.position_embedding.weight 17 64",
		"pre_layrnorm.weight 64", "pre_layrnorm.bias 64", "post_layernorm.weight 64", "post_layernorm.bias 64",
	} {
		c.Tensors = append(c.Tensors, at+line+" 1 0")
	}
	for _, line := range []string{
		"layer_norm1.weight 64", "layer_norm1.bias 64", "layer_norm2.weight 64", "layer_norm2.bias 64",
		"self_attn.q_proj.weight 64 64", "self_attn.q_proj.bias 64", "self_attn.k_proj.weight 64 64", "self_attn.k_proj.bias 64",
		"self_attn.v_proj.weight 64 64", "self_attn.v_proj.bias 64", "self_attn.out_proj.weight 64 64", "self_attn.out_proj.bias 64",
		"mlp.fc1.weight 128 64", "mlp.fc1.bias 128", "mlp.fc2.weight 64 128", "mlp.fc2.bias 64",
	} {
		c.Tensors = append(c.Tensors, "0-1: "+at+"encoder.layers.#."+line+" 1 0")
	}
	for _, line := range []string{"linear_1.weight 128 64", "linear_1.bias 128", "linear_2.weight 64 128", "linear_2.bias 64"} {
		c.Tensors = append(c.Tensors, "multi_modal_projector."+line+" 1 0")
	}
	dir := t.TempDir()
	c.write(t, dir)
	got, _ := projected(t, dir, "f16")
	want := must(gguf.Parse(must(os.ReadFile(testdata.Path(t, "mmproj/mm/llava-f16.gguf")))))
	swapped := strings.NewReplacer("ffn_up", "ffn_down", "ffn_down", "ffn_up") // as old files have them
	list := func(f *gguf.File, replace func(string) string) (lines []string) {
		for _, x := range f.Tensors {
			lines = append(lines, fmt.Sprintf("%s %s %v", replace(x.Name), x.Type, x.Dims))
		}
		for _, kv := range f.KVs {
			if strings.HasPrefix(kv.Key, "clip.") {
				lines = append(lines, fmt.Sprintf("%s %T %v", kv.Key, kv.Value, kv.Value))
			}
		}
		return lines
	}
	for _, line := range diff(list(got, strings.Clone), list(want, swapped.Replace)) {
		t.Error(line)
	}
}

// TestHasProjector asks checkpoints of text models for encoders: of one that never had any, and of one that lost them.
func TestHasProjector(t *testing.T) {
	c := projectorCases(t)[0]
	c.Tensors = []string{"model.language_model.norm.weight 8 1 0"}
	blind := t.TempDir()
	c.write(t, blind)
	text := t.TempDir()
	readArchive(t, "testdata/transformers/llama.json")[0].write(t, text)
	for _, dir := range []string{blind, text, t.TempDir(), "gone"} {
		if HasProjector(dir) {
			t.Errorf("%s is said to have a projector", dir)
		}
	}
}
