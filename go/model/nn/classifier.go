package nn

import "github.com/quern-llm/quern/go/kernel"

// A Classifier scores a text, in rerankers and classifiers.
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

// classifier reads the sizes of a classifier. Those of encoders read the first token, ModernBERT's the mean; those of
// decoders the last token, and score yes and no.
func (k *Keys) classifier() {
	width := func(name string) int {
		t, ok := k.File.Tensor(name)
		switch {
		case !ok:
			return 0
		case len(t.Dims) == 2:
			return int(min(t.Dims[1], MaxVocab))
		}
		return 1
	}
	c := &k.Config.Classifier
	c.NHidden, c.NScore = width(firstOfClassifier), width(secondOfClassifier)
	if c.NScore == 0 { // jina-reranker's has one product
		c.NScore = c.NHidden
	}
	switch {
	case c.NScore == 0, c.Pooling != PoolNone:
	case k.Config.BothWays:
		c.Pooling = PoolCLS
	default:
		c.Pooling, c.Softmax = PoolLast, true
	}
}

// scores adds the output of the classifier, if there is one.
func (b *Builder) scores() {
	c := b.Config.Classifier
	if c.NScore == 0 {
		return
	}
	in := b.Floats("given", kernel.OutRows, b.Config.NEmbd)
	out, width := in, b.Config.NEmbd
	product := func(name, use string, n int, op kernel.Matmul) {
		m := b.Matrix(name+".weight", width, n)
		act := b.Act("to "+use, kernel.OutRows, width, m)
		b.Add(kernel.ToAct{Act: act, Src: out, Rows: kernel.OutRows, Cols: width})
		out, width = b.Floats(use, kernel.OutRows, n), n
		op.Dst, op.Act, op.Rows = out, act, kernel.OutRows
		op.Parts = []kernel.Part{{Matrix: m, Bias: b.optional(name+".bias", n)}}
		b.Add(op)
	}
	if c.NHidden > 0 {
		fn := kernel.Matmul{Softcap: 1} // a tanh
		if c.Pooling == PoolMean {
			fn = kernel.Matmul{Epilogue: kernel.Apply, Fn: kernel.GELUErf}
		}
		product("cls", "hidden scores", c.NHidden, fn)
		if b.Has("cls.norm.weight") {
			b.Add(kernel.NormRows{
				Dst: out, Src: out, Rows: kernel.OutRows, Cols: width, Segs: 1, Scale: 1,
				Kind: b.Config.Norm, Eps: b.Config.Eps, Weight: b.Vector("cls.norm.weight", width),
			})
		}
	}
	if b.Has(secondOfClassifier) {
		product("cls.output", "scores", c.NScore, kernel.Matmul{})
	}
	b.Program.Outputs = append(b.Program.Outputs,
		Output{Name: Scores, Ops: b.Take(), Given: true, In: in, Buf: out, Width: c.NScore})
}
