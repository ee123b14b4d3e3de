package nn

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

// A Classifier scores a text, or each of its tokens, in rerankers and classifiers.
type Classifier struct {
	Pooling    Pooling  // what it is given of the text
	Tokens     bool     // it is given each token, and a text has scores for each
	NHidden    int      // width of its first product; 0: no hidden layer
	Activation string   // after that product, as transformers names it; empty: tanh
	NScore     int      // scores of a text; 0: there is no classifier
	Softmax    bool     // they become probabilities
	Several    bool     // a text may be of several classes: their probabilities are independent
	Labels     []string // what the scores are called; nil: nobody says

	TermLogs int // logarithms of the scores of the vocabulary's tokens in sparse vectors; 0: the scores are of classes
}

// Best returns the name of the class with the greatest score, the first of equal ones; "" if classes have no names.
func (c *Classifier) Best(scores []float32) string {
	best := slices.Index(scores, slices.Max(scores))
	if best < 0 || best >= len(c.Labels) {
		return ""
	}
	return c.Labels[best]
}

const (
	firstOfClassifier  = "cls.weight"
	secondOfClassifier = "cls.output.weight"
	biasOfSecond       = "cls.output.bias"

	classifierLabels     = "classifier.output_labels"
	classifierPooling    = Own + "classifier.pooling"
	classifierActivation = Own + "classifier.activation"
	classifierSeveral    = Own + "classifier.multi_label"
	classifierOfTokens   = "tokens" // in place of a pooling
)

// poolings are what a classifier may be given of a text.
var poolings = map[string]Pooling{"cls": PoolCLS, "mean": PoolMean, "last": PoolLast}

// Plain returns what a file has of a classifier of one product with a bias, of these Labels: its metadata, for an architecture,
// and its tensors, without data. n is the width of the vectors of texts.
func (c *Classifier) Plain(arch string, n int) (keys []gguf.KV, matrix, bias gguf.Tensor) {
	set := func(key string, v any) { keys = append(keys, gguf.KV{Key: key, Value: v}) }
	for name, pooling := range poolings {
		if pooling == c.Pooling {
			set(classifierPooling, name)
		}
	}
	if c.Several {
		set(classifierSeveral, true)
	}
	set(arch+"."+classifierLabels, c.Labels)
	out := uint64(len(c.Labels))
	return keys, gguf.Tensor{Name: secondOfClassifier, Type: gguf.F32, Dims: []uint64{uint64(n), out}},
		gguf.Tensor{Name: biasOfSecond, Type: gguf.F32, Dims: []uint64{out}}
}

// classifier reads the sizes of a classifier. Unless files say otherwise, those of encoders read the first token,
// ModernBERT's the mean; those of decoders the last token, and score yes and no.
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
	if k.Config.Pooling.Sparse() {
		k.terms()
	}
	if c.NScore == 0 { // jina-reranker's has one product
		c.NScore = c.NHidden
	}
	if c.NScore == 0 {
		return
	}
	switch {
	case k.Has(classifierPooling):
		k.classifierInput()
	case c.Pooling != PoolNone:
	case k.Config.BothWays:
		c.Pooling = PoolCLS
	default:
		c.Pooling, c.Softmax = PoolLast, true
	}
	if k.Has(classifierActivation) {
		c.Activation = k.oneOf(classifierActivation, slices.Concat([]string{"tanh"},
			slices.Sorted(maps.Keys(activations)))...)
	}
	if k.Has(classifierSeveral) {
		several, err := k.File.Bool(classifierSeveral)
		k.Check(err)
		c.Several = several
	}
	if k.Has(classifierLabels) {
		labels, err := k.File.Strs(k.Name(classifierLabels))
		k.Check(err)
		if len(labels) == c.NScore { // files of rerankers may have those of another classifier
			c.Labels = labels
		}
	}
}

