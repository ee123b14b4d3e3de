package arch

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// dflash is DFlash (Chen, Liang and Liu 2026, "DFlash: Block Diffusion for Flash Speculative Decoding"): layers that
// guess a block of tokens at once. Of each token of the text they keep keys and values that are made of the inputs of
// some of the model's layers; to these and to each other attend the token that was sampled last and behind it masks,
// each of which becomes the guess at its place.
var dflash = headKind{
	name: "dflash",
	config: func(k *keys, h *Head) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		if k.intOr("attention.sliding_window", 0, 0, maxCtx) > 0 {
			k.windows(func(int) bool { return false })
		}
		h.Inputs = k.inputs(maxHeadInputs)
		h.Width = k.c.NEmbd
		h.Block = k.intOr("block_size", 16, 2, maxHeadBlock)
		h.Causal = k.boolOr("attention.causal", false)
		k.c.BothWays = false // which is of its blocks
		h.EmbedScale = float32(k.floatOr("embedding_scale", 1, 0, 1e6))
		h.LogitScale = float32(k.floatOr("logit_scale", 1, 0, 1e6))
		h.LogitCap = float32(k.floatOr("final_logit_softcapping", 0, 0, maxCap))
		if h.LogitScale == 0 { // some files write 0 for none
			h.LogitScale = 1
		}
		const mask = "tokenizer.ggml.mask_token_id"
		id, err := k.f.Int(mask)
		if err == nil && (id < 0 || id >= maxVocab) {
			err = fmt.Errorf("key %q: %d, want the token that stands for one that is to be guessed", mask, id)
		}
		k.keep(err)
		h.Mask = int32(id)
	},
	build: func(b *builder, h *Head) {
		n := h.NEmbd
		p := &Next{Hidden: b.floats("next.hidden", kernel.TokRows, n), Width: n, Block: h.Block, Mask: h.Mask}
		b.joinInputs(p.Hidden, false)
		b.normed(p.Hidden, p.Hidden, kernel.TokRows, HeadStem+"enc.output_norm")
		p.Take = b.take()

		b.headRopes(0)
		turns := b.take()
		b.embedded(b.x(), h.EmbedScale)
		step := append(slices.Clone(turns), b.take()...)
		p.Keep = turns
		for il, sizes := range h.Layers {
			l := b.layer(il, sizes)
			inject, block := l.blockAttention(p.Hidden)
			l.residual("attn_norm", block)
			l.residual("ffn_norm", l.feedForward(feedForward{}))
			p.Keep, step = append(p.Keep, inject...), append(step, b.take()...)
		}
		b.drafts(p, step, "output_norm")
	},
}
