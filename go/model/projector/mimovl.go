package projector

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// mimovl is Qwen2.5-VL's encoder with fewer heads of keys and values. In most layers a patch sees its neighbours in the order
// of tokens alone, row by row or column by column, and a sink for each head (MiMo-V2.5, 2026).
var mimovl = Kind{
	Name: "mimovl",
	config: func(e *Encoder, k *Keys) {
		e.Merge, e.Frames = k.IntOr("spatial_merge_size", 2, 1, maxMerge), 2
		e.pixelLimits(k, 8, 4096)
		e.Window = k.Int("window_size", 1, maxPixels)
		k.Config.Norm, k.Config.PostEps, e.Gated = kernel.RMS, 1e-6, true
		e.mimoHeads(k)
		modes, err := k.File.Ints(k.Name("wa_pattern_mode"))
		k.Check(err)
		k.ForLayers("wa_pattern_mode", len(modes))
		for il, mode := range modes {
			if mode < -1 || mode > 1 {
				k.Fail("wa_pattern_mode", "%d for layer %d, want -1, 0 or 1", mode, il)
			}
			if mode >= 0 {
				k.Config.Layers[il].Window = e.Window
			}
			e.Columned = append(e.Columned, mode == 1)
		}
		k.InPlane(kernel.RopeNeox, 10000, Plane{Axes: [2]int32{Down, Across}})
	},
	build: func(e *Encoder, b *Builder) {
		b.Patches(e.patchColumns(), "", patchMatrix, secondMatrix)
		b.BegunRows()
		if e.columned(0) {
			b.Beside(1).Again(nil, nil)
		}
		e.layers(b, func(il int) {
			if e.columned(il) != e.columned(il+1) {
				b.Beside(1).Again(nil, nil)
			}
		})
		s := b.Beside(e.Merge*e.Merge).NormEach(kernel.LayerNorm, e.Config.NEmbd, "v.post_ln")
		s.Applied(kernel.GELUErf, "mm.0").Product("mm.2").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		in := e.inPlace(p, e.input(p, 0, nil))
		in.Band = e.Window
		e.transpositions(in)
		return e.qwenParts(in)
	},
}

// columned reports whether layer il, or the end for that behind the last, has the squares column by column.
func (e *Encoder) columned(il int) bool { return il < len(e.Columned) && e.Columned[il] }

// mimoHeads reads how large heads are, which the width does not say, and how many have keys and values.
func (e *Encoder) mimoHeads(k *Keys) {
	const fused = "v.blk.0.attn_qkv.weight"
	t, ok := e.file.Tensor(fused)
	if !ok || len(t.Dims) != 2 {
		k.Check(fmt.Errorf("tensor %q: missing, or no matrix", fused))
	}
	for i := range k.Config.Layers {
		l := &k.Config.Layers[i]
		if l.NHeadKV = k.Int("attention.head_count_kv", 1, l.NHead); l.NHead%l.NHeadKV != 0 {
			k.Fail("attention.head_count_kv", "%d, want a divisor of the %d heads", l.NHeadKV, l.NHead)
		}
		heads := uint64(l.NHead + 2*l.NHeadKV)
		if t.Dims[1] == 0 || t.Dims[1]%heads != 0 || t.Dims[1]/heads > MaxHeadDim {
			k.Check(fmt.Errorf("tensor %q: %d rows, want a multiple of %d heads of at most %d", fused, t.Dims[1], heads, MaxHeadDim))
		}
		l.HeadDim = int(t.Dims[1] / heads)
		l.ValueDim, l.AttnScale = l.HeadDim, float32(1/math.Sqrt(float64(l.HeadDim)))
	}
}

// transpositions adds the runs of an input whose squares are row by row, and column by column between.
func (e *Encoder) transpositions(in *Input) {
	n, columns, rows := e.Merge*e.Merge, in.Grid.Columns, in.Grid.Rows
	place, last := in.Place, in
	for il, before := 0, false; il <= len(e.Columned); il++ {
		now := e.columned(il)
		if now == before {
			continue
		}
		across := columns
		if now {
			across = rows
		}
		from := func(i int) int32 { // of a transposed grid that is `across` wide: what is at its row and column there
			square := i / n
			return int32((square%across*(columns*rows/across)+square/across)*n + i%n)
		}
		next := &Input{Tokens: in.Tokens, Band: in.Band, Place: place}
		next.From = func(i int) []int32 { return []int32{from(i)} }
		if now {
			next.Place = func(i int) [kernel.Axes]int32 { return place(int(from(i))) }
		}
		last.Again, last, before = next, next, now
	}
}
