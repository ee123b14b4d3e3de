package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sample"
)

// maxTexts is the maximum number of texts per pass.
const maxTexts = 64

// Pooling returns the model's pooling: the file's, else the mean for bidirectional models, and the last token
// for causal ones.
func (e *Engine) Pooling() nn.Pooling {
	c := e.model.Config
	switch {
	case c.Pooling != nn.PoolUnset:
		return c.Pooling
	case c.BothWays:
		return nn.PoolMean
	}
	return nn.PoolLast
}

// An Embedding is a Reader that pools the vectors of a text's tokens.
type Embedding struct {
	pooling nn.Pooling
	n       int
	after   string // the output that makes the result of what was pooled; empty: none does
	softmax bool   // the result is scores, which become probabilities
	logs    int    // logarithms of scores in sparse vectors
	unit    bool   // the vectors of tokens get length 1, as ColBERT's (Khattab and Zaharia 2020)
	sum     []float64
	weights float64 // of the tokens that it has
	all     [][]float32
	err     error
}

// NewEmbedding returns an Embedding that only pools, for a text of so many tokens.
func NewEmbedding(tokens int, pooling nn.Pooling) *Embedding {
	return &Embedding{pooling: pooling, n: tokens}
}

// Embedding returns the Embedding of a text, including layers after the pooling. It refuses a pooling that
// the model does not support.
func (e *Engine) Embedding(tokens int, pooling nn.Pooling) (*Embedding, error) {
	m := NewEmbedding(tokens, pooling)
	switch {
	case pooling.Sparse() && pooling != e.model.Config.Pooling:
		return nil, ErrNotSparse
	case pooling.Sparse():
		m.logs = e.model.Config.Classifier.TermLogs
	case pooling == nn.PoolTokens && e.model.Config.Pooling.Sparse():
		return nil, fmt.Errorf("%w: its scores are of the vocabulary, for sparse vectors of texts", ErrNoScores)
	case pooling == nn.PoolRank && e.model.Has(nn.TokenScores):
		return nil, fmt.Errorf("%w: its classifier is of each token, not of texts", ErrNoScores)
	case pooling == nn.PoolRank && !e.model.Has(nn.Scores):
		return nil, fmt.Errorf("%w: its file has no classifier; supported are vectors by mean, cls, last or none", ErrNoScores)
	case pooling == nn.PoolRank:
		m.after, m.pooling, m.softmax = nn.Scores, e.model.Config.Classifier.Pooling, e.model.Config.Classifier.Softmax
	case pooling == nn.PoolTokens && !e.model.Has(nn.TokenScores):
		return nil, fmt.Errorf("%w: its file has no classifier of tokens", ErrNoScores)
	case pooling == nn.PoolTokens:
	case pooling == nn.PoolNone && e.model.Config.Pooling == nn.PoolNone && e.model.Has(nn.Pooled):
		m.after, m.unit = nn.Pooled, true
	case pooling != nn.PoolNone && e.model.Has(nn.Pooled):
		m.after = nn.Pooled
	}
	return m, nil
}

// ErrNoScores reports a model that cannot score texts.
var ErrNoScores = errors.New("the model does not rank")

// Reads implements Reader.
func (m *Embedding) Reads() (output string, from, to int) {
	switch m.pooling {
	case nn.PoolCLS:
		return nn.Vectors, 0, 1
	case nn.PoolLast:
		return nn.Vectors, m.n - 1, m.n
	case nn.PoolTokens, nn.PoolTerms, nn.PoolTermSum:
		return nn.TokenScores, 0, m.n
	}
	return nn.Vectors, 0, m.n
}

