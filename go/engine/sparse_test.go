package engine

import (
	"math"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/model/nn"
)

// A number of a sparse vector is the greatest, or the sum, of the logarithms of 1 and a token's positive scores.
func TestSparse(t *testing.T) {
	t.Parallel()
	rows := [][]float32{{1, -1, 0, 0.5}, {3, -2, 0, 0.25}}
	log := func(x float64) float64 { return math.Log1p(x) }
	for _, c := range []struct {
		pooling nn.Pooling
		logs    int
		want    []Term
	}{
		{nn.PoolTerms, 1, []Term{{0, float32(log(3))}, {3, float32(log(0.5))}}},
		{nn.PoolTerms, 2, []Term{{0, float32(log(log(3)))}, {3, float32(log(log(0.5)))}}},
		{nn.PoolTermSum, 1, []Term{{0, float32(log(1) + log(3))}, {3, float32(log(0.5) + log(0.25))}}},
		{nn.PoolTermSum, 2, []Term{{0, float32(log(log(1)) + log(log(3)))}, {3, float32(log(log(0.5)) + log(log(0.25)))}}},
	} {
		m := NewEmbedding(len(rows), c.pooling)
		m.logs = c.logs
		if output, from, to := m.Reads(); output != nn.TokenScores || from != 0 || to != len(rows) {
			t.Errorf("reads %s from %d to %d", output, from, to)
		}
		for i, row := range rows {
			m.Read(i, row)
		}
		m.End(nil)
		got := Terms(m.Vectors()[0])
		if m.Err() != nil || !slices.EqualFunc(got, c.want, func(a, b Term) bool {
			return a.Index == b.Index && math.Abs(float64(a.Value-b.Value)) < 1e-6
		}) {
			t.Errorf("pooling %d, %d logarithms: %v, %v; want %v", c.pooling, c.logs, got, m.Err(), c.want)
		}
	}
	m := NewEmbedding(1, nn.PoolTerms)
	m.logs = 1
	m.Read(0, []float32{float32(math.NaN()), 1})
	if m.End(nil); m.Err() == nil {
		t.Error("NaN is not reported")
	}
}
