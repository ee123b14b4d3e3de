package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// ldpv2 is CLIP and two products, of whose results squares become rows by their means. To each a convolution of its channels
// over its neighbours is added, which tells where it is (MobileVLM V2, Chu et al. 2024).
var ldpv2 = Kind{
	Name: "ldpv2",
	config: func(e *Encoder, k *Keys) {
		e.Merge = 2
		e.swapped(k, "v.")
		e.features(k)
		e.fixedPositions(k)
		k.Config.Norm = kernel.LayerNorm
		e.taps = e.channelTaps(k, "mm.model.peg.0.weight")
		e.tapBias = e.table(k, "mm.model.peg.0.bias", e.Width).row(0)
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		s := e.chosenLayers(b).Applied(kernel.GELUErf, "mm.model.mlp.0")
		hidden, made := *e.Config, *e.Config
		hidden.NEmbd, made.NEmbd = s.Width, e.Width
		s.Again(&hidden, nil)
		s = b.Mean(e.Merge * e.Merge).Product("mm.model.mlp.2")
		s.Again(&made, func() { b.Taps("mm.model.peg.0", e.taps, e.tapBias) })
		b.Beside(1).Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		in := e.fixed(prepare.Pad(p, e.Side, e.Side, prepare.Bicubic, [3]byte{122, 116, 104})) // as mlp
		side := e.Side / e.Patch / e.Merge
		in.Again = &Input{Tokens: in.Made * e.Merge * e.Merge, Again: &Input{Tokens: in.Made, From: neighbours(side, side, 1)}}
		return []Part{{Input: in}}
	},
}

// channelTaps reads a convolution of each channel over a place and its neighbours: a row of channels for each tap.
func (e *Encoder) channelTaps(k *Keys, name string) [][]float32 {
	t, taps := e.table(k, name, taps3x3), make([][]float32, taps3x3)
	if t.rows != e.Width {
		k.Check(fmt.Errorf("tensor %q: %d channels, want clip's projection_dim, %d", name, t.rows, e.Width))
	}
	for i := range taps {
		for channel := range t.rows {
			taps[i] = append(taps[i], t.row(channel)[i])
		}
	}
	return taps
}

// taps3x3 is the taps of a convolution over a place and its neighbours.
const taps3x3 = 9

// neighbours returns the numbers of places in a grid and of their neighbours, row by row; below 0 where there are none. The
// places are those of each step-th column and row.
func neighbours(columns, rows, step int) func(i int) []int32 {
	across := (columns + step - 1) / step
	return func(i int) []int32 {
		list := make([]int32, 0, taps3x3)
		middle, down := i%across*step, i/across*step
		for y := down - 1; y <= down+1; y++ {
			for x := middle - 1; x <= middle+1; x++ {
				at := int32(-1)
				if x >= 0 && x < columns && y >= 0 && y < rows {
					at = int32(y*columns + x)
				}
				list = append(list, at)
			}
		}
		return list
	}
}