// Read implements Reader.
func (m *Embedding) Read(token int, row []float32) {
	weight := 1.0
	switch {
	case m.pooling == nn.PoolTermSum:
		row = terms(slices.Clone(row), m.logs)
	case (m.pooling == nn.PoolMax || m.pooling == nn.PoolTerms) && m.all != nil:
		for i, x := range row {
			m.all[0][i] = max(m.all[0][i], x)
		}
		return
	case m.pooling == nn.PoolWeighted:
		weight = float64(token + 1)
	case m.pooling != nn.PoolMean && m.pooling != nn.PoolMeanSqrt:
		m.all = append(m.all, slices.Clone(row))
		return
	}
	if m.sum == nil {
		m.sum = make([]float64, len(row))
	}
	m.weights += weight
	for i, x := range row {
		m.sum[i] += float64(weight * float64(x))
	}
}

// End implements Reader.
func (m *Embedding) End(apply func(output string, given []float32) []float32) {
	if m.sum != nil {
		by := m.weights
		switch m.pooling {
		case nn.PoolMeanSqrt:
			by = math.Sqrt(by)
		case nn.PoolTermSum:
			by = 1
		}
		mean := make([]float32, len(m.sum))
		for i, x := range m.sum {
			mean[i] = float32(x / by)
		}
		m.all = [][]float32{mean}
	}
	if m.pooling == nn.PoolTerms { // the greatest is the greatest before too
		terms(m.all[0], m.logs)
	}
	if m.after != "" {
		for i, v := range m.all {
			m.all[i] = slices.Clone(apply(m.after, v))
		}
	}
	for _, v := range m.all {
		if slices.ContainsFunc(v, func(x float32) bool { return x-x != 0 }) { // NaN, or infinite
			m.err = ErrOverflow
			return
		}
	}
	for _, v := range m.all {
		if m.unit {
			Normalize(v, Euclidean)
		}
	}
	if m.softmax {
		softmax(m.all[0])
	}
}

// ErrOverflow reports a text of which the model computed numbers that are not finite.
var ErrOverflow = errors.New("the model's numbers overflow for this text: its file may be damaged, or was made with too narrow types; convert it again")

// Err returns ErrOverflow if the vectors are not finite. It is available once the request is done.
func (m *Embedding) Err() error { return m.err }

// Vectors returns the embedding of the text; with PoolNone one vector per token; with PoolRank the scores, and with
// PoolTokens those of each token.
// They are available once the request is done.
func (m *Embedding) Vectors() [][]float32 { return m.all }

// Probabilities reports whether the scores of PoolRank are probabilities.
func (m *Embedding) Probabilities() bool { return m.softmax }

// A Text is the tokens of a text to read, or of a pair of texts.
type Text struct {
	IDs      []int32
	Second   int             // where the second of a pair begins; 0: it is one text
	Media    []Medium        // in it, for a Loop; others refuse them
	Adapters []ScaledAdapter // that it is read with, by an Engine; a Loop's are those of the request
}

// Embed calls visit with the vectors of each text in turn. A vector does not depend on the other texts. The
// engine must have been opened for Vectors.
func (e *Engine) Embed(ctx context.Context, texts []Text, pooling nn.Pooling, visit func(text int, vectors [][]float32) error) error {
	if _, err := e.Embedding(1, pooling); err != nil {
		return err
	}
	for i, t := range texts {
		switch {
		case len(t.IDs) == 0:
			return fmt.Errorf("text %d has no tokens", i)
		case len(t.Media) > 0:
			return fmt.Errorf("text %d has pictures or sounds, which are read by a Loop", i)
		case len(t.IDs) > e.ctx:
			return fmt.Errorf("text %d: %w: %d tokens in a context of %d", i, ErrTooLong, len(t.IDs), e.ctx)
		}
	}
	leave := e.device.enter()
	defer leave()
	for at := 0; at < len(texts); {
		n := e.together(texts[at:])
		var all []*Embedding
		err := e.device.inTurn(func() (err error) {
			all, err = e.embed(ctx, texts[at:at+n], pooling)
			return err
		})
		if err != nil {
			return err
		}
		for i, m := range all {
			if m.err != nil {
				return fmt.Errorf("text %d: %w", at+i, m.err)
			}
			if err := visit(at+i, m.Vectors()); err != nil {
				return err
			}
		}
		at += n
	}
	return nil
}

