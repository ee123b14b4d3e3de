package engine

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model/nn"
)

// The vector of a text is, by definition, what its pooling makes of those of its tokens: of the tokens that it reads.
func TestPooling(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const width = 3
	for n := 1; n <= 5; n++ {
		rows := make([][]float32, n)
		for i := range rows {
			for range width {
				rows[i] = append(rows[i], float32(rng.NormFloat64()))
			}
		}
		by := func(weight func(i int) float64) [][]float32 {
			v := make([]float32, width)
			for k := range v {
				sum := 0.0
				for i := range rows {
					sum += weight(i) * float64(rows[i][k])
				}
				v[k] = float32(sum)
			}
			return [][]float32{v}
		}
		most := slices.Clone(rows[0])
		for _, row := range rows {
			for k, x := range row {
				most[k] = max(most[k], x)
			}
		}
		for pooling, c := range map[nn.Pooling]struct {
			from, to int
			want     [][]float32
		}{
			nn.PoolMean:     {0, n, by(func(int) float64 { return 1 / float64(n) })},
			nn.PoolMeanSqrt: {0, n, by(func(int) float64 { return 1 / math.Sqrt(float64(n)) })},
			nn.PoolWeighted: {0, n, by(func(i int) float64 { return float64(i+1) / float64(n*(n+1)/2) })},
			nn.PoolMax:      {0, n, [][]float32{most}},
			nn.PoolCLS:      {0, 1, rows[:1]},
			nn.PoolLast:     {n - 1, n, rows[n-1:]},
			nn.PoolNone:     {0, n, rows},
		} {
			m := NewEmbedding(n, pooling)
			output, from, to := m.Reads()
			if output != nn.Vectors || from != c.from || to != c.to {
				t.Errorf("pooling %d of %d tokens reads %s of %d to %d", pooling, n, output, from, to)
			}
			for i := from; i < to; i++ {
				row := slices.Clone(rows[i])
				m.Read(i, row)
				clear(row) // a row is valid during the call
			}
			m.End(nil)
			got := m.Vectors()
			same := m.Err() == nil && len(got) == len(c.want)
			for i := range c.want {
				for k := range c.want[i] {
					same = same && math.Abs(float64(got[i][k]-c.want[i][k])) < 1e-6
				}
			}
			if !same {
				t.Errorf("pooling %d of %d tokens: %v, want %v", pooling, n, got, c.want)
			}
		}
	}
}

