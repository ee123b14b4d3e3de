package nn

import "github.com/quern-llm/quern/go/kernel"

// Attention residuals over blocks (Kimi Team 2026, "Attention Residuals"): at the start of each block of layers the
// residual restarts with the result of the next sublayer, and the sum of the block before is complete. Sublayers read a
// weighted sum of the completed blocks and the partial one, with scores by a vector of their own. A token sees only its
// own blocks: nothing of it is in the state of a sequence.

// maxResidualBlocks bounds the blocks, the partial one included.
const maxResidualBlocks = 16

// AttnRes reads the number of layers of a block; 0: no attention residuals.
func (k *Keys) AttnRes() {
	const key = "attn_res.block_size"
	k.Config.AttnResBlock = k.IntOr(key, 0, 0, MaxLayer)
	if n := k.Config.AttnResBlock; n > 0 && k.Config.completedBlocks(len(k.Config.Layers)) >= maxResidualBlocks {
		k.Fail(key, "%d, of which there are more than %d in %d layers", n, maxResidualBlocks-1, len(k.Config.Layers))
	}
}

// completedBlocks is the number of complete blocks before layer il; the first is the embedding. A layer that starts a
// block completes another.
func (c *Config) completedBlocks(il int) int { return (il + c.AttnResBlock - 1) / c.AttnResBlock }

// AttnRes has the next sublayer read the result of attention to the blocks. Before attention in layers that start a
// block, the residual restarts.
func (l Layer) AttnRes(score string, attention bool) {
	c := l.Config
	if c.AttnResBlock == 0 {
		return
	}
	n := c.completedBlocks(l.Index)
	first := l.Index%c.AttnResBlock == 0
	if first && !attention {
		n++
	}
	l.storePartialBlock(n)
	l.storeNext = first && attention
	if l.readsAttnRes = n > 0; l.readsAttnRes {
		l.attendBlocks(l.input(), l.prefix+score, n)
	} else { // there is the embedding alone, whatever its score
		l.Vector(score+".weight", c.NEmbd)
	}
}

// AttnResAll puts the result of attention to all blocks into x, after the last layer.
func (b *Builder) AttnResAll(score string) {
	last := len(b.Program.Layers) - 1
	if b.readsAttnRes = false; b.Config.AttnResBlock == 0 || last < 0 {
		return
	}
	n := b.Config.completedBlocks(last + 1)
	b.storePartialBlock(n)
	b.attendBlocks(b.X(), score, n)
	b.Program.Layers[last] = append(b.Program.Layers[last], b.Take()...)
}

// storePartialBlock copies the residual, the sum of the partial block, to the place after n completed blocks.
func (b *Builder) storePartialBlock(n int) {
	c := b.Config
	b.Add(kernel.NormRows{
		Dst: b.residualBlocks(), DstCol: n * c.NEmbd, Src: b.X(), Cols: c.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
	})
}

// attendBlocks puts the result of attention to n completed blocks and the partial one into dst.
func (b *Builder) attendBlocks(dst kernel.Buf, score string, n int) {
	c := b.Config
	b.Add(kernel.MixByScores{
		Dst: dst, Src: b.residualBlocks(), Cols: c.NEmbd, Segs: n + 1, Weight: b.Vector(score+".weight", c.NEmbd),
		Eps: c.Eps,
	})
}

// residualBlocks is the buffer of the blocks, one after the other.
func (b *Builder) residualBlocks() kernel.Buf {
	return b.Floats("residual blocks", kernel.TokRows,
		(b.Config.completedBlocks(len(b.Config.Layers))+1)*b.Config.NEmbd)
}
