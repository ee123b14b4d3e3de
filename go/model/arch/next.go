package arch

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// A Next is the block of a model that predicts a token further on (multi-token prediction, DeepSeek-AI 2024, "DeepSeek-V3
// Technical Report"), or the head of another file in its place. From the hidden state after a position and the token that follows
// it, which is the batch's token there, it
// makes a hidden state, and from that the logits of the token after the one that follows. It has keys and values of its
// own, beside those of the layers. Given its own hidden state and its own guess, it goes on.
type Next struct {
	Hidden kernel.Buf  // hidden states that it reads: [token][Width]
	Width  int         // of hidden states
	Take   []kernel.Op // Hidden = those after the tokens that the layers ran over
	Keep   []kernel.Op // what it keeps of positions, and no more
	Steps  []NextStep  // one that guesses each further token, or one for each
	Out    kernel.Buf
	Logits kernel.Buf
	NVocab int     // logits of a row
	IDs    []int32 // the tokens that they are of; nil: the first, or there is no memory yet

	Still bool  // all guesses are at the first's position
	Block int   // tokens of a block, of which a step guesses all but the first at once, given no hidden states; 0: one after the other
	Mask  int32 // in place of those
}

// A NextStep guesses a token further on.
type NextStep struct {
	Step []kernel.Op // what it keeps, and its hidden states
	Head []kernel.Op // of rows: hidden states in Out, logits in Logits
}

// CanDraft returns nil if the model has a head, or a block that predicts a further token, and it can be run, else why not.
func (c *Config) CanDraft() error {
	if c.Head.Arch != "" {
		return c.Head.Fits(c)
	}
	_, ok := c.next(0)
	switch {
	case c.NNext == 0:
		return fmt.Errorf("%s: the file has no layers that predict further tokens", c.Arch)
	case c.OnePass() || !ok:
		return fmt.Errorf("%s: a layer that predicts further tokens needs attention of the model's kind, and it has none", c.Arch)
	case c.Hyper != (Hyper{}) || c.NEmbd%kernel.Panel != 0:
		return fmt.Errorf("%s: layers that predict further tokens are not supported for a residual of several streams, or of no multiple of %d numbers", c.Arch, kernel.Panel)
	}
	return nil
}

// next returns the sizes of a block. Where files do not say them, they are those of the last layer with attention to all positions,
// or to a window where all have one.
func (c *Config) next(i int) (l Layer, ok bool) {
	if i < len(c.NextLayers) && c.NextLayers[i].NHeadKV > 0 {
		return c.NextLayers[i], true
	}
	for _, sizes := range slices.Backward(c.Layers) {
		if sizes.NHeadKV == 0 || sizes.Shared || ok && sizes.Window > 0 {
			continue
		}
		if l, ok = sizes, true; l.Window == 0 {
			break
		}
	}
	l.Hashed = false
	return l, ok
}

// next builds the blocks after the last layer. norm is what follows the layers. Of several blocks the k-th guesses the k-th token further
// on. All keep of a position what they make of the model's hidden state; behind the text they are given those of the blocks before
// them.
func (b *builder) next(norm string) {
	c := b.cfg
	p := &Next{Width: c.NEmbd, NVocab: c.NVocab}
	check(c.CanDraft())
	p.Hidden = b.floats("next.hidden", kernel.TokRows, c.NEmbd)
	after := norm
	if c.NextRaw {
		after = ""
	}
	b.normed(p.Hidden, b.x(), kernel.TokRows, after)
	p.Take = b.take()

	b.residuals = "next.x"
	defer func() { b.residuals = "" }()
	for i := range c.NNext {
		il := len(c.Layers) + i
		if i > 0 && !b.has(b.named(il)+"nextn.eh_proj.weight") {
			break // as of files that have the first alone
		}
		s := b.nextStep(p, il, norm)
		kept := keeping(s.Step)
		if len(kept) == 0 {
			check(fmt.Errorf("%s: a layer that predicts further tokens keeps nothing of a position", c.Arch))
		}
		p.Keep, p.Steps = append(p.Keep, kept...), append(p.Steps, s)
	}
	b.p.Next = p
}

