package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/arch"
)

// maxTexts is how many texts share a pass, at most.
const maxTexts = 64

// Pooling returns how the model makes the vector of a text: as its file says, else by the mean of
// all tokens where they see the whole text, and by the last where only that does.
func (e *Engine) Pooling() arch.Pooling {
	c := e.model.Config
	switch {
	case c.Pooling != arch.PoolUnset:
		return c.Pooling
	case c.BothWays:
		return arch.PoolMean
	}
	return arch.PoolLast
}

// Embed calls visit with the vector of each text in turn, or with those of its tokens where pooling
// is PoolNone. A vector does not depend on the other texts. The engine was opened for Vectors.
func (e *Engine) Embed(ctx context.Context, texts [][]int32, pooling arch.Pooling, visit func(text int, vectors [][]float32) error) error {
	if pooling == arch.PoolRank {
		return fmt.Errorf("scores of a classifier are not supported; supported are vectors by mean, cls, last or none")
	}
	for i, ids := range texts {
		switch {
		case len(ids) == 0:
			return fmt.Errorf("text %d has no tokens", i)
		case len(ids) > e.ctx:
			return fmt.Errorf("text %d: %w: %d tokens in a context of %d", i, ErrTooLong, len(ids), e.ctx)
		}
	}
	leave := e.device.enter()
	defer leave()
	for at := 0; at < len(texts); {
		n := e.together(texts[at:])
		var all [][][]float32
		err := e.device.inTurn(func() (err error) {
			all, err = e.embed(ctx, texts[at:at+n], pooling)
			return err
		})
		if err != nil {
			return err
		}
		for i, vectors := range all {
			if err := visit(at+i, vectors); err != nil {
				return err
			}
		}
		at += n
	}
	return nil
}

// together returns how many of the texts share the next pass: as many as there is memory for. A
// model that keeps state of a sequence has memory for one.
func (e *Engine) together(texts [][]int32) int {
	n, tokens, blocks := 1, len(texts[0]), blocksOf(len(texts[0]))
	for ; e.model.Config.BothWays && n < min(len(texts), e.seqs); n++ {
		tokens += len(texts[n])
		blocks += blocksOf(len(texts[n]))
		if tokens > e.batch || blocks > blocksOf(e.ctx) {
			break
		}
	}
	return n
}

func blocksOf(tokens int) int { return (tokens + kvcache.BlockTokens - 1) / kvcache.BlockTokens }

// embed returns the vectors of texts that fit in a pass, or of a single one, in slices.
func (e *Engine) embed(ctx context.Context, texts [][]int32, pooling arch.Pooling) ([][][]float32, error) {
	pools, items := make([]pool, len(texts)), make([]Item, len(texts))
	longest := 0
	for i, ids := range texts {
		pools[i] = pool{pooling: pooling, n: len(ids)}
		items[i].Seq = e.NewSequence()
		defer items[i].Seq.Close()
		longest = max(longest, len(ids))
	}
	for from := 0; from < longest; from += e.batch {
		for i, ids := range texts {
			items[i].IDs = ids[min(from, len(ids)):min(from+e.batch, len(ids))]
		}
		if err := e.pass(ctx.Err, items); err != nil {
			return nil, err
		}
		e.vectors(items, pools)
	}
	all := make([][][]float32, len(texts))
	for i := range pools {
		all[i] = pools[i].vectors()
	}
	if pooling != arch.PoolNone && e.model.Has(arch.Pooled) {
		for i := range all {
			e.runner.Apply(arch.Pooled, all[i])
			all[i][0] = slices.Clone(e.runner.Row(0))
		}
	}
	return all, nil
}

// vectors gives to each pool the vectors that it asks for of its item's tokens of the last pass.
func (e *Engine) vectors(items []Item, pools []pool) {
	rows, owners := e.rows[:0], make([]int, 0, cap(e.rows))
	flush := func() {
		e.runner.Compute(arch.Vectors, rows)
		for k, i := range owners {
			pools[i].add(e.runner.Row(k))
		}
		rows, owners = rows[:0], owners[:0]
	}
	row := int32(0)
	for i, it := range items {
		before := it.Seq.Len() - len(it.IDs)
		for k := range it.IDs {
			if pools[i].wants(before + k) {
				rows, owners = append(rows, row), append(owners, i)
			}
			if row++; len(rows) == cap(e.rows) {
				flush()
			}
		}
	}
	flush()
}

// A pool makes the vectors of a text of n tokens from those of its tokens, which come in their order.
type pool struct {
	pooling arch.Pooling
	n       int
	sum     []float64
	all     [][]float32
}

// wants reports whether the vector of token i counts.
func (p *pool) wants(i int) bool {
	switch p.pooling {
	case arch.PoolCLS:
		return i == 0
	case arch.PoolLast:
		return i == p.n-1
	}
	return true
}

func (p *pool) add(v []float32) {
	if p.pooling != arch.PoolMean {
		p.all = append(p.all, slices.Clone(v))
		return
	}
	if p.sum == nil {
		p.sum = make([]float64, len(v))
	}
	for i, x := range v {
		p.sum[i] += float64(x)
	}
}

func (p *pool) vectors() [][]float32 {
	if p.pooling != arch.PoolMean {
		return p.all
	}
	mean := make([]float32, len(p.sum))
	for i, x := range p.sum {
		mean[i] = float32(x / float64(p.n))
	}
	return [][]float32{mean}
}

// Euclidean is the norm by which vectors are compared.
const Euclidean = 2

// Normalize scales a vector to length 1 by the p-norm; of 0, so that its largest number is 32760, and of
// less not at all. A vector of nothing stays.
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
