package arch

import "github.com/quern-llm/quern/go/kernel"

// Attention over residuals (Kimi Team 2026, "Attention Residuals"): every few layers the residual is kept, and begins
// anew with what the next half makes. Halves read a sum of those that are kept and of the present one, by shares that a vector of their
// own gives to each. It is of one token: nothing of it lies in the state of a sequence.

// maxKept is how many residuals there may be, the present one among them.
const maxKept = 16

// recall reads before how many layers a residual is kept; 0 is none.
func (k *keys) recall() {
	const key = "attn_res.block_size"
	k.c.Recall = k.intOr(key, 0, 0, maxLayer)
	if n := k.c.Recall; n > 0 && k.c.kept(len(k.c.Layers)) >= maxKept {
		k.fail(key, "%d, of which there are more than %d in %d layers", n, maxKept-1, len(k.c.Layers))
	}
}

// kept is how many residuals are kept before layer il keeps its own, if it does.
func (c *Config) kept(il int) int { return (il + c.Recall - 1) / c.Recall }

// recall has the next half read what it recalls. Before attention the residual begins anew, in layers that keep it.
func (l layer) recall(score string, attention bool) {
	c := l.cfg
	if c.Recall == 0 {
		return
	}
	n := c.kept(l.il)
	keeps := l.il%c.Recall == 0
	if keeps && !attention {
		n++
	}
	l.bank(n)
	l.storeNext = keeps && attention
	if l.recalled = n > 0; l.recalled {
		l.remember(l.input(), l.blk+score, n)
	} else { // there is the embedding alone, whatever its score
		l.vector(l.blk+score+".weight", c.NEmbd)
	}
}

// recallAll makes the residual, after the last layer, what is recalled there.
func (b *builder) recallAll(score string) {
	last := len(b.p.Layers) - 1
	if b.recalled = false; b.cfg.Recall == 0 || last < 0 {
		return
	}
	n := b.cfg.kept(last + 1)
	b.bank(n)
	b.remember(b.x(), score, n)
	b.p.Layers[last] = append(b.p.Layers[last], b.take()...)
}

// bank has the residual behind the n that are kept.
func (b *builder) bank(n int) {
	c := b.cfg
	b.add(kernel.NormRows{Dst: b.banked(), DstCol: n * c.NEmbd, Src: b.x(), Cols: c.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
}

// remember has in dst what is recalled of n residuals that are kept and of the one behind them.
func (b *builder) remember(dst kernel.Buf, score string, n int) {
	c := b.cfg
	b.add(kernel.Recall{Dst: dst, Src: b.banked(), Cols: c.NEmbd, Segs: n + 1, Weight: b.vector(score+".weight", c.NEmbd), Eps: c.Eps})
}

// banked has the residuals of a token, one after the other.
func (b *builder) banked() kernel.Buf {
	return b.floats("kept", kernel.TokRows, (b.cfg.kept(len(b.cfg.Layers))+1)*b.cfg.NEmbd)
}
