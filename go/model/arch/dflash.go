package arch

import (
	"fmt"
	"math"
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

		for il, l := range h.Layers {
			if !slices.ContainsFunc(h.Layers[:il], func(o Layer) bool { return o.Rope == l.Rope }) {
				b.rotations(l.Rope)
			}
		}
		turns := b.take()
		b.embedded(b.x(), h.EmbedScale)
		step := append(slices.Clone(turns), b.take()...)
		p.Keep = turns
		for il, sizes := range h.Layers {
			l := layer{b, sizes, il, b.named(il)}
			inject, block := l.blockAttention(p.Hidden)
			l.residual("attn_norm", block)
			l.residual("ffn_norm", l.feedForward(feedForward{}))
			p.Keep, step = append(p.Keep, inject...), append(step, b.take()...)
		}
		last := b.guesses(p, "output_norm")
		last.Step = step
		p.Steps = []NextStep{last}
		b.p.Next = p
	},
}

// maxHeadBlock bounds the tokens that a head guesses at once: real ones guess 16.
const maxHeadBlock = 1 << 10

// blockAttention is the attention of the tokens of a block to each other and to the text, of which inject keeps keys
// and values that are made of hidden states.
func (l layer) blockAttention(hidden kernel.Buf) (inject []kernel.Op, block sublayer) {
	q := l.queries(attention{norm: normHead})
	if len(q.parts) != 3 {
		keep(l.builder, 0, fmt.Errorf("tensor %q: queries, keys and values in one, want a matrix of each", l.blk+"attn_qkv.weight"))
		return nil, sublayer{run: func(kernel.Act) {}}
	}
	nOut, n := l.NHead*l.ValueDim, l.cfg.NEmbd
	out := l.matrix(l.blk+"attn_output.weight", nOut, n)
	var mats []kernel.Matrix
	for _, p := range q.parts {
		mats = append(mats, p.Matrix)
	}
	heads := kernel.Heads{NHead: l.NHead, NHeadKV: l.NHeadKV, HeadDim: l.HeadDim, ValueDim: l.ValueDim, KV: l.kv, QKV: q.buf, Col: q.col}
	heads.Group, heads.KVOffset, heads.Tiers = l.place()

	act := l.act("head.kept", kernel.TokRows, n, mats[1:]...)
	l.add(kernel.ToAct{Act: act, Src: hidden, Cols: n})
	l.add(kernel.Matmul{Dst: q.buf, Act: act, Parts: q.parts[1:]})
	store := l.store(attention{norm: normHead}, heads, balance{})
	l.add(store) // where queries would be is nothing
	inject = l.take()
	return inject, sublayer{mats, func(act kernel.Act) {
		l.add(kernel.Matmul{Dst: q.buf, Act: act, Parts: q.parts})
		l.add(store)
		att := l.floats("att", kernel.TokRows, nOut)
		attend := kernel.Attend{Heads: heads, Dst: att, Window: l.Window, Ahead: math.MaxInt32}
		if l.cfg.Head.Causal {
			attend.Ahead = 0
		}
		if sinks := l.blk + "attn_sinks.weight"; l.w.Has(sinks) {
			attend.Sinks = l.vector(sinks, l.NHead)
		}
		l.add(attend)
		attAct := l.act("att", kernel.TokRows, nOut, out)
		l.inner(attAct, att, nOut, "")
		l.result(attAct, kernel.Part{Matrix: out}, "")
	}}
}
