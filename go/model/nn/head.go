package nn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

// HeadPrefix begins the names of a head's tensors, among those of the model that it drafts for.
const HeadPrefix = "head."

// A Head is the sizes of layers in a file of their own that draft for a model: they read its hidden states. The zero
// value: none.
type Head struct {
	Arch   string // general.architecture of its file
	NEmbd  int    // residual width
	NTable int    // rows of its embedding; 0: it has the model's
	NVocab int    // tokens that it guesses among; 0: the model's, by the model's output
	Mapped bool   // they are those that the tensor d2t lists, else the first of the vocabulary
	Eps    float32
	Layers []LayerConfig

	Inputs []int // the layers whose inputs it reads; of as many as there are: the output of the last
	Width  int   // of these inputs

	NormInputs   bool // they are normalised, side by side
	NormResidual bool // the residual begins with normalised hidden states

	// it attends to the model's keys and values, and is given its embeddings and its last hidden states, normalised
	Reads bool

	Block      int   // tokens of a block, of which it guesses all but the first at once; 0: one after the other
	Mask       int32 // the token in place of those
	Causal     bool  // it sees those before it, and not those after it
	EmbedScale float32
	LogitScale float32
	LogitCap   float32
}

// MaxHeadInputs bounds the layers whose inputs a head reads: real ones read three to six.
const MaxHeadInputs = 64

// ReadHeadKeys returns the sizes of a head, whose keys read reads. Errors name the key or the tensor.
func ReadHeadKeys(f *gguf.File, arch string, read func(k *Keys, h *Head)) (h Head, err error) {
	defer stopped(&err)
	k := &Keys{File: f, head: true, Config: &Config{Arch: arch, EmbedScale: 1, ResidualScale: 1, LogitScale: 1,
		ExpertScale: 1}}
	h = Head{Arch: arch, EmbedScale: 1, LogitScale: 1}
	k.model()
	read(k, &h)
	k.unread()
	h.NEmbd, h.Eps, h.Layers = k.Config.NEmbd, k.Config.Eps, k.Config.Layers
	for i := range h.Layers {
		if r := &h.Layers[i].Rope; r.Factors != "" {
			r.Factors = HeadPrefix + r.Factors
		}
	}
	if h.NVocab, h.NTable = k.rowsOf("output.weight"), k.rowsOf("token_embd.weight"); h.Reads {
		h.NVocab, h.NTable = h.NTable, 0
	}
	if t, ok := f.Tensor("d2t"); ok {
		if h.Mapped = true; h.NVocab == 0 || t.Elems() != uint64(h.NVocab) {
			k.Check(fmt.Errorf("tensor %q: shape %v, want a number for each of the %d rows of %q", t.Name, t.Dims,
				h.NVocab, "output.weight"))
		}
	}
	return h, nil
}

// rowsOf returns the rows of a matrix; 0 if the file does not have it.
func (k *Keys) rowsOf(name string) int {
	t, ok := k.File.Tensor(name)
	if !ok {
		return 0
	}
	if len(t.Dims) != 2 || t.Dims[1] > MaxVocab {
		k.Check(fmt.Errorf("tensor %q: shape %v, want two dimensions and at most %d rows", name, t.Dims, MaxVocab))
	}
	return int(t.Dims[1])
}

// HeadInputs reads the layers whose inputs a head reads, at most `most`.
func (k *Keys) HeadInputs(most int) []int {
	key := "target_layers"
	if old := "extract_layers"; !k.Has(key) && k.Has(old) { // as first files had it
		key = old
	}
	all, err := k.File.Ints(k.Name(key))
	k.Check(err)
	if len(all) == 0 || len(all) > most {
		k.Fail(key, "%d layers, want 1 to %d", len(all), most)
	}
	list := make([]int, len(all))
	for i, n := range all {
		list[i] = k.within(key, n, 0, MaxLayer)
	}
	return list
}

