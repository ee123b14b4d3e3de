package nn

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// A Next drafts tokens: the multi-token prediction blocks of a model (DeepSeek-AI 2024, "DeepSeek-V3 Technical
// Report"), or the head of another file. From the hidden state after a position and the token that follows, which is
// the batch's token, it computes a hidden state, and from that the logits of the token after. It has keys and values of
// its own. Given its own hidden state and token, it goes on.
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

	Still bool // all guesses are at the first's position
	// tokens of a block, of which a step guesses all but the first at once, given no hidden states; 0: one after the
	// other
	Block int
	Mask  int32 // in place of those
}

// A NextStep drafts one further token.
type NextStep struct {
	Step []kernel.Op // what it keeps, and its hidden states
	Head []kernel.Op // of rows: hidden states in Out, logits in Logits
}

// CanDraft returns nil if the model has a head or blocks that predict further tokens, and they can run; else the
// reason.
func (c *Config) CanDraft() error {
	if c.Head.Arch != "" {
		return c.Head.Fits(c)
	}
	_, ok := c.next(0)
	switch {
	case c.NNext == 0:
		return fmt.Errorf("%s: the file has no layers that predict further tokens", c.Arch)
	case c.OnePass() || !ok:
		return fmt.Errorf("%s: a layer that predicts further tokens needs attention of the model's kind, "+
			"and it has none", c.Arch)
	case c.Hyper != (Hyper{}) || c.NEmbd%kernel.Panel != 0:
		return fmt.Errorf("%s: layers that predict further tokens are not supported for a residual of several "+
			"streams, or of no multiple of %d numbers", c.Arch, kernel.Panel)
	}
	return nil
}

// next returns the sizes of block i. If the file does not have them, they are those of the last layer that attends to
// all positions, or, if all have a window, of the last one.
func (c *Config) next(i int) (l LayerConfig, ok bool) {
	if i < len(c.NextLayers) && c.NextLayers[i].NHeadKV > 0 {
		return c.NextLayers[i], true
	}
	for _, sizes := range slices.Backward(c.Layers) {
		if sizes.NHeadKV == 0 || sizes.SharedKV || ok && sizes.Window > 0 {
			continue
		}
		if l, ok = sizes, true; l.Window == 0 {
			break
		}
	}
	l.Hashed = false
	return l, ok
}

// next builds the blocks after the last layer. norm is the output norm. The k-th block drafts the k-th further token.
// All blocks store keys and values for the hidden states of the model; for drafts, a block reads the hidden state of
// the one before.
func (b *Builder) next(norm string) {
	c := b.Config
	p := &Next{Width: c.NEmbd, NVocab: c.NVocab}
	check(c.CanDraft())
	p.Hidden = b.Floats("next.hidden", kernel.TokRows, c.NEmbd)
	after := norm
	if c.NextRaw {
		after = ""
	}
	b.Normed(p.Hidden, b.X(), kernel.TokRows, after)
	p.Take = b.Take()

	b.residuals = "next.x"
	defer func() { b.residuals = "" }()
	for i := range c.NNext {
		il := len(c.Layers) + i
		if i > 0 && !b.Has(b.named(il)+"nextn.eh_proj.weight") {
			break // as of files that have the first alone
		}
		s := b.nextStep(p, il, norm)
		kept := Keeping(s.Step)
		if len(kept) == 0 {
			check(fmt.Errorf("%s: a layer that predicts further tokens keeps nothing of a position", c.Arch))
		}
		p.Keep, p.Steps = append(p.Keep, kept...), append(p.Steps, s)
	}
	b.Program.Next = p
}

