package model

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/arch"
)

// Frequencies made here and rotations by the kernels give the oracle's vectors.
func TestGoldenRope(t *testing.T) {
	type tensor struct{ Offset, Bytes int }
	var index struct {
		Data  string
		Cases []struct {
			Name, Op string
			Params   struct {
				Neox      bool
				HeadDim   int     `json:"head_dim"`
				NHead     int     `json:"n_head"`
				NRot      int     `json:"n_rot"`
				FreqBase  float64 `json:"freq_base"`
				FreqScale float64 `json:"freq_scale"`
				Yarn      *struct {
					NCtxOrig   int     `json:"n_ctx_orig"`
					ExtFactor  float64 `json:"ext_factor"`
					AttnFactor float64 `json:"attn_factor"`
					BetaFast   float64 `json:"beta_fast"`
					BetaSlow   float64 `json:"beta_slow"`
				}
			}
			Tensors map[string]tensor
		}
	}
	raw, err := os.ReadFile(filepath.Join(golden, "ops.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(golden, index.Data))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range index.Cases {
		if c.Op != "rope" {
			continue
		}
		n++
		t.Run(c.Name, func(t *testing.T) {
			bytes := func(name string) []byte { x := c.Tensors[name]; return data[x.Offset : x.Offset+x.Bytes] }
			floats := func(name string) []float32 {
				b := bytes(name)
				v := make([]float32, len(b)/4)
				for i := range v {
					v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
				}
				return v
			}
			p := c.Params
			cfg := &Config{NRot: p.NRot, RopeTheta: p.FreqBase, Rope: arch.RopeScaling{Type: "linear", Factor: 1 / p.FreqScale}}
			if y := p.Yarn; y != nil {
				cfg.Rope = arch.RopeScaling{
					Type: "yarn", Factor: 1 / p.FreqScale, NCtxOrig: y.NCtxOrig,
					ExtFactor: y.ExtFactor, AttnFactor: y.AttnFactor, BetaFast: y.BetaFast, BetaSlow: y.BetaSlow,
				}
			}
			var factors []float32
			if _, ok := c.Tensors["factors"]; ok {
				factors = floats("factors")
			}
			freqs, scale := ropeFreqs(cfg, factors)
			pos := bytes("pos")
			nTok := len(pos) / 4
			kind := kernel.RopeNorm
			if p.Neox {
				kind = kernel.RopeNeox
			}
			got := rotate(t, floats("x"), pos, freqs, scale, kind, p.NHead, p.HeadDim, p.NRot)
			row := p.NHead * p.HeadDim
			for tok := range nTok {
				at := binary.LittleEndian.Uint32(pos[4*tok:])
				const tolerance = 4e-6 // a few ulp of the largest element
				for i := range row {
					want := math.Float64frombits(binary.LittleEndian.Uint64(bytes("y")[8*(tok*row+i):]))
					if g := float64(got[tok*row+i]); !(math.Abs(g-want) <= tolerance) {
						t.Fatalf("position %v, element %d is %g, want %g", at, i, g, want)
					}
				}
			}
		})
	}
	if n == 0 {
		t.Error("no golden rotations")
	}
}

// rotate returns x, rotated as queries are. Each token is a sequence of its own.
func rotate(t *testing.T, x []float32, pos []byte, freqs []float64, scale float32, kind kernel.Rope, nHead, headDim, nRot int) []float32 {
	alloc := func(n int) []byte {
		r, err := mem.Alloc(uint64(n), "a test")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r.Bytes()
	}
	nTok, width := len(pos)/4, kernel.Pad(nHead*headDim)
	specs := []kernel.BufSpec{{Width: 3 * width}, {Width: kernel.Pad(nRot)}}
	bufs, err := kernel.NewBuffers(specs, nTok, nTok, alloc(kernel.BufBytes(specs, nTok, nTok)))
	if err != nil {
		t.Fatal(err)
	}
	defer bufs.Close()
	const maxBlocks = 100_000/kernel.KVBlock + 1
	b, err := kernel.NewBatch(nTok, nTok, maxBlocks, nTok, []kernel.Group{{}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	kvF32 := kernel.KVTypes{K: kernel.KVF32, V: kernel.KVF32}
	block := kernel.AlignUp(kernel.KVBytes(kvF32, nHead, headDim))
	b.SetState(0, alloc(nTok*block), block)
	for tok := range nTok {
		table := make([]int32, maxBlocks)
		for i := range table {
			table[i] = int32(tok)
		}
		b.AddSeq(table)
		b.Add(0, int32(binary.LittleEndian.Uint32(pos[4*tok:])))
		copy(bufs.Row(0, tok), x[tok*nHead*headDim:(tok+1)*nHead*headDim])
	}
	vec := mem.Float64s(alloc(8 * len(freqs)))
	copy(vec, freqs)
	heads := kernel.Heads{NHead: nHead, NHeadKV: nHead, HeadDim: headDim, KV: kvF32, Col: [3]int{0, width, 2 * width}}
	plan, err := kernel.NewPlan(specs, kernel.RopeTable{Dst: 1, NRot: nRot, Freqs: vec, Scale: scale},
		kernel.StoreKV{Heads: heads, Rope: kind, NRot: nRot, Table: 1, Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	plan.Run(pool, bufs, b, alloc(max(plan.Scratch(nTok), kernel.Align)))
	var got []float32
	for tok := range nTok {
		got = append(got, bufs.Row(0, tok)[:nHead*headDim]...)
	}
	return got
}

// Frequencies are the same on all CPUs: no product is fused with a sum.
func TestRopeIsRoundedAtEachStep(t *testing.T) {
	const nRot, theta, factor, ext, attn = 4096, 500000, 3.7, 0.83, 1.3
	cfg := &Config{NRot: nRot, RopeTheta: theta, Rope: arch.RopeScaling{
		Type: "yarn", Factor: factor, NCtxOrig: 4096, ExtFactor: ext, AttnFactor: attn, BetaFast: 32, BetaSlow: 1,
	}}
	freqs, scale := ropeFreqs(cfg, nil)
	low, high := math.Floor(pairThatTurns(cfg, 32)), math.Ceil(pairThatTurns(cfg, 1))
	for i, got := range freqs {
		f := exactmath.Pow(theta, -2*float64(i)/nRot)
		keep := mul(1-min(max((float64(i)-low)/(high-low), 0), 1), ext)
		if want := add(mul(f/factor, add(1, -keep)), mul(f, keep)); got != want {
			t.Errorf("pair %d turns by %x, want %x", i, got, want)
		}
	}
	if want := float32(mul(attn, add(1, mul(0.1, exactmath.Log(factor))))); scale != want {
		t.Errorf("scale %x, want %x", scale, want)
	}
}

// Functions that are not inlined round their results. (On amd64 the test has
// something to find with GOAMD64=v3.)

//go:noinline
func mul(a, b float64) float64 { return a * b }

//go:noinline
func add(a, b float64) float64 { return a + b }
