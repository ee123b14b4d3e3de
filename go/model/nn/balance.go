package nn

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// A balance is the factors of the channels of a layer's heads; nil: ones.
//
// Integers have one scale for the channels of a head, so a channel much larger than the others takes their precision.
// Key channels are therefore multiplied by powers of two, and those of queries by the inverse; values and results
// likewise. Powers of two are exact: with keys and values of floats, scores and results are the same to the bit.
type balance struct{ q, k, v, out []float32 }

// balance chooses the factors by the sizes of channels, estimated from the weights: for keys such that the relative
// size of a channel is the same in keys and queries, which minimizes the effect of rounding both; for values such that
// all are equal.
func (l Layer) balance(a Attention, p projection) balance {
	var b balance
	if l.keeps(func(kv kernel.KVTypes) bool { return kv.K.Integer() }) {
		q, k := l.sizes(a, p, 0, l.NHead, l.HeadDim), l.sizes(a, p, 1, l.NHeadKV, l.HeadDim)
		b.k, b.q = l.factors("keys", l.NHeadKV, l.HeadDim, 4, func(h, c int) float64 {
			group, sum := l.NHead/l.NHeadKV, 0.0
			for i := range group {
				sum += q[(h*group+i)*l.HeadDim+c]
			}
			return k[h*l.HeadDim+c] / sum
		})
	}
	if l.keeps(func(kv kernel.KVTypes) bool { return kv.V.Integer() }) {
		v := l.sizes(a, p, 2, l.NHeadKV, l.ValueDim)
		b.v, b.out = l.factors("values", l.NHeadKV, l.ValueDim, 2, func(h, c int) float64 { return v[h*l.ValueDim+c] })
	}
	return b
}

// sizes returns the mean squares of the channels of queries, keys or values (part 0, 1 or 2) before attention, up to a
// factor per head, for an input of independent numbers after the norm; nil without memory.
func (l Layer) sizes(a Attention, p projection, part, heads, dim int) []float64 {
	from := p.from[part]
	squares := must(l.weights.Squares(p.names[from.part], l.prefix+"attn_norm.weight"))
	if squares == nil {
		return nil
	}
	s := slices.Clone(squares[from.row : from.row+heads*dim])
	if bias := p.parts[from.part].Bias; bias != nil {
		for c := range s {
			s[c] += square(bias[from.row+c])
		}
	}
	if part == 2 {
		return s
	}
	if a.QKNorm != NormAfterRope {
		l.normSizes(a.QKNorm, s, part, heads)
		l.rotateSizes(s)
	} else {
		l.rotateSizes(s)
		l.normSizes(a.QKNorm, s, part, heads)
	}
	return s
}

// normSizes applies the weights of the norm of queries (part 0) or keys (part 1).
func (l Layer) normSizes(kind QKNorm, s []float64, part, heads int) {
	w, n := l.headNorm(kind, [2]string{"attn_q_norm", "attn_k_norm"}[part], heads)
	for c := range s {
		if w != nil {
			s[c] = float64(s[c] * square(w[c%n]))
		}
	}
}

// rotateSizes sets channels that rotate together to their mean.
func (l Layer) rotateSizes(s []float64) {
	half := l.Rope.NRot / 2
	for at := 0; at < len(s); at += l.HeadDim {
		for i := range half {
			x, y := &s[at+i], &s[at+half+i]
			if l.Rope.Style == kernel.RopeNorm {
				x, y = &s[at+2*i], &s[at+2*i+1]
			}
			*x = (*x + *y) / 2
			*y = *x
		}
	}
}

func square(x float32) float64 { return float64(float64(x) * float64(x)) }

// factors returns the factors of heads whose channels have these sizes to the power of root, and their inverses; nil if
// no head has channels that differ enough, or without memory.
func (l Layer) factors(name string, heads, dim, root int, size func(h, c int) float64) (by, undo []float32) {
	by, undo = l.made(name, heads*dim), l.made(name+" undone", heads*dim)
	if by == nil {
		return nil, nil
	}
	sizes, uneven := make([]float64, dim), false
	for h := range heads {
		for c := range sizes {
			sizes[c] = size(h, c)
		}
		for c, e := range exponents(sizes, root) {
			uneven = uneven || e != 0
			by[h*dim+c], undo[h*dim+c] = float32(math.Ldexp(1, -e)), float32(math.Ldexp(1, e))
		}
	}
	if !uneven {
		clear(by)
		clear(undo)
		return nil, nil
	}
	return by, undo
}

const (
	leastExponent = 2  // a head in which no factor would be 2^2 or more, or 2^-2 or less, is left as it is
	mostExponent  = 12 // far from where floats overflow or lose bits
)

// exponents returns the base-2 logarithms of the root-th roots of sizes relative to their median, rounded to integers;
// all 0 if none is leastExponent or more. Channels of size 0 have 0.
func exponents(sizes []float64, root int) []int {
	es, uneven := make([]int, len(sizes)), false
	nothing := func(x float64) bool { return !(x > 0) || math.IsInf(x, 1) }
	sorted := slices.DeleteFunc(slices.Sorted(slices.Values(sizes)), nothing)
	for c, x := range sizes {
		if nothing(x) {
			continue
		}
		log := math.Ilogb(x / sorted[len(sorted)/2]) // rounded down, which changes neither line below
		uneven = uneven || log >= leastExponent*root || log < -leastExponent*root
		e := int(math.Floor(float64(log+root/2) / float64(root)))
		es[c] = min(max(e, -mostExponent), mostExponent)
	}
	if !uneven {
		clear(es)
	}
	return es
}

// keeps reports whether keys and values of any age are stored in types for which such is true.
func (l Layer) keeps(such func(kv kernel.KVTypes) bool) bool {
	return such(l.kv) || slices.ContainsFunc(l.tiers, func(t Tier) bool { return such(t.KV) })
}
