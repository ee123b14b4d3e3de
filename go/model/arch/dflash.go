package arch

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// dflash is DFlash (Chen, Liang and Liu 2026, "DFlash: Block Diffusion for Flash Speculative Decoding"): layers that
// guess a block of tokens at once. Of each token of the text they keep keys and values that are made of the inputs of
// some of the model's layers; to these and to each other attend the token that was sampled last and behind it masks,
// each of which becomes the guess at its place.
var dflash = headKind{
	name: "dflash",
	config: func(k *Keys, h *Head) {
		k.Dense(kernel.RopeNeox)
		if k.IntOr("attention.sliding_window", 0, 0, MaxCtx) > 0 {
			k.Windows(func(int) bool { return false })
		}
		h.Inputs = k.HeadInputs(MaxHeadInputs)
		h.Width = k.Config.NEmbd
		h.Block = k.IntOr("block_size", 16, 2, MaxHeadBlock)
		h.Causal = k.BoolOr("attention.causal", false)
		k.Config.BothWays = false // which is of its blocks
		h.EmbedScale = float32(k.FloatOr("embedding_scale", 1, 0, 1e6))
		h.LogitScale = float32(k.FloatOr("logit_scale", 1, 0, 1e6))
		h.LogitCap = float32(k.FloatOr("final_logit_softcapping", 0, 0, MaxCap))
		if h.LogitScale == 0 { // some files write 0 for none
			h.LogitScale = 1
		}
		const mask = "tokenizer.ggml.mask_token_id"
		id, err := k.File.Int(mask)
		if err == nil && (id < 0 || id >= MaxVocab) {
			err = fmt.Errorf("key %q: %d, want the token that stands for one that is to be guessed", mask, id)
		}
		k.Check(err)
		h.Mask = int32(id)
	},
	build: func(b *Builder, h *Head) {
		n := h.NEmbd
		p := &Next{Hidden: b.Floats("next.hidden", kernel.TokRows, n), Width: n, Block: h.Block, Mask: h.Mask}
		b.JoinInputs(p.Hidden, false)
		b.Normed(p.Hidden, p.Hidden, kernel.TokRows, HeadPrefix+"enc.output_norm")
		p.Take = b.Take()

		b.HeadRopes(0)
		turns := b.Take()
		b.EmbedTokens(b.X(), h.EmbedScale)
		step := append(slices.Clone(turns), b.Take()...)
		p.Keep = turns
		for il, sizes := range h.Layers {
			l := b.Layer(il, sizes)
			inject, block := l.BlockAttention(p.Hidden)
			l.Residual("attn_norm", block)
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
			p.Keep, step = append(p.Keep, inject...), append(step, b.Take()...)
		}
		b.Drafts(p, step, "output_norm")
	},
}
