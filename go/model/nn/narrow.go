package nn

import "github.com/quern-llm/quern/go/kernel"

// Embeddings that are narrower than the residual, with a product between (Clark et al. 2020, "ELECTRA"; Zhang et al.
// 2022, "OPT", which has one back before the output matrix).

// narrowProjection is the matrix of the product.
const narrowProjection = "token_embd_proj.weight"

// NarrowEmbeddings reads the width of the embeddings from the matrix that follows them, if there is one.
func (k *Keys) NarrowEmbeddings() {
	if t, ok := k.File.Tensor(narrowProjection); ok && len(t.Dims) == 2 {
		k.Config.NNarrow = int(min(t.Dims[0], MaxEmbd))
	}
}

// embedTokens begins the residual with the embeddings of the tokens, and the rows that some bring in place of them.
func (b *Builder) embedTokens() {
	c := b.Config
	if c.NNarrow == 0 {
		scale := c.EmbedScale
		if c.Media && c.ScalesMedia {
			scale = 1
		}
		b.Add(kernel.Embed{Dst: b.X(), Table: b.Table(c.Embedding, c.NEmbd, c.NVocab), Scale: scale})
		b.media(0)
		if scale != c.EmbedScale {
			b.plain(b.X(), kernel.Store, c.EmbedScale, b.X())
		}
		return
	}
	m := b.Matrix(narrowProjection, c.NNarrow, c.NEmbd)
	narrow, act := b.Floats("narrow", kernel.TokRows, c.NNarrow), b.Act("narrow", kernel.TokRows, c.NNarrow, m)
	b.Add(kernel.Embed{Dst: narrow, Table: b.Table(c.Embedding, c.NNarrow, c.NVocab), Scale: c.EmbedScale})
	b.Add(kernel.ToAct{Act: act, Src: narrow, Cols: c.NNarrow})
	b.Add(kernel.Matmul{Dst: b.X(), Act: act, Parts: []kernel.Part{{Matrix: m}}})
	b.media(0)
}

// narrowOutput projects the input of the output matrix to the width of the embeddings.
func (b *Builder) narrowOutput(act kernel.Act, project, output kernel.Matrix) kernel.Act {
	n := b.Config.NNarrow
	narrow, to := b.Floats("narrow out", kernel.OutRows, n), b.Act("narrow out", kernel.OutRows, n, output)
	b.Add(kernel.Matmul{Dst: narrow, Act: act, Rows: kernel.OutRows, Parts: []kernel.Part{{Matrix: project}}})
	b.Add(kernel.ToAct{Act: to, Src: narrow, Rows: kernel.OutRows, Cols: n})
	return to
}
