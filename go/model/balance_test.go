package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// floats returns a tensor's elements for changing, as F32.
func (d *draft) floats(tb testing.TB, name string) []float32 {
	tb.Helper()
	x := d.tensor(name)
	n := 1
	for _, dim := range x.Dims {
		n *= int(dim)
	}
	data := make([]byte, 4*n)
	if err := kernel.Dequantize(kernel.Type(x.Type), mem.Float32s(data), x.Data); err != nil {
		tb.Fatal(err)
	}
	x.Type, x.Data = gguf.F32, data
	return mem.Float32s(data)
}

func (d *draft) has(name string) bool {
	return slices.ContainsFunc(d.tensors, func(t gguf.Tensor) bool { return t.Name == name })
}

// scale multiplies a pair of rotated channels of the first kv head of each layer's keys
// by 2^7, those of its queries by 2^-7, a channel of its values by 2^6, unless these are
// normalised, and the columns that take the result by 2^-6: the same model, with uneven channels.
func (d *draft) scale(tb testing.TB, cfg *Config) {
	for il, l := range cfg.Layers {
		if l.NHeadKV == 0 {
			continue
		}
		blk := fmt.Sprintf("blk.%d.", il)
		rows := func(name string, head, c int, by float32) {
			for _, name := range []string{name + ".weight", name + ".bias"} {
				if !d.has(blk + name) {
					continue
				}
				w := d.floats(tb, blk+name)
				in := 1
				if dims := d.tensor(blk + name).Dims; len(dims) > 1 {
					in = int(dims[0])
				}
				for i := range in {
					w[(head*l.HeadDim+c)*in+i] *= by
				}
			}
		}
		other := l.Rope.NRot / 2
		if l.Rope.Style == kernel.RopeNorm {
			other = 1
		}
		group := l.NHead / l.NHeadKV
		for _, c := range []int{0, other} {
			if norm := blk + "attn_q_norm.weight"; d.has(norm) {
				q := d.floats(tb, norm)
				for i := 0; i*l.HeadDim < len(q) && i < group; i++ {
					q[i*l.HeadDim+c] /= 128
				}
				if !l.SharedKV {
					d.floats(tb, blk+"attn_k_norm.weight")[c] *= 128
				}
				continue
			}
			rows("attn_k", 0, c, 128)
			for h := range group {
				rows("attn_q", h, c, 1./128)
			}
		}
		if cfg.Arch == "gemma3n" || cfg.Arch == "gemma4" {
			continue
		}
		rows("attn_v", 0, 5, 64)
		out := d.floats(tb, blk+"attn_output.weight")
		for i := range out {
			if col := i % (l.NHead * l.ValueDim); col/l.ValueDim < group && col%l.ValueDim == 5 {
				out[i] /= 64
			}
		}
	}
}

func loadDraft(t *testing.T, d *draft, r Residency, typ kernel.KVType) *Model {
	t.Helper()
	f, err := OpenFile(d.write(t, "draft.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := loadFile(t, f, r, kernel.KVTypes{K: typ, V: typ})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A model whose channels are uneven by powers of two that cancel has, in every type of
// integers, the logits of that with even channels, to the bit.
func TestBalanceUndoesPowersOfTwo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ids := make([]int32, 40)
	for i := range ids {
		ids[i] = rng.Int32N(120)
	}
	for _, name := range []string{"llama", "qwen2", "qwen3", "hunyuan-dense", "olmo2", "stablelm", "phi2", "phi2 fused", "lfm2", "gemma3n", "gemma4", "gemma4-moe"} {
		t.Run(name, func(t *testing.T) {
			file, fused := name, false
			if name == "phi2 fused" {
				file, fused = "phi2", true
			}
			even, uneven := read(t, testdata.Path(t, "archs/"+file+".gguf")), read(t, testdata.Path(t, "archs/"+file+".gguf"))
			for _, d := range []*draft{even, uneven} {
				for _, x := range d.tensors {
					w := d.floats(t, x.Name) // matrices that are fused have one type
					if strings.Contains(x.Name, "_norm.weight") {
						copy(w, slices.Repeat([]float32{1}, len(w))) // channels are even but for what scale does
					}
				}
			}
			uneven.scale(t, loadDraft(t, even, Packed, kernel.KVF32).Config)
			if fused {
				even, uneven = fuse(even), fuse(uneven)
			}
			for _, typ := range []kernel.KVType{kernel.KVF32, kernel.KVI16, kernel.KVQ8, kernel.KVQ4} {
				for _, r := range []Residency{Packed, Mapped} {
					if r == Mapped && typ != kernel.KVI16 {
						continue
					}
					want, m := newStepper(t, loadDraft(t, even, r, typ), len(ids)).step(t, ids), loadDraft(t, uneven, r, typ)
					uses := slices.ContainsFunc(m.Computed(), func(v []float32) bool { return slices.Max(v) > 1 })
					if uses != (typ != kernel.KVF32) {
						t.Errorf("type %d: factors %v", typ, m.Computed())
					}
					for i, row := range newStepper(t, m, len(ids)).step(t, ids) {
						if !slices.Equal(row, want[i]) {
							t.Fatalf("type %d, %v: logits after token %d differ", typ, r, i)
						}
					}
				}
			}
		})
	}
}

// Where channels of keys and values are far larger than others, by rows, biases or norms,
// keys and values in 16-bit integers are at least as near to floats as halves are.
func TestBalanceIsNearerThanHalves(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	ids := make([]int32, 60)
	for i := range ids {
		ids[i] = rng.Int32N(200)
	}
	for _, name := range []string{"llama", "qwen2", "qwen3", "gemma4"} {
		t.Run(name, func(t *testing.T) {
			d := read(t, testdata.Path(t, "archs/"+name+".gguf"))
			d.scale(t, loadDraft(t, d, Packed, kernel.KVF32).Config)
			if name == "qwen2" { // a bias on top, which queries meet in full
				for il := range loadDraft(t, d, Packed, kernel.KVF32).Config.Layers {
					d.floats(t, fmt.Sprintf("blk.%d.attn_k.bias", il))[3] += 20
				}
			}
			want := newStepper(t, loadDraft(t, d, Packed, kernel.KVF32), len(ids)).step(t, ids)
			far := func(typ kernel.KVType) float64 {
				sum := 0.0
				for i, row := range newStepper(t, loadDraft(t, d, Packed, typ), len(ids)).step(t, ids) {
					for k := range row {
						sum += math.Pow(float64(row[k]-want[i][k]), 2)
					}
				}
				return math.Sqrt(sum)
			}
			i16, f16 := far(kernel.KVI16), far(kernel.KVF16)
			t.Logf("logits are off by %.3g with integers, by %.3g with halves", i16, f16)
			if !(i16 <= f16) {
				t.Errorf("logits are off by %.3g with integers, by %.3g with halves", i16, f16)
			}
		})
	}
}