// Fits returns nil if the head can draft for a model with this configuration, else the reason.
func (h *Head) Fits(c *Config) error {
	switch {
	case c.OnePass():
		return fmt.Errorf("%s reads a text as a whole, and nothing can draft for it", c.Arch)
	case c.Hyper != (Hyper{}) || c.AltUp:
		return fmt.Errorf("%s has a residual of several streams, and %s drafts for models with one", c.Arch, h.Arch)
	case c.NNarrow > 0:
		return fmt.Errorf("%s has embeddings of another width than its residual, and nothing can draft for it", c.Arch)
	case h.Width != c.NEmbd:
		return fmt.Errorf("it was made for a model of width %d, and this one has %d", h.Width, c.NEmbd)
	case c.NEmbd%kernel.Panel != 0 || h.NEmbd%kernel.Panel != 0:
		return fmt.Errorf("a width of %d beside one of %d, want multiples of %d", h.NEmbd, c.NEmbd, kernel.Panel)
	case h.Reads:
		return h.reads(c)
	case h.NTable == 0 && h.NEmbd != c.NEmbd:
		return fmt.Errorf("it has no token_embd.weight, and its width of %d is not the model's of %d", h.NEmbd, c.NEmbd)
	case h.NVocab == 0 && h.NEmbd != c.NEmbd:
		return fmt.Errorf("it has no output.weight, and its width of %d is not the model's of %d", h.NEmbd, c.NEmbd)
	case h.NTable > 0 && h.NTable < c.NVocab:
		return fmt.Errorf("its token_embd.weight has %d rows, and the model's vocabulary %d", h.NTable, c.NVocab)
	case h.Block > 0 && int(h.Mask) >= max(h.NTable, c.NVocab):
		return fmt.Errorf("its mask is token %d, and the vocabulary has %d", h.Mask, max(h.NTable, c.NVocab))
	case h.NVocab > c.NVocab && h.Mapped:
		return fmt.Errorf("it guesses among %d tokens, and the model has %d", h.NVocab, c.NVocab)
	}
	for _, il := range h.Inputs {
		if il > len(c.Layers) {
			return fmt.Errorf("it reads what goes into layer %d, and the model has %d: it was made for another one", il,
				len(c.Layers))
		}
	}
	return nil
}

// taps copies the input of layer il of the model, if the head reads it.
func (b *Builder) taps(il int) {
	c := b.Config
	if !c.Drafts || len(c.Head.Inputs) == 0 {
		return
	}
	n := c.NEmbd
	for i, of := range c.Head.Inputs {
		if of == il {
			b.Add(kernel.NormRows{
				Dst: b.headInputs(), DstCol: i * n, Src: b.X(), Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
			})
		}
	}
}

// headInputs is the buffer of the inputs of layers that the head reads, side by side.
func (b *Builder) headInputs() kernel.Buf {
	return b.Floats("head.inputs", kernel.TokRows, len(b.Config.Head.Inputs)*b.Config.Head.Width)
}

// draftHead builds the head of another file. norm is the output norm of the model.
func (b *Builder) draftHead(norm string) {
	h := &b.Config.Head
	if b.draft == nil {
		check(errors.New("a head of an unknown architecture"))
	}
	check(h.Fits(b.Config))
	if b.taps(len(b.Config.Layers)); h.Reads {
		b.Normed(b.Floats("next.hidden", kernel.TokRows, b.Config.NEmbd), b.X(), kernel.TokRows, norm)
	}
	own := *b
	own.Target = b.Config
	own.Config = &Config{
		Arch: h.Arch, Embedding: b.Config.Embedding, NEmbd: h.NEmbd, NVocab: b.Config.NVocab, Layers: h.Layers,
		Ctx: b.Config.Ctx, NCtx: b.Config.NCtx,
		Norm: kernel.RMS, Eps: h.Eps, EmbedScale: 1, ResidualScale: 1, LogitScale: 1, ExpertScale: 1, Head: *h,
	}
	own.TensorPrefix, own.residuals, own.caches, own.byDistance = HeadPrefix, "head.x", b.caches, nil
	own.ops = b.Take() // of the taps
	b.draft(&own, h)
}

