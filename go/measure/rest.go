package measure

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// The attention of a model of 8 B.
const (
	nHead, nHeadKV, headDim = 32, 8, 128
	// mostLayers is how many layers' keys and values are read in turns, at most:
	// as many as such a model has.
	mostLayers = 32
)

// attention measures tokens of one sequence over its keys and values. Those of
// several layers are read in turns, as in a forward pass, so that they come
// from memory where they are more than the caches hold.
func (b *Bench) attention(kv KV, yield func(*Result) error) error {
	layer := kernel.AlignUp(kernel.KVBytes(kv.Type, nHeadKV, headDim, headDim))
	for _, n := range b.Tokens {
		blocks := (b.Depth + n + kernel.KVBlock - 1) / kernel.KVBlock
		layers := min(len(b.Memory)/layer/blocks, mostLayers)
		if layers == 0 {
			return fmt.Errorf("%d positions need %d bytes, there are %d; give a smaller --n-depth or more --memory",
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

// vectors measures what a layer does between its products, on rows of a model of
// 8 B. They come out of the caches, as in a forward pass.
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
