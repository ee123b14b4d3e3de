package model

import (
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
)

// A beside is the attention of a later step of a head that is trained, to the text and, in each row, to the keys of its own guesses
// so far. The first is attention as ever, with the sum of its weights in logarithm. The second is added: some products in each
// row. Sums are 64-bit floats, of products that are exact or rounded by themselves, so that all CPUs have the same bits.
//
// With the share w of the text's weights, the result is w times that of the text and the rest of the others. The gradients of
// the text's are those of attention whose result is the whole one, given gradients times w: so the reverse of attention is used as it is.
type beside struct {
	h                  kernel.Heads
	dims               int          // of a value
	own, dOwn          []kernel.Buf // queries, keys and values of steps 1 to this one, and gradients of them
	text, stats, dText kernel.Buf
	all, dAll          kernel.Buf
	shares             kernel.Buf // of the text, and of each of own, by head
}

// eachToken calls do for each token of the batch, in parallel.
func (t *Trainer) eachToken(do func(i int)) error {
	n, threads := len(t.batch.Tokens()), max(t.pool.Threads(), 1)
	each := (n + threads - 1) / threads
	return panics.Each((n+each-1)/each, func(part int) error {
		for i := part * each; i < min((part+1)*each, n); i++ {
			do(i)
		}
		return nil
	})
}

// group is how many heads share a key.
func (b *beside) group() int { return b.h.NHead / b.h.NHeadKV }

func (b *beside) add(t *Trainer) error { return t.eachToken(func(i int) { b.addRow(t, i) }) }

func (b *beside) addRow(t *Trainer, i int) {
	n := len(b.own)
	query := t.bufs.Row(b.own[n-1], i)[b.h.Col[0]:]
	stats, shares := t.bufs.Row(b.stats, i), t.bufs.Row(b.shares, i)
	text, all := t.bufs.Row(b.text, i), t.bufs.Row(b.all, i)
	share := make([]float64, n+1)
	for head := range b.h.NHead {
		q, kv := query[head*b.h.HeadDim:][:b.h.HeadDim], head/b.group()
		share[0] = float64(stats[head])
		top := share[0]
		for j, own := range b.own {
			key := t.bufs.Row(own, i)[b.h.Col[1]+kv*b.h.HeadDim:][:b.h.HeadDim]
			share[j+1] = dot(q, key)
			top = math.Max(top, share[j+1])
		}
		sum := 0.0
		for j := range share {
			share[j] = exactmath.QuickExp(share[j] - top)
			sum += share[j]
		}
		for j := range share {
			share[j] /= sum
			shares[head*(n+1)+j] = float32(share[j])
		}
		for c := range b.dims {
			v := float64(share[0] * float64(text[head*b.dims+c]))
			for j, own := range b.own {
				v += float64(share[j+1] * float64(t.bufs.Row(own, i)[b.h.Col[2]+kv*b.dims+c]))
			}
			all[head*b.dims+c] = float32(v)
		}
	}
}

func (b *beside) reverse(t *Trainer) error { return t.eachToken(func(i int) { b.reverseRow(t, i) }) }

// reverseRow stores gradients of queries and of the text's result, and adds those of own keys and values.
func (b *beside) reverseRow(t *Trainer, i int) {
	n := len(b.own)
	query, dQuery := t.bufs.Row(b.own[n-1], i)[b.h.Col[0]:], t.bufs.Row(b.dOwn[n-1], i)[b.h.Col[0]:]
	shares, all := t.bufs.Row(b.shares, i), t.bufs.Row(b.all, i)
	dAll, dText := t.bufs.Row(b.dAll, i), t.bufs.Row(b.dText, i)
	clear(dQuery[:b.h.NHead*b.h.HeadDim])
	for head := range b.h.NHead {
		q, dq := query[head*b.h.HeadDim:][:b.h.HeadDim], dQuery[head*b.h.HeadDim:][:b.h.HeadDim]
		y, dy, kv := all[head*b.dims:][:b.dims], dAll[head*b.dims:][:b.dims], head/b.group()
		share := shares[head*(n+1):][:n+1]
		for c := range dy {
			dText[head*b.dims+c] = share[0] * dy[c]
		}
		common := dot(y, dy)
		for j, own := range b.own {
			x, dx := t.bufs.Row(own, i), t.bufs.Row(b.dOwn[j], i)
			key, dKey := x[b.h.Col[1]+kv*b.h.HeadDim:][:b.h.HeadDim], dx[b.h.Col[1]+kv*b.h.HeadDim:][:b.h.HeadDim]
			value, dValue := x[b.h.Col[2]+kv*b.dims:][:b.dims], dx[b.h.Col[2]+kv*b.dims:][:b.dims]
			score := float32(float64(share[j+1]) * (dot(value, dy) - common))
			for c := range q {
				dq[c] += float32(score * key[c])
				dKey[c] += float32(score * q[c])
			}
			for c := range dy {
				dValue[c] += float32(share[j+1] * dy[c])
			}
		}
	}
}

// dot is the sum of products, which are exact as 64-bit floats.
func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
