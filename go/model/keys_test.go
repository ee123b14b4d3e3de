package model

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model/nn"
)

// keyCases are models of the test data with other keys, and the best three logits after their texts in llama.cpp, where some positions
// are beyond the original context.
var keyCases = []struct {
	name, model string
	drop        string
	keys        map[string]any
	want        map[int]float64
}{
	{name: "yarn beyond the original context", model: "own:olmo",
		keys: map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(8), "rope.scaling.original_context_length": uint32(16)},
		want: map[int]float64{125: 6.98727, 53: 5.86326, 58: 4.38089}},
	{name: "linear beyond the context", model: "own:olmo",
		keys: map[string]any{"rope.scale_linear": float32(8), "context_length": uint32(32)},
		want: map[int]float64{125: 7.44378, 118: 6.49205, 53: 5.87528}},
	{name: "yarn with betas and a logarithm's multiplier", model: "mistral3",
		keys: map[string]any{
			"rope.scaling.factor": float32(8), "rope.scaling.original_context_length": uint32(16), "rope.scaling.yarn_beta_fast": float32(4),
			"rope.scaling.yarn_beta_slow": float32(1), "rope.scaling.yarn_log_multiplier": float32(0.5),
		},
		want: map[int]float64{248: 7.30765, 446: 7.07027, 22: 7.0284}},
	{name: "yarn of latents", model: "deepseek2",
		keys: map[string]any{
			"rope.scaling.type": "yarn", "rope.scaling.factor": float32(8), "rope.scaling.original_context_length": uint32(16),
			"rope.scaling.yarn_log_multiplier": float32(0.0707),
		},
		want: map[int]float64{226: 8.4264, 340: 8.34681, 437: 6.64166}},
	{name: "yarn in layers without a window", model: "gpt-oss",
		keys: map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(8), "rope.scaling.original_context_length": uint32(16), nn.YaRNTruncate: true},
		want: map[int]float64{149: 7.14399, 318: 6.90229, 311: 6.69296}},
	{name: "LongRoPE's short factors", model: "phi3-long", keys: map[string]any{"rope.scaling.original_context_length": uint32(512)},
		want: map[int]float64{310: 6.51576, 362: 6.51547, 410: 6.07313}},
	{name: "LongRoPE's long factors", model: "phi3-long", keys: map[string]any{"rope.scaling.original_context_length": uint32(64)},
		want: map[int]float64{196: 7.87827, 310: 7.67408, 218: 7.05738}},
	{name: "NTK-aware", model: "hunyuan-dense", keys: map[string]any{"rope.scaling.alpha": float32(50), "rope.freq_base": float32(10000)},
		want: map[int]float64{299: 7.57848, 490: 6.77649, 369: 6.43109}},
	{name: "a base in windows", model: "gpt-oss", keys: map[string]any{"rope.freq_base_swa": float32(500), nn.YaRNTruncate: true},
		want: map[int]float64{248: 7.45201, 176: 6.30495, 374: 6.22162}},
	{name: "windows that the file does not say", model: "gemma2", drop: "attention.sliding_window",
		want: map[int]float64{449: 7.35342, 135: 7.06173, 214: 6.70889}},
	{name: "no windows", model: "gemma3", drop: "attention.sliding_window",
		want: map[int]float64{420: 6.34015, 467: 6.18245, 363: 6.07692}},
	{name: "no rotations", model: "granite", keys: map[string]any{"rope.scaling.finetuned": false},
		want: map[int]float64{479: 6.98507, 275: 6.48552, 280: 6.16174}},
	{name: "windows beside convolutions", model: "lfm2", keys: map[string]any{"attention.sliding_window": uint32(16)},
		want: map[int]float64{288: 5.51853, 385: 5.29086, 152: 5.17106}},
	{name: "sections of rotations", model: "glm4", keys: map[string]any{"rope.dimension_sections": []int32{2, 1, 1, 0}},
		want: map[int]float64{133: 7.33318, 302: 6.35609, 494: 5.90549}},
}

// Keys that few files have, or that old ones lack, mean what they mean in llama.cpp.
func TestKeys(t *testing.T) {
	for _, tt := range keyCases {
		t.Run(tt.name, func(t *testing.T) {
			path, ids := keyModel(t, tt.model)
			d := read(t, path)
			change(t, d, tt.drop, tt.keys)
			m, err := load(t, d.write(t, "x.gguf"), Packed)
			if err != nil {
				t.Fatal(err)
			}
			tanhGELU(m.program)
			rows := newStepper(t, m, len(ids)).step(t, ids)
			if len(tt.want) != 3 {
				t.Fatalf("%d logits are compared", len(tt.want))
			}
			for id, want := range tt.want {
				if got := float64(rows[len(rows)-1][id]); !(math.Abs(got-want) <= 1e-3) {
					t.Errorf("logit %g of token %d, want %g", got, id, want)
				}
			}
		})
	}
}

