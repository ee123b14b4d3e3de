package model

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
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
			r := nn.Rope{NRot: p.NRot, Base: p.FreqBase, Scaling: nn.Scaling{Type: "linear", Factor: 1 / p.FreqScale}}
			if y := p.Yarn; y != nil {
				r.Scaling = nn.Scaling{
					Type: "yarn", Factor: 1 / p.FreqScale, NCtxOrig: y.NCtxOrig,
					ExtFactor: y.ExtFactor, AttnFactor: y.AttnFactor, BetaFast: y.BetaFast, BetaSlow: y.BetaSlow,
				}
			}
			var factors []float32
			if _, ok := c.Tensors["factors"]; ok {
				factors = floats("factors")
			}
			freqs, scale := r.Freqs(factors), r.Scale()
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
	bufs, err := kernel.NewBuffers(specs, kernel.Room{Tok: nTok, Out: nTok}, alloc(kernel.BufBytes(specs, kernel.Room{Tok: nTok, Out: nTok})))
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
	block := kernel.AlignUp(kernel.KVBytes(kvF32, nHead, headDim, headDim))
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
