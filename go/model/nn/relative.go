package nn

import (
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// Disentangled attention (He et al. 2021, "DeBERTa"): a score has, beside the product of query and key, the query's
// with a key of their distance, and the key's with a query of their distance. Distances are few, so a token's products
// with all of them are two products per head, of which attention takes those that a pair has.

// Distances is what distances there are in disentangled attention. The zero value: there is none.
type Distances struct {
	Positions int // from here on all distances are the same
	Buckets   int // of each direction; 0: one for each distance
}

// maxDistances bounds the distances of each direction: real ones are 256 and 512.
const maxDistances = 1 << 14

// Distances reads the distances of disentangled attention, if the file has them.
func (k *Keys) Distances() {
	const positions, buckets = "attention.relative_positions", "attention.relative_buckets_count"
	if !k.Has(positions) {
		return
	}
	d := &k.Config.Distances
	d.Positions = k.Int(positions, 1, maxDistances)
	if d.Buckets = k.IntOr(buckets, 0, 0, maxDistances); d.Buckets > 0 {
		if d.Buckets < 4 || d.Buckets%2 != 0 || d.Positions-1 <= d.Buckets/2 {
			k.Fail(buckets, "%d buckets of %d distances, want an even number, from 4 to less than twice as many", d.Buckets,
				d.Positions)
		}
	}
	for _, l := range k.Config.Layers {
		if l.HeadDim%kernel.Panel != 0 || l.NHeadKV != l.NHead {
			k.Fail("attention.head_count", "heads of %d channels that share %d keys, want a multiple of %d, and a key for each of "+
				"the %d heads", l.HeadDim, l.NHeadKV, kernel.Panel, l.NHead)
		}
	}
}

// each is how many distances there are in each direction.
func (d Distances) each() int {
	if d.Buckets > 0 {
		return d.Buckets
	}
	return d.Positions
}

// table returns the number of each distance from -Positions to Positions, from 0 to below 2 each().
func (d Distances) table() []int32 {
	n := d.each()
	at := make([]int32, 2*d.Positions+1)
	for i := range at {
		at[i] = int32(min(max(n+d.bucket(i-d.Positions), 0), 2*n-1))
	}
	return at
}

// bucket returns the number of a distance. Up to half of the buckets each distance has its own, and from there on they
// grow with the distance's logarithm, computed in floats as the originals do.
func (d Distances) bucket(distance int) int {
	mid, far := d.Buckets/2, max(distance, -distance)
	if far <= mid || d.Buckets == 0 {
		return distance
	}
	log := func(x float32) float32 { return float32(exactmath.Log(float64(x))) }
	share := float32(log(float32(far)/float32(mid)) / log(float32(float64(d.Positions-1)/float64(mid))))
	grown := mid + int(math.Ceil(float64(float32(share*float32(mid-1)))))
	if distance < 0 {
		return -grown
	}
	return grown
}

// relative adds the products of queries and keys with those of their distances, and returns what attention takes of
// them. Models have both, or one of them: attn_rel_k are keys of distances, attn_rel_q are queries of them.
func (l Layer) relative(q projection) kernel.Relative {
	c := l.Config
	if c.Distances == (Distances{}) {
		return kernel.Relative{}
	}
	if l.distances == nil {
		l.distances = c.Distances.table()
	}
	r := kernel.Relative{
		ByQuery: kernel.NoBuf, ByKey: kernel.NoBuf, At: l.distances, N: 2 * c.Distances.each(),
		Step: kernel.Pad(2 * c.Distances.each()),
	}
	product := func(name string, col int) kernel.Buf {
		if !l.Has(name) {
			return kernel.NoBuf
		}
		m := l.matrices(name, l.HeadDim, r.N, l.NHead)
		act, dst := l.headAct(l.HeadDim, m), l.Floats(name, kernel.TokRows, l.NHead*r.Step)
		l.Add(kernel.ToAct{
			Act: act, Src: q.buf, Rows: kernel.HeadRows, Cols: l.HeadDim, SrcCol: col,
			Heads: kernel.Spread{N: l.NHead, Step: l.HeadDim},
		})
		l.Add(kernel.Matmul{
			Dst: dst, Act: act, Rows: kernel.HeadRows, Parts: []kernel.Part{{Matrix: m}}, Scale: l.AttnScale,
			Heads: kernel.Spread{N: l.NHead, Step: r.Step},
		})
		return dst
	}
	r.ByQuery = product("attn_rel_k.weight", q.col[0])
	r.ByKey = product("attn_rel_q.weight", q.col[1])
	return r
}
