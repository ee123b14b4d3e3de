package arch

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

// A real is what the published file of a model has: its keys, its tensors outside of
// layers, and those of one layer of each kind.
type real struct {
	arch    string
	keys    map[string]any
	outside map[string][]uint64
	layers  map[string]map[string][]uint64
	kind    func(il int) string // which of them a layer is; "" for one that is not read
}

type dims = map[string][]uint64

func join(all ...dims) dims {
	out := dims{}
	for _, d := range all {
		maps.Copy(out, d)
	}
	return out
}

// everyFourth is the layers of Qwen 3 Next and of what followed it.
func everyFourth(layers int) func(il int) string {
	return func(il int) string {
		switch {
		case il >= layers:
			return ""
		case il%4 == 3:
			return "attention"
		}
		return "delta"
	}
}

// Keys that all of these models have.
func deltaKeys(k map[string]any) map[string]any {
	maps.Copy(k, map[string]any{
		"context_length": uint32(262144), "attention.key_length": uint32(256), "attention.value_length": uint32(256),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "rope.freq_base": float32(1e7), "rope.dimension_count": uint32(64),
		"ssm.conv_kernel": uint32(4), "ssm.state_size": uint32(128), "ssm.group_count": uint32(16), "full_attention_interval": uint32(4),
	})
	return k
}

func deltaLayers(embd, heads, headsKV, valueHeads uint64, gates, ffn dims) map[string]dims {
	inner := valueHeads * 128
	return map[string]dims{
		"delta": join(dims{
			"attn_norm.weight": {embd}, "post_attention_norm.weight": {embd}, "attn_qkv.weight": {embd, 4096 + inner},
			"attn_gate.weight": {embd, inner}, "ssm_conv1d.weight": {4, 4096 + inner}, "ssm_dt.bias": {valueHeads},
			"ssm_a": {valueHeads}, "ssm_norm.weight": {128}, "ssm_out.weight": {inner, embd},
		}, gates, ffn),
		"attention": join(dims{
			"attn_norm.weight": {embd}, "post_attention_norm.weight": {embd}, "attn_q.weight": {embd, heads * 512},
			"attn_k.weight": {embd, headsKV * 256}, "attn_v.weight": {embd, headsKV * 256}, "attn_q_norm.weight": {256},
			"attn_k_norm.weight": {256}, "attn_output.weight": {heads * 256, embd},
		}, ffn),
	}
}

func expertDims(embd, n, width uint64) dims {
	return dims{
		"ffn_gate_inp.weight": {embd, n}, "ffn_gate_exps.weight": {embd, width, n}, "ffn_up_exps.weight": {embd, width, n},
		"ffn_down_exps.weight": {width, embd, n}, "ffn_gate_inp_shexp.weight": {embd}, "ffn_gate_shexp.weight": {embd, width},
		"ffn_up_shexp.weight": {embd, width}, "ffn_down_shexp.weight": {width, embd},
	}
}

func outside(embd, vocab uint64) dims {
	return dims{"token_embd.weight": {embd, vocab}, "output.weight": {embd, vocab}, "output_norm.weight": {embd}}
}

var sections = []int32{11, 11, 10, 0}

