package arch

import "github.com/quern-llm/quern/go/kernel"

// A Classifier is what some files have to score a text with: rerankers, for one.
type Classifier struct {
	Pooling Pooling // what it is given of the text
	NHidden int     // width of its first product; 0: no hidden layer
	NScore  int     // scores of a text; 0: there is no classifier
	Softmax bool    // they become probabilities
}

const (
	firstOfClassifier  = "cls.weight"
	secondOfClassifier = "cls.output.weight"
)

// classifier reads the sizes of a classifier. That of an encoder is over its first token, but for
// ModernBERT's, and that of the rest over the last, whose scores are of yes and of no.
func (k *keys) classifier() {
	width := func(name string) int {
		t, ok := k.f.Tensor(name)
		switch {
		case !ok:
			return 0
		case len(t.Dims) == 2:
			return int(min(t.Dims[1], maxVocab))
		}
		return 1
	}
	c := &k.c.Classifier
	c.NHidden, c.NScore = width(firstOfClassifier), width(secondOfClassifier)
	if c.NScore == 0 { // jina-reranker's has one product
		c.NScore = c.NHidden
	}
	switch {
	case c.NScore == 0, c.Pooling != PoolNone:
	case k.c.BothWays:
		c.Pooling = PoolCLS
	default:
		c.Pooling, c.Softmax = PoolLast, true
	}
}

// scores adds the classifier, if there is one.
func (b *builder) scores() {
	c := b.cfg.Classifier
	if c.NScore == 0 {
		return
	}
	in := b.floats("given", kernel.OutRows, b.cfg.NEmbd)
	out, width := in, b.cfg.NEmbd
	product := func(name, use string, n int, op kernel.Matmul) {
		m := b.matrix(name+".weight", width, n)
		act := b.act("to "+use, kernel.OutRows, width, m)
		b.add(kernel.ToAct{Act: act, Src: out, Rows: kernel.OutRows, Cols: width})
		out, width = b.floats(use, kernel.OutRows, n), n
		op.Dst, op.Act, op.Rows = out, act, kernel.OutRows
		op.Parts = []kernel.Part{{Matrix: m, Bias: b.optional(name+".bias", n)}}
		b.add(op)
	}
	if c.NHidden > 0 {
		fn := kernel.Matmul{Softcap: 1} // a tanh
		if c.Pooling == PoolMean {
			fn = kernel.Matmul{Epilogue: kernel.Apply, Fn: kernel.GELUErf}
		}
		product("cls", "hidden scores", c.NHidden, fn)
		if b.has("cls.norm.weight") {
			b.add(kernel.NormRows{
				Dst: out, Src: out, Rows: kernel.OutRows, Cols: width, Segs: 1, Scale: 1,
				Kind: b.cfg.Norm, Eps: b.cfg.Eps, Weight: b.vector("cls.norm.weight", width),
			})
		}
	}
	if b.has(secondOfClassifier) {
		product("cls.output", "scores", c.NScore, kernel.Matmul{})
	}
	b.p.Outputs = append(b.p.Outputs, Output{Name: Scores, Ops: b.take(), Given: true, In: in, Buf: out, Width: c.NScore})
}
