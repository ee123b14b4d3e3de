package measure

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// The attention of an 8B model.
const (
	nHead, nHeadKV, headDim = 32, 8, 128
	// mostLayers is the maximum number of layers whose keys and values are read
	// alternately: that of such a model.
	mostLayers = 32
)

// attention measures the attention of a sequence's tokens over its keys and values.
// Those of several layers are read alternately, as in a forward pass, so that they come
// from memory if they exceed the caches.
func (b *Bench) attention(kv KV, yield func(*Result) error) error {
	layer := kernel.AlignUp(kernel.KVBytes(kv.Type, nHeadKV, headDim, headDim))
	for _, n := range b.Tokens {
		blocks := (b.Depth + n + kernel.KVBlock - 1) / kernel.KVBlock
		layers := min(len(b.Memory)/layer/blocks, mostLayers)
		if layers == 0 {
			return fmt.Errorf("%d positions need %d bytes, there are %d; want fewer, or more memory",
				b.Depth+n, blocks*layer, len(b.Memory))
		}
		r := &Result{Kernel: Attention, Type: kv.Name, Tokens: n, Depth: b.Depth}
		positions := float64(b.Depth + n)
		r.Bytes = float64(layer) / kernel.KVBlock * positions
		for i := range n {
			r.MACs += 2 * nHead * headDim * float64(b.Depth+i+1)
		}
		if err := b.attend(r, kv.Type, layers, layer); err != nil {
			return err
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) attend(r *Result, t kernel.KVTypes, layers, layer int) error {
	const q, k = nHead * headDim, nHeadKV * headDim
	s, err := b.stage([]kernel.BufSpec{{Width: q + 2*k}, {Width: q}}, r.Tokens)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.sequence(r.Tokens, r.Depth, layers*layer, b.Memory); err != nil {
		return err
	}
	var plans [][]kernel.Op
	for i := range layers {
		plans = append(plans, []kernel.Op{kernel.Attend{Dst: 1, Heads: kernel.Heads{
			NHead: nHead, NHeadKV: nHeadKV, HeadDim: headDim, KV: t, KVOffset: i * layer, Col: [3]int{0, q, q + k},
		}}})
	}
	if err := s.prepare(plans...); err != nil {
		return err
	}
	s.sample(r, 1)
	return nil
}

// vectors measures the operations between a layer's products, on rows of an 8B model.
// Their input is in the caches, as in a forward pass.
func (b *Bench) vectors(yield func(*Result) error) error {
	const cols = memoryIn
	act := kernel.Act{kernel.ActQ8x256: 1}
	weight := mem.Float32s(b.Memory[:4*cols])
	for _, op := range []struct {
		kernel Kernel
		op     kernel.Op
	}{
		{Norm, kernel.Norm{Act: act, Src: 0, Cols: cols, Weight: weight, Eps: 1e-5}},
		{Quantize, kernel.ToAct{Act: act, Src: 0, Cols: cols}},
	} {
		same := make([]kernel.Op, cachedOps)
		for i := range same {
			same[i] = op.op
		}
		for _, n := range b.Tokens {
			r := &Result{Kernel: op.kernel, Type: "f32", Tokens: n, FromCache: true, Bytes: 4 * cols * float64(n)}
			if err := b.vector(r, same); err != nil {
				return err
			}
			if err := yield(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bench) vector(r *Result, ops []kernel.Op) error {
	s, err := b.stage([]kernel.BufSpec{{Width: memoryIn}, {Kind: kernel.ActQ8x256, Width: memoryIn}}, r.Tokens)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.prepare(ops); err != nil {
		return err
	}
	s.sample(r, len(ops))
	return nil
}
