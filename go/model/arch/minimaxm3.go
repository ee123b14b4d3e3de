package arch

import "github.com/quern-llm/quern/go/kernel"

// minimaxm3 is the part of MiniMax M3 that reads and writes text: dense first layers, and behind them attention to the best
// spans of positions, of which each kv head has its own, and sigmoid routing with a correction of the choice beside a shared
// expert; the gated function with limits of gpt-oss.
var minimaxm3 = Arch{
	Name: "minimax-m3",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, false)
		k.denseLead()
		k.sharedExperts()
		k.rope(kernel.RopeNeox)
		k.headSpans()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead, spans: l.Every > 0, apart: true}))
			l.mixture("ffn_norm", experts{fn: kernel.SwiGLUClamp})
		})
		b.end("output_norm")
	},
}

// headSpans reads the sizes of the index of sparse layers, which has a head for each kv head, and of spans: the file counts
// spans that are seen, with the last ones, which always are.
func (k *keys) headSpans() {
	const size, near, top = "attention.indexer.block_size", "attention.indexer.local_blocks", "attention.indexer.top_k"
	n := &k.c.Latent.Index
	*n = Index{
		NHead: k.int("attention.indexer.head_count", 1, maxHead),
		Dim:   k.int("attention.indexer.key_length", 1, maxHeadDim),
	}
	span, last, all := k.int(size, 2, maxCtx), k.int(near, 1, maxChosen), k.int(top, 2, maxChosen)
	n.Best, n.Near = (all-last)*span, last*span
	for il := range k.c.Layers {
		l := &k.c.Layers[il]
		if !l.Sparse {
			continue
		}
		l.Every = span
		switch {
		case kernel.KVBlock%span != 0 && span%kernel.KVBlock != 0:
			k.fail(size, "%d, want a divisor or a multiple of %d", span, kernel.KVBlock)
		case last >= all || all*span > maxChosen:
			k.fail(top, "%d of %d positions, want more than the %d that are always seen, and at most %d positions", all, span, last, maxChosen)
		case n.NHead != l.NHeadKV:
			k.fail("attention.indexer.head_count", "%d, want the %d key-value heads of layer %d", n.NHead, l.NHeadKV, il)
		case n.Dim%kernel.Panel != 0 || n.Dim < l.Rope.NRot:
			k.fail("attention.indexer.key_length", "%d, want a multiple of %d, at least the %d that are rotated", n.Dim, kernel.Panel, l.Rope.NRot)
		}
	}
}