// What comes after the pooling: another output of the model, a length of 1, probabilities; numbers that are not finite
// are an error.
func TestAfterThePooling(t *testing.T) {
	twice := func(output string, given []float32) []float32 {
		if output != nn.Scores {
			t.Errorf("output %s is computed", output)
		}
		v := slices.Clone(given)
		for i := range v {
			v[i] *= 2
		}
		return v
	}
	m := &Embedding{pooling: nn.PoolCLS, n: 2, after: nn.Scores, softmax: true}
	m.Read(0, []float32{0, 0.5})
	m.End(twice)
	if v := m.Vectors(); len(v) != 1 || math.Abs(float64(v[0][1])-math.E/(1+math.E)) > 1e-6 || !m.Probabilities() {
		t.Errorf("probabilities of 0 and 1: %v", v)
	}
	m = &Embedding{pooling: nn.PoolNone, n: 2, unit: true}
	m.Read(0, []float32{3, 4})
	m.Read(1, []float32{0, 2})
	m.End(nil)
	for i, want := range [][]float32{{0.6, 0.8}, {0, 1}} {
		if v := m.Vectors()[i]; !slices.Equal(v, want) {
			t.Errorf("token %d of length 1: %v, want %v", i, v, want)
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		m := NewEmbedding(1, nn.PoolLast)
		m.Read(0, []float32{1, float32(x)})
		if m.End(nil); m.Err() != ErrOverflow {
			t.Errorf("%v: %v", x, m.Err())
		}
	}
	m = &Embedding{pooling: nn.PoolTokens, n: 7}
	if output, from, to := m.Reads(); output != nn.TokenScores || from != 0 || to != 7 {
		t.Errorf("scores of tokens read %s of %d to %d", output, from, to)
	}
}

// Scores of classes become probabilities: together 1, or each its own where there is one class or a text may be of
// several; what are probabilities already stay as they are.
func TestClasses(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for _, c := range []struct {
		scores []float32
		of     nn.Classifier
		want   []float64
	}{
		{[]float32{1, 1}, nn.Classifier{}, []float64{0.5, 0.5}},
		{[]float32{0, 0, 0, 0}, nn.Classifier{}, []float64{0.25, 0.25, 0.25, 0.25}},
		{[]float32{2}, nn.Classifier{}, []float64{sigmoid(2)}},
		{[]float32{2, -1}, nn.Classifier{Several: true}, []float64{sigmoid(2), sigmoid(-1)}},
		{[]float32{2, -1}, nn.Classifier{Softmax: true}, []float64{2, -1}},
		{[]float32{2}, nn.Classifier{Softmax: true, Several: true}, []float64{2}},
		{nil, nn.Classifier{}, nil},
	} {
		got := slices.Clone(c.scores)
		Classes(got, c.of)
		for i, want := range c.want {
			if math.Abs(float64(got[i])-want) > 1e-6 {
				t.Errorf("%v of %+v: %v, want %v", c.scores, c.of, got, c.want)
			}
		}
	}
}

// What comes after the pooling follows from the model and from what is asked: an output of pooled vectors where the model
// has one, of tokens' vectors only where these are what its file pools, with a length of 1. Scores are only of classifiers.
func TestOutputAfterThePooling(t *testing.T) {
	all := []nn.Pooling{nn.PoolNone, nn.PoolMean, nn.PoolCLS, nn.PoolLast, nn.PoolMax, nn.PoolWeighted, nn.PoolMeanSqrt}
	for name, pools := range map[string]bool{"gemma-embedding": true, "bert": false} {
		e := open(t, testdata.Path(t, "archs/"+name+".gguf"), Config{Vectors: true, Ctx: 128})
		if e.model.Has(nn.Pooled) != pools {
			t.Fatalf("%s: pooled vectors are an output: %v", name, !pools)
		}
		for _, of := range []nn.Pooling{nn.PoolNone, nn.PoolMean} { // the file's
			e.model.Config.Pooling = of
			for _, pooling := range all {
				m, err := e.Embedding(5, pooling)
				none := pooling == nn.PoolNone && of == nn.PoolNone
				after := map[bool]string{true: nn.Pooled}[pools && (pooling != nn.PoolNone || none)]
				if err != nil || m.after != after || m.unit != (pools && none) || m.pooling != pooling || m.softmax || m.n != 5 {
					t.Errorf("%s that pools by %v, asked for %v: %+v, %v, want output %q", name, of, pooling, m, err, after)
				}
			}
			for _, pooling := range []nn.Pooling{nn.PoolRank, nn.PoolTokens} {
				if _, err := e.Embedding(5, pooling); !errors.Is(err, ErrNoScores) {
					t.Errorf("%s has no classifier: %v", name, err)
				}
			}
		}
		for of, want := range map[nn.Pooling]nn.Pooling{nn.PoolUnset: nn.PoolMean, nn.PoolMax: nn.PoolMax, nn.PoolNone: nn.PoolNone} {
			if e.model.Config.Pooling = of; e.Pooling() != want {
				t.Errorf("%s: a file with %v is pooled by %v", name, of, e.Pooling())
			}
		}
		e.model.Config.Pooling, e.model.Config.BothWays = nn.PoolUnset, false
		if e.Pooling() != nn.PoolLast {
			t.Errorf("a model that reads one way is pooled by %v", e.Pooling())
		}
	}
}