// EmbedTokens puts the embeddings of tokens into dst: the head's, or the model's if it has none.
func (b *Builder) EmbedTokens(dst kernel.Buf, scale float32) {
	h := &b.Config.Head
	name, rows := HeadPrefix+"token_embd.weight", h.NTable
	if rows == 0 {
		name, rows = b.Config.Embedding, b.Config.NVocab
	}
	table := b.Table(name, h.NEmbd, rows)
	b.Add(kernel.Embed{Dst: dst, Table: table, Scale: scale})
}

// HeadRopes computes the rotations of the layers of a head, at shift positions after those of the batch.
func (b *Builder) HeadRopes(shift int) {
	var done []Rope
	for _, l := range b.Config.Layers {
		if l.Rope.Shift += shift; !slices.Contains(done, l.Rope) {
			b.rotations(l.Rope)
			done = append(done, l.Rope)
		}
	}
}

// Drafts ends a head. step is its layers, which leave hidden states in the residual. It adds their norm, and the logits
// of the tokens that the head drafts.
func (b *Builder) Drafts(p *Next, step []kernel.Op, norm string) {
	h := &b.Config.Head
	if h.NVocab == 0 {
		b.DraftsBy(p, step, b.output(), norm, kernel.Matrix{})
		return
	}
	b.DraftsBy(p, step, b.Matrix(HeadPrefix+"output.weight", h.NEmbd, h.NVocab), norm, kernel.Matrix{})
}

// DraftsBy is Drafts with a given output matrix. after, if any, is the projection from normalised hidden states to
// those of the next step.
func (b *Builder) DraftsBy(p *Next, step []kernel.Op, m kernel.Matrix, norm string, after kernel.Matrix) {
	h, n := &b.Config.Head, b.Config.NEmbd
	if p.NVocab = m.Out; h.Mapped {
		p.IDs = must(b.weights.Choice(HeadPrefix+"d2t", h.NVocab, 1, b.Config.NVocab))
	}
	mats := []kernel.Matrix{m}
	if after.Out > 0 {
		mats = append(mats, after)
	}
	p.Out, p.Logits = b.Floats("head.out", kernel.OutRows, n), b.Floats("logits", kernel.OutRows, p.NVocab)
	act := b.Act("head.out", kernel.OutRows, n, mats...)
	b.Add(kernel.Gather{Dst: p.Out, Src: b.X()})
	b.Add(b.Norm(act, p.Out, kernel.OutRows, HeadPrefix+norm))
	b.Add(kernel.Matmul{
		Dst: p.Logits, Act: b.Only(act, m), Rows: kernel.OutRows, Scale: h.LogitScale, Softcap: h.LogitCap,
		Parts: []kernel.Part{{Matrix: m}},
	})
	if after.Out > 0 {
		p.Out = b.Floats("head.after", kernel.OutRows, after.Out)
		b.Add(kernel.Matmul{
			Dst: p.Out, Act: b.Only(act, after), Rows: kernel.OutRows,
			Parts: []kernel.Part{{Matrix: after}},
		})
	}
	p.Steps = []NextStep{{Step: step, Head: b.Take()}}
	b.Program.Next = p
}

// MaxHeadBlock bounds the tokens that a head drafts at once: real ones draft 16.
const MaxHeadBlock = 1 << 10

// JoinInputs puts into dst the product with the inputs of layers that a head reads, normalised if asked.
func (b *Builder) JoinInputs(dst kernel.Buf, normed bool) {
	h := &b.Config.Head
	n, in := len(h.Inputs)*h.Width, b.headInputs()
	fc := b.Matrix(HeadPrefix+"fc.weight", n, h.NEmbd)
	act := b.Act("head.inputs", kernel.TokRows, n, fc)
	if normed {
		b.Add(kernel.Norm{
			Act: act, Src: in, Cols: n, Kind: kernel.RMS, Eps: h.Eps,
			Weight: b.NormWeights(HeadPrefix+"enc.output_norm", n),
		})
	} else {
		b.Add(kernel.ToAct{Act: act, Src: in, Cols: n})
	}
	b.Add(kernel.Matmul{Dst: dst, Act: act, Parts: []kernel.Part{{Matrix: fc}}})
}