var reals = map[string]real{
	"qwen3.6-35b-a3b": {
		arch: "qwen35moe",
		keys: deltaKeys(map[string]any{
			"block_count": uint32(40), "embedding_length": uint32(2048), "attention.head_count": uint32(16), "attention.head_count_kv": uint32(2),
			"expert_count": uint32(256), "expert_used_count": uint32(8), "expert_feed_forward_length": uint32(512),
			"expert_shared_feed_forward_length": uint32(512), "ssm.time_step_rank": uint32(32), "ssm.inner_size": uint32(4096),
			"rope.dimension_sections": sections,
		}),
		outside: outside(2048, 248320),
		layers:  deltaLayers(2048, 16, 2, 32, dims{"ssm_alpha.weight": {2048, 32}, "ssm_beta.weight": {2048, 32}}, expertDims(2048, 256, 512)),
		kind:    everyFourth(40),
	},
	"qwen3.5-397b-a17b, with the layer that predicts further": {
		arch: "qwen35moe",
		keys: deltaKeys(map[string]any{
			"block_count": uint32(61), "nextn_predict_layers": uint32(1), "embedding_length": uint32(4096),
			"attention.head_count": uint32(32), "attention.head_count_kv": uint32(2),
			"expert_count": uint32(512), "expert_used_count": uint32(10), "expert_feed_forward_length": uint32(1024),
			"expert_shared_feed_forward_length": uint32(1024), "ssm.time_step_rank": uint32(64), "ssm.inner_size": uint32(8192),
			"rope.dimension_sections": sections,
		}),
		outside: outside(4096, 248320),
		layers:  deltaLayers(4096, 32, 2, 64, dims{"ssm_alpha.weight": {4096, 64}, "ssm_beta.weight": {4096, 64}}, expertDims(4096, 512, 1024)),
		kind:    everyFourth(60),
	},
	"qwen3.6-27b": {
		arch: "qwen35",
		keys: deltaKeys(map[string]any{
			"block_count": uint32(64), "embedding_length": uint32(5120), "feed_forward_length": uint32(17408),
			"attention.head_count": uint32(24), "attention.head_count_kv": uint32(4),
			"ssm.time_step_rank": uint32(48), "ssm.inner_size": uint32(6144), "rope.dimension_sections": sections,
		}),
		outside: outside(5120, 248320),
		layers: deltaLayers(5120, 24, 4, 48, dims{"ssm_alpha.weight": {5120, 48}, "ssm_beta.weight": {5120, 48}},
			dims{"ffn_gate.weight": {5120, 17408}, "ffn_up.weight": {5120, 17408}, "ffn_down.weight": {17408, 5120}}),
		kind: everyFourth(64),
	},
	"qwen3.5-4b, tied, layers listed": {
		arch: "qwen35",
		keys: deltaKeys(map[string]any{
			"block_count": uint32(33), "nextn_predict_layers": uint32(1), "embedding_length": uint32(2560), "feed_forward_length": uint32(9216),
			"attention.head_count": uint32(16), "attention.head_count_kv": uint32(4), "attention.recurrent_layers": listed(32, 1),
			"ssm.time_step_rank": uint32(32), "ssm.inner_size": uint32(4096), "rope.dimension_sections": sections,
		}),
		outside: dims{"token_embd.weight": {2560, 248320}, "output_norm.weight": {2560}},
		layers: deltaLayers(2560, 16, 4, 32, dims{"ssm_alpha.weight": {2560, 32}, "ssm_beta.weight": {2560, 32}},
			dims{"ffn_gate.weight": {2560, 9216}, "ffn_up.weight": {2560, 9216}, "ffn_down.weight": {9216, 2560}}),
		kind: everyFourth(32),
	},
	"qwen3-next-80b-a3b": {
		arch: "qwen3next",
		keys: deltaKeys(map[string]any{
			"block_count": uint32(48), "embedding_length": uint32(2048), "feed_forward_length": uint32(5120),
			"attention.head_count": uint32(16), "attention.head_count_kv": uint32(2), "expert_count": uint32(512),
			"expert_used_count": uint32(10), "expert_feed_forward_length": uint32(512), "expert_shared_feed_forward_length": uint32(512),
			"ssm.time_step_rank": uint32(32), "ssm.inner_size": uint32(4096),
		}),
		outside: outside(2048, 151936),
		layers:  deltaLayers(2048, 16, 2, 32, dims{"ssm_ba.weight": {2048, 64}}, expertDims(2048, 512, 512)),
		kind:    everyFourth(48),
	},
}

// listed says which of the layers are delta nets, and that those behind them are not.
func listed(layers, more int) []bool {
	all := make([]bool, layers+more)
	for il := range layers {
		all[il] = il%4 != 3
	}
	return all
}

// What real files have is what is read of them, whole, in shapes that operations take.
func TestRealModels(t *testing.T) {
	for name, r := range reals {
		t.Run(name, func(t *testing.T) { readReal(t, r) })
	}
	old := reals["qwen3-next-80b-a3b"]
	delta := maps.Clone(old.layers["delta"])
	delete(delta, "attn_qkv.weight")
	delete(delta, "attn_gate.weight")
	delta["ssm_in.weight"] = []uint64{2048, 12288}
	old.layers = map[string]dims{"delta": delta, "attention": old.layers["attention"]}
	t.Run("an early qwen3-next-80b-a3b", func(t *testing.T) { readReal(t, old) })
}