// nextStep builds one of the blocks.
func (b *builder) nextStep(p *Next, il int, norm string) (s NextStep) {
	c := b.cfg
	sizes, _ := c.next(il - len(c.Layers))
	l := b.layer(il, sizes)
	l.Sparse = l.has("ffn_gate_inp.weight")
	if l.Indexed = l.has("indexer.attn_k.weight"); l.latents().Index.Best > 0 && !l.Indexed {
		check(fmt.Errorf("tensor %q is missing: the layer that predicts further tokens chooses positions by itself", l.blk+"indexer.attn_k.weight"))
	}
	if l.Rope.Style != kernel.RopeNone {
		b.rotations(l.Rope)
	}
	l.joinNext(p.Hidden)
	b.block(l)
	s.Step = b.take()

	m := b.output()
	if name := "nextn.shared_head_head.weight"; l.has(name) {
		m = l.matrix(name, c.NEmbd, c.NVocab)
	}
	for _, own := range []string{"layer_output_norm", "nextn.shared_head_norm"} {
		if own = l.blk + own; b.has(own + ".weight") {
			norm = own
		}
	}
	p.Out, p.Logits = b.floats("out", kernel.OutRows, c.NEmbd), b.floats("logits", kernel.OutRows, c.NVocab)
	act := b.act("out", kernel.OutRows, c.NEmbd, m)
	b.add(kernel.Gather{Dst: p.Out, Src: b.x()})
	if c.NextRaw {
		b.add(b.norm(act, p.Out, kernel.OutRows, norm))
	} else {
		b.normed(p.Out, p.Out, kernel.OutRows, norm)
		b.add(kernel.ToAct{Act: act, Src: p.Out, Rows: kernel.OutRows, Cols: c.NEmbd})
	}
	b.add(kernel.Matmul{
		Dst: p.Logits, Act: act, Rows: kernel.OutRows, Scale: c.LogitScale, Softcap: c.LogitCap,
		Parts: []kernel.Part{{Matrix: m, Bias: b.optional("output.bias", c.NVocab)}},
	})
	s.Head = b.take()
	return s
}

// keeping is the operations up to the last that keeps something of a position.
func keeping(ops []kernel.Op) []kernel.Op {
	for i, op := range slices.Backward(ops) {
		if s, ok := op.(kernel.StoreKV); ok && !s.QueriesOnly {
			return ops[:i+1]
		}
	}
	return nil
}

// joinNext has in x the product of a matrix with the embedding of a token and, behind it, the hidden state of the position before it,
// each normalised.
func (l layer) joinNext(hidden kernel.Buf) {
	c, n := l.cfg, l.cfg.NEmbd
	name := "token_embd.weight"
	if own := "nextn.embed_tokens.weight"; l.has(own) {
		name = l.blk + own
	}
	table := l.builder.table(name, n, c.NVocab)
	m := l.matrix("nextn.eh_proj.weight", 2*n, n)
	both := l.floats("next.both", kernel.TokRows, 2*n)
	act := l.act("next.both", kernel.TokRows, 2*n, m)
	l.add(kernel.Embed{Dst: both, Table: table, Scale: c.EmbedScale})
	l.normed(both, both, kernel.TokRows, "nextn.enorm")
	l.add(kernel.NormRows{
		Dst: both, DstCol: n, Src: hidden, Cols: n, Segs: 1, Kind: c.Norm, Eps: c.Eps, Scale: 1,
		Weight: l.normWeights("nextn.hnorm", n), Bias: l.optional("nextn.hnorm.bias", n),
	})
	l.add(kernel.ToAct{Act: act, Src: both, Cols: 2 * n})
	l.add(kernel.Matmul{Dst: l.x(), Act: act, Parts: []kernel.Part{{Matrix: m}}})
}

// normed has in dst the norm of src, as floats, or src itself where name names none.
func (b *builder) normed(dst, src kernel.Buf, rows kernel.RowSet, name string) {
	op := kernel.NormRows{Dst: dst, Src: src, Rows: rows, Cols: b.cfg.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1}
	if name != "" {
		n := b.norm(nil, src, rows, name)
		op.Kind, op.Eps, op.Weight, op.Bias = n.Kind, n.Eps, n.Weight, n.Bias
	} else if dst == src {
		return
	}
	b.add(op)
}

// withNext reads the sizes of the blocks that predict further tokens as those of layers: the file lists them with the others.
func (k *keys) withNext(read func()) {
	c, n, more := k.c, len(k.c.Layers), k.c.NNext
	c.Layers, c.NNext = make([]Layer, n+more), 0
	read()
	c.Layers, c.NextLayers, c.NNext = c.Layers[:n:n], c.Layers[n:], more
}