// together returns how many of the texts share the next pass: as many as there is memory for; one, if the
// model has recurrent state.
func (e *Engine) together(texts []Text) int {
	n, tokens, blocks := 1, len(texts[0].IDs), blocksOf(len(texts[0].IDs))
	for ; e.model.Config.BothWays && n < min(len(texts), e.seqs); n++ {
		tokens += len(texts[n].IDs)
		blocks += blocksOf(len(texts[n].IDs))
		if tokens > e.batch || blocks > blocksOf(e.ctx) {
			break
		}
	}
	return n
}

func blocksOf(tokens int) int { return (tokens + kvcache.BlockTokens - 1) / kvcache.BlockTokens }

// embed evaluates the texts of one pass, or a single text in slices.
func (e *Engine) embed(ctx context.Context, texts []Text, pooling nn.Pooling) ([]*Embedding, error) {
	all, items, readers := make([]*Embedding, len(texts)), make([]Item, len(texts)), make([]*reading, len(texts))
	longest := 0
	for i, t := range texts {
		var err error
		if all[i], err = e.Embedding(len(t.IDs), pooling); err != nil {
			return nil, err
		}
		if readers[i], err = newReading(all[i], 0, len(t.IDs)); err != nil {
			return nil, err
		}
		items[i].Seq = e.NewSequence()
		if err := items[i].Seq.SetAdapters(t.Adapters); err != nil {
			return nil, err
		}
		items[i].Seq.second = t.Second
		defer items[i].Seq.Close()
		longest = max(longest, len(t.IDs))
	}
	c, forget := cancelOf(ctx)
	defer forget()
	for from, n := 0, 0; from < longest; from += n {
		n = e.kv.Layout().Room(from, e.batch)
		for i, t := range texts {
			items[i].IDs = t.IDs[min(from, len(t.IDs)):min(from+n, len(t.IDs))]
		}
		if err := e.pass(c, items); err != nil {
			return nil, err
		}
		e.read(items, readers, func(_ int, f func()) { f() })
	}
	return all, nil
}

// Classes converts the scores of a classifier, of a text or of a token, to probabilities, unless they are: together 1, or
// independent where there is one class or a text may be of several.
func Classes(scores []float32, c nn.Classifier) {
	switch {
	case c.Softmax:
	case len(scores) > 1 && !c.Several:
		softmax(scores)
	default:
		for i, x := range scores {
			pair := []float32{x, 0} // the sigmoid is the softmax of a score and 0
			softmax(pair)
			scores[i] = pair[0]
		}
	}
}

// softmax converts a few scores to probabilities, bit-identical on all CPUs.
func softmax(scores []float32) {
	logs := make([]float64, len(scores))
	row := sample.RowOf(scores)
	for i := range scores {
		logs[i] = exactmath.Pow(math.E, float64(row.Logprob(int32(i))))
	}
	for i, p := range logs {
		scores[i] = float32(p)
	}
}

// Euclidean selects the L2 norm in Normalize.
const Euclidean = 2

// Normalize scales a vector to length 1 by the p-norm. p 0 scales its largest magnitude to 32760; a negative
// p does nothing. A zero vector is unchanged.
func Normalize(v []float32, p int) {
	if p < 0 {
		return
	}
	length := 0.0
	for _, x := range v {
		switch a := math.Abs(float64(x)); p {
		case 0:
			length = max(length, a/32760)
		case 1:
			length += a
		case Euclidean:
			length += float64(a * a)
		default:
			length += math.Pow(a, float64(p))
		}
	}
	switch p {
	case 0, 1:
	case Euclidean:
		length = math.Sqrt(length)
	default:
		length = math.Pow(length, 1/float64(p))
	}
	if length == 0 || math.IsInf(length, 0) {
		return
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / length)
	}
}