func readReal(t *testing.T, r real) {
	w := gguf.NewWriter()
	w.Set("general.architecture", r.arch)
	for k, v := range r.keys {
		w.Set(r.arch+"."+k, v)
	}
	all := maps.Clone(r.outside)
	for il := range r.keys["block_count"].(uint32) {
		for name, d := range r.layers[r.kind(int(il))] {
			all[fmt.Sprintf("blk.%d.%s", il, name)] = d
		}
	}
	for name := range all { // with a number of data: configurations are read from shapes
		w.AddTensor(name, gguf.F32, []uint64{1}, gguf.Bytes(make([]byte, 4)))
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Tensors {
		f.Tensors[i].Dims = all[f.Tensors[i].Name]
	}
	cfg, err := ReadConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Lookup(r.arch)
	if err != nil {
		t.Fatal(err)
	}
	s := &shapesOnly{all: all, used: map[string]bool{}}
	p, err := a.Build(cfg, s, kernel.KVTypes{K: kernel.KVI16, V: kernel.KVI16})
	if err != nil {
		t.Fatal(err)
	}
	for name := range all {
		if !s.used[name] {
			t.Errorf("tensor %q is not read", name)
		}
	}
	for i, ops := range slices.Concat([][]kernel.Op{p.Begin}, p.Layers) {
		plan, err := kernel.NewPlan(p.Bufs, ops...)
		if err != nil {
			t.Fatalf("list %d: %v", i, err)
		}
		plan.Close()
	}
}

// shapesOnly is Weights without data: of each tensor the shape.
type shapesOnly struct {
	all  dims
	used map[string]bool
}

func (s *shapesOnly) take(name string, want ...int) error {
	d, ok := s.all[name]
	if !ok {
		return fmt.Errorf("tensor %q is missing", name)
	}
	s.used[name] = true
	for i := range max(len(d), len(want)) {
		have, need := uint64(1), 1
		if i < len(d) {
			have = d[i]
		}
		if i < len(want) {
			need = want[i]
		}
		if have != uint64(need) {
			return fmt.Errorf("tensor %q: shape %v, want %v", name, d, want)
		}
	}
	return nil
}

func (s *shapesOnly) mat(name string, in, of, out, n int, dims ...int) (kernel.Matrix, error) {
	m := kernel.Matrix{Type: kernel.F32, Layout: kernel.X16, In: in, Out: out, N: n}
	return m, s.take(name, append([]int{in, of}, dims...)...)
}

func (s *shapesOnly) Has(name string) bool { return s.all[name] != nil }
func (s *shapesOnly) Table(name string, in, out int) (kernel.Matrix, error) {
	m, err := s.mat(name, in, out, out, 1)
	m.Layout = kernel.Rows
	return m, err
}
func (s *shapesOnly) Matrix(name string, in, out, n int) (kernel.Matrix, error) {
	return s.mat(name, in, out, out, n, n)
}
func (s *shapesOnly) Stack(names []string, in, out int) (kernel.Matrix, error) {
	return kernel.Matrix{}, fmt.Errorf("%q in pieces", names[0])
}
func (s *shapesOnly) Part(name string, in, of, _, n, mats int) (kernel.Matrix, error) {
	return s.mat(name, in, of, n, mats, mats)
}
func (s *shapesOnly) Nth(name string, in, out, n, _ int) (kernel.Matrix, error) {
	return s.mat(name, in, out, out, 1, n)
}
func (s *shapesOnly) Heads(name string, in, of, _, n, heads int) (kernel.Matrix, error) {
	return s.mat(name, in, of*heads, n*heads, 1)
}
func (s *shapesOnly) Vector(name string, dims ...int) ([]float32, error) {
	return nil, s.take(name, dims...)
}
func (s *shapesOnly) Rope(Rope) ([]float64, error)           { return nil, nil }
func (s *shapesOnly) Squares(_, _ string) ([]float64, error) { return nil, nil }
func (s *shapesOnly) Floats(string, int) []float32           { return nil }