// terms reads what makes sparse vectors: a classifier of tokens, whose classes are those of the vocabulary.
func (k *Keys) terms() {
	c, vocab := &k.Config.Classifier, must(vocab(k.File, k.Config.Embedding))
	if c.NHidden == 0 {
		k.Fail(poolingKey, "it makes sparse vectors, and the file has no %s", firstOfClassifier)
	}
	if _, ok := k.File.Tensor(secondOfClassifier); !ok { // it is the embedding
		c.NScore = vocab
	}
	if c.NScore != vocab {
		k.Check(fmt.Errorf("tensor %q: %d rows, want %d: a score for each token of the vocabulary", secondOfClassifier,
			c.NScore, vocab))
	}
	c.TermLogs = 1
	if k.Has(spladeActivation) && k.oneOf(spladeActivation, "relu", "log1p_relu") == "log1p_relu" {
		c.TermLogs = 2
	}
	if !k.Has(classifierPooling) {
		k.Fail(classifierPooling, "it is missing beside sparse vectors, want %s", classifierOfTokens)
	}
	if k.classifierInput(); !c.Tokens {
		k.Fail(classifierPooling, "it is not %s: sparse vectors are made of each token", classifierOfTokens)
	}
}

// classifierInput reads what the classifier is given.
func (k *Keys) classifierInput() {
	c := &k.Config.Classifier
	name := k.oneOf(classifierPooling, "cls", "mean", "last", classifierOfTokens)
	c.Pooling, c.Tokens = poolings[name], name == classifierOfTokens
}

// oneOf returns a key that is one of some texts.
func (k *Keys) oneOf(key string, all ...string) string {
	name, err := k.File.Str(k.Name(key))
	k.Check(err)
	if !slices.Contains(all, name) {
		k.Fail(key, "%.40q is not supported, supported are %s", name, strings.Join(all, " "))
	}
	return name
}

// scores adds the output of the classifier, if there is one: of what was made of a text's tokens, or of each token, after
// a norm.
func (b *Builder) scores(norm string) {
	c := b.Config.Classifier
	if c.NScore == 0 {
		return
	}
	output := Output{Name: Scores, Given: true, In: b.Floats("given", kernel.OutRows, b.Config.NEmbd), Width: c.NScore}
	out, width := output.In, b.Config.NEmbd
	if c.Tokens {
		output = Output{Name: TokenScores, Width: c.NScore}
		out = b.Floats("out", kernel.OutRows, width)
		b.Add(kernel.Gather{Dst: out, Src: b.X()})
		b.Normed(out, out, kernel.OutRows, norm)
	}
	product := func(name, matrix, use string, n int, op kernel.Matmul) {
		m := b.Matrix(matrix, width, n)
		act := b.Act("to "+use, kernel.OutRows, width, m)
		b.Add(kernel.ToAct{Act: act, Src: out, Rows: kernel.OutRows, Cols: width})
		out, width = b.Floats(use, kernel.OutRows, n), n
		op.Dst, op.Act, op.Rows = out, act, kernel.OutRows
		op.Parts = []kernel.Part{{Matrix: m, Bias: b.optional(name+".bias", n)}}
		b.Add(op)
	}
	if c.NHidden > 0 {
		product("cls", firstOfClassifier, "hidden scores", c.NHidden, applied(c.Activation))
		if b.Has("cls.norm.weight") {
			b.Add(kernel.NormRows{
				Dst: out, Src: out, Rows: kernel.OutRows, Cols: width, Segs: 1, Scale: 1,
				Kind: b.Config.Norm, Eps: b.Config.Eps, Weight: b.Vector("cls.norm.weight", width),
				Bias: b.optional("cls.norm.bias", width),
			})
		}
	}
	switch {
	case b.Has(secondOfClassifier):
		product("cls.output", secondOfClassifier, "scores", c.NScore, kernel.Matmul{})
	case c.TermLogs > 0:
		product("cls.output", b.Config.Embedding, "scores", c.NScore, kernel.Matmul{})
	}
	output.Ops, output.Buf = b.Take(), out
	b.Program.Outputs = append(b.Program.Outputs, output)
}

// applied is a product whose results go through a function, as transformers names it; empty: tanh.
func applied(activation string) kernel.Matmul {
	if fn, ok := activations[activation]; ok {
		return kernel.Matmul{Epilogue: kernel.Apply, Fn: fn}
	}
	return kernel.Matmul{Softcap: 1}
}