// nextStep builds block il.
func (b *Builder) nextStep(p *Next, il int, norm string) (s NextStep) {
	c := b.Config
	sizes, _ := c.next(il - len(c.Layers))
	l := b.Layer(il, sizes)
	l.Sparse = l.Has("ffn_gate_inp.weight")
	if l.Indexed = l.Has("indexer.attn_k.weight"); l.latents().Index.TopK > 0 && !l.Indexed {
		check(fmt.Errorf("tensor %q is missing: the layer that predicts further tokens chooses positions by itself",
			l.prefix+"indexer.attn_k.weight"))
	}
	if l.Rope.Style != kernel.RopeNone {
		b.rotations(l.Rope)
	}
	l.joinNext(p.Hidden)
	b.block(l)
	s.Step = b.Take()

	m := b.output()
	if name := "nextn.shared_head_head.weight"; l.Has(name) {
		m = l.Matrix(name, c.NEmbd, c.NVocab)
	}
	for _, own := range []string{"layer_output_norm", "nextn.shared_head_norm"} {
		if own = l.prefix + own; b.Has(own + ".weight") {
			norm = own
		}
	}
	p.Out, p.Logits = b.Floats("out", kernel.OutRows, c.NEmbd), b.Floats("logits", kernel.OutRows, c.NVocab)
	act := b.Act("out", kernel.OutRows, c.NEmbd, m)
	b.Add(kernel.Gather{Dst: p.Out, Src: b.X()})
	if c.NextRaw {
		b.Add(b.Norm(act, p.Out, kernel.OutRows, norm))
	} else {
		b.Normed(p.Out, p.Out, kernel.OutRows, norm)
		b.Add(kernel.ToAct{Act: act, Src: p.Out, Rows: kernel.OutRows, Cols: c.NEmbd})
	}
	b.Add(kernel.Matmul{
		Dst: p.Logits, Act: act, Rows: kernel.OutRows, Scale: c.LogitScale, Softcap: c.LogitCap,
		Parts: []kernel.Part{{Matrix: m, Bias: b.optional("output.bias", c.NVocab)}},
	})
	s.Head = b.Take()
	return s
}

// Keeping returns the operations up to the last that stores keys and values.
func Keeping(ops []kernel.Op) []kernel.Op {
	for i, op := range slices.Backward(ops) {
		if s, ok := op.(kernel.StoreKV); ok && !s.QueriesOnly {
			return ops[:i+1]
		}
	}
	return nil
}

// joinNext puts into x a product with the embedding of the token and the hidden state of the position before, each
// normalised.
func (l Layer) joinNext(hidden kernel.Buf) {
	c, n := l.Config, l.Config.NEmbd
	name := c.Embedding
	if own := "nextn.embed_tokens.weight"; l.Has(own) {
		name = l.prefix + own
	}
	table := l.Builder.Table(name, n, c.NVocab)
	m := l.Matrix("nextn.eh_proj.weight", 2*n, n)
	both := l.Floats("next.both", kernel.TokRows, 2*n)
	act := l.Act("next.both", kernel.TokRows, 2*n, m)
	l.Add(kernel.Embed{Dst: both, Table: table, Scale: c.EmbedScale})
	l.Normed(both, both, kernel.TokRows, "nextn.enorm")
	l.Add(kernel.NormRows{
		Dst: both, DstCol: n, Src: hidden, Cols: n, Segs: 1, Kind: c.Norm, Eps: c.Eps, Scale: 1,
		Weight: l.NormWeights("nextn.hnorm", n), Bias: l.optional("nextn.hnorm.bias", n),
	})
	l.Add(kernel.ToAct{Act: act, Src: both, Cols: 2 * n})
	l.Add(kernel.Matmul{Dst: l.X(), Act: act, Parts: []kernel.Part{{Matrix: m}}})
}

// Normed puts the norm of src into dst as floats; without a name, src itself.
func (b *Builder) Normed(dst, src kernel.Buf, rows kernel.RowSet, name string) {
	op := kernel.NormRows{
		Dst: dst, Src: src, Rows: rows, Cols: b.Config.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
	}
	if name != "" {
		n := b.Norm(nil, src, rows, name)
		op.Kind, op.Eps, op.Weight, op.Bias = n.Kind, n.Eps, n.Weight, n.Bias
	} else if dst == src {
		return
	}
	b.Add(op)
}

// WithNext has read read the sizes of blocks that predict further tokens together with those of layers, if the file
// lists them together.
func (k *Keys) WithNext(read func()) {
	c, n, more := k.Config, len(k.Config.Layers), k.Config.NNext
	c.Layers, c.NNext = make([]LayerConfig, n+more), 0
	read()
	c.Layers, c.NextLayers, c.NNext = c.Layers[:n:n], c.Layers[n:], more
}