// keyModel returns a model and the text of its witness.
func keyModel(t *testing.T, name string) (path string, ids []int32) {
	t.Helper()
	if own, ok := strings.CutPrefix(name, "own:"); ok {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		path = dir + "/testdata/archs/" + own
	} else {
		path = strings.TrimSuffix(testdata.Path(t, "archs/"+name+".gguf"), ".gguf")
	}
	raw, err := os.ReadFile(path + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var w witness
	if err := json.Unmarshal(raw, &w); err != nil {
		t.Fatal(err)
	}
	return path + ".gguf", w.IDs
}

// change drops a key of a model's architecture, and sets others.
func change(t *testing.T, d *draft, drop string, keys map[string]any) {
	t.Helper()
	arch := ""
	for _, kv := range d.kvs {
		if kv.Key == "general.architecture" {
			arch, _ = kv.Value.(string)
		}
	}
	if drop != "" {
		d.drop(arch + "." + drop)
	}
	for key, v := range keys {
		if !strings.HasPrefix(key, nn.Own) {
			key = arch + "." + key
		}
		d.set(key, v)
	}
}

// Files of Maple say 0 rotated dimensions, which are those of layers without windows, and apart from that those in windows.
func TestMapleRotations(t *testing.T) {
	path, _ := keyModel(t, "own:maple")
	d := read(t, path)
	change(t, d, "", map[string]any{"rope.dimension_count": uint32(0), "rope.dimension_count_swa": uint32(4)})
	m, err := load(t, d.write(t, "x.gguf"), Packed)
	if err != nil {
		t.Fatal(err)
	}
	windows := 0
	for il, l := range m.Config.Layers {
		want := 0
		if l.Window > 0 {
			want = 4
			windows++
		}
		if l.Rope.NRot != want {
			t.Errorf("layer %d rotates %d dimensions, want %d", il, l.Rope.NRot, want)
		}
	}
	if windows == 0 || windows == len(m.Config.Layers) {
		t.Errorf("%d layers of %d have windows", windows, len(m.Config.Layers))
	}
}

// Scores of Grok 2 grow with the position, after their cap. Of a model of one layer the last logits are then those of one whose scale and
// cap have grown by as much.
func TestGrowingScores(t *testing.T) {
	path, ids := keyModel(t, "own:grok")
	last := func(keys map[string]any) (rows [][]float32) {
		d := read(t, path)
		d.tensors = slices.DeleteFunc(d.tensors, func(x gguf.Tensor) bool {
			return strings.HasPrefix(x.Name, "blk.") && !strings.HasPrefix(x.Name, "blk.0.")
		})
		keys["block_count"] = uint32(1)
		change(t, d, "", keys)
		m, err := load(t, d.write(t, "x.gguf"), Packed)
		if err != nil {
			t.Fatal(err)
		}
		return newStepper(t, m, len(ids)).step(t, ids)
	}
	const beyond, scale, limit = 9, 0.8, 1.5
	growth := math.Log(float64(len(ids)-1)) / math.Log(beyond)
	keys := func(by float64) map[string]any {
		return map[string]any{"attention.output_scale": float32(scale * by), "attn_logit_softcapping": float32(limit * by)}
	}
	grown := keys(1)
	grown["attention.temperature_length"] = uint32(beyond)
	got, same, want := last(grown), last(keys(1)), last(keys(growth))
	for pos := range got {
		if equal := slices.Equal(got[pos], same[pos]); equal != (pos <= beyond) {
			t.Errorf("position %d: logits are those without growth: %v", pos, equal)
		}
	}
	for id, x := range want[len(ids)-1] {
		if y := got[len(ids)-1][id]; !(math.Abs(float64(x-y)) <= 1e-4) {
			t.Fatalf("logit %g of token %d, want %g", y, id, x)
		}
	}
}

// A file may name another function of feed-forwards, but not where the architecture's has constants of its own, of gates,
// limits or layers: it would be dropped, or replace more than it says.
func TestActivations(t *testing.T) {
	const key = "quern.feed_forward.activation"
	for _, tt := range []struct{ model, fn, want string }{
		{"own:gpt2", "relu", ""},
		{"own:afmoe", "gelu", ""},
		{"own:gpt2", "quick_gelu", "is not supported, supported are gelu gelu_pytorch_tanh relu relu2 silu"},
		{"gpt-oss", "gelu", "gelu is not supported by gpt-oss"},
		{"apertus", "relu", "relu is not supported by apertus"},
		{"own:kimi-k3", "silu", "silu is not supported by kimi-k3"},
		{"own:minimax-m3", "silu", "silu is not supported by minimax-m3"},
	} {
		path, _ := keyModel(t, tt.model)
		d := read(t, path)
		change(t, d, "", map[string]any{key: tt.fn})
		_, err := load(t, d.write(t, "x.gguf"), Packed)
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), key)) {
			t.Errorf("%s of %s: %v, want %q", tt.fn, tt.model, err, tt.want)
		}
	}
}
