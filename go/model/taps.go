package model

import (
	"fmt"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// Taps implements nn.Weights.
func (w *weights) Taps(name string, order nn.TapOrder, taps, in, out int) (kernel.Matrix, error) {
	key := name + " by taps"
	if m, ok := w.byName[key]; ok {
		return m.asked(), nil
	}
	t, ok := w.f.Tensor(name)
	if !ok {
		return kernel.Matrix{}, missingTensor(name)
	}
	n, last := uint64(1), len(t.Dims)-1 // taps and channels may have several dimensions
	for _, d := range t.Dims[:max(last, 0)] {
		n *= d
	}
	if last < 1 || n != uint64(taps*in) || t.Dims[last] != uint64(out) {
		return kernel.Matrix{}, fmt.Errorf("tensor %q: shape %v, want %d taps of %d channels in each of %d rows", name, t.Dims,
			taps, in, out)
	}
	if !isFloat(t) {
		return kernel.Matrix{}, fmt.Errorf("tensor %q: type %v, want F32, F16 or BF16", name, t.Type)
	}
	m := &matrix{
		parts:  []*gguf.Tensor{t},
		remade: func(buf []byte, t *gguf.Tensor) ([]byte, error) { return tapByTap(buf, t, order, taps, in, out) },
	}
	m.Type, m.In, m.Out, m.N = kernel.F32, taps*kernel.Pad(in), kernel.Pad(out), 1
	w.keep(key, m)
	return m.asked(), nil
}

// tapByTap remakes the kernels of a convolution: in each, the channels of a tap become neighbours, and then come as
// many zeros as make whole panels; so do the kernels.
func tapByTap(buf []byte, t *gguf.Tensor, order nn.TapOrder, taps, in, out int) ([]byte, error) {
	width, side := kernel.Pad(in), 1
	for side*side < taps {
		side++
	}
	buf = buf[:kernel.Pad(out)*taps*width*4]
	clear(buf)
	y, x := mem.Float32s(buf), make([]float32, taps*in)
	row := kernel.RowBytes(typeOf(t), taps*in)
	for o := range out {
		if err := kernel.Dequantize(typeOf(t), x, t.Data[o*row:][:row]); err != nil {
			return nil, err
		}
		to := y[o*taps*width:]
		for c := range in {
			for tap := range taps {
				switch order {
				case nn.TapsOfChannels:
					to[tap*width+c] = x[c*taps+tap]
				case nn.TurnedTaps:
					to[(tap%side*side+tap/side)*width+c] = x[c*taps+tap]
				case nn.ChannelsOfTaps:
					to[tap*width+c] = x[tap*in+c]
				}
			}
		}
	}
	return buf, nil
}
