package rerank

import (
	"math"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/model/nn"
)

// A query and a document are text in the template that a file has for them.
func TestFill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		template, want string
		literal        [][2]int
	}{
		{"<s>{query}</s><s>{document}", "<s>q {document}</s><s>d </s>", [][2]int{{3, 15}, {22, 28}}},
		{"{document}{document}{other}", "d </s>d </s>{other}", [][2]int{{0, 6}, {6, 12}}},
		{"", "", nil},
	} {
		got, literal := fill(c.template, map[string]string{"{query}": "q {document}", "{document}": "d </s>"})
		if got != c.want || !slices.Equal(literal, c.literal) {
			t.Errorf("%q: %q with %v literal, want %q with %v", c.template, got, literal, c.want, c.literal)
		}
	}
}

// The best documents come first, and equal ones in their order.
func TestOrder(t *testing.T) {
	t.Parallel()
	scores := []float64{0.1, 0.5, -2, 0.5}
	for most, want := range map[int][]Ranked{0: {{1, 0.5}, {3, 0.5}, {0, 0.1}, {2, -2}}, 2: {{1, 0.5}, {3, 0.5}}, 9: {{1, 0.5}, {3, 0.5}, {0, 0.1}, {2, -2}}} {
		if got := Order(scores, most); !slices.Equal(got, want) {
			t.Errorf("at most %d: %v, want %v", most, got, want)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	one := func(all ...[]float32) (docs [][][]float32) {
		for _, v := range all {
			docs = append(docs, [][]float32{v})
		}
		return docs
	}
	for _, c := range []struct {
		pooling nn.Pooling
		query   [][]float32
		docs    [][][]float32
		want    []float64
	}{
		{nn.PoolMean, [][]float32{{3, 4}}, one([]float32{30, 40}, []float32{-3, -4}, []float32{4, -3}, []float32{0, 0}), []float64{1, -1, 0, 0}},
		{nn.PoolTerms, [][]float32{{3, 4}}, one([]float32{30, 40}, []float32{0, 0}, []float32{0, 0.5}), []float64{250, 0, 2}},
		{nn.PoolNone, [][]float32{{2, 0}, {0, 1}}, [][][]float32{{{5, 0}, {0, 1}, {-1, 0}}, {{3, 4}}, {{-1, 0}, {0, -7}}}, []float64{2, 1.4, 0}},
	} {
		for i, got := range Compare(c.pooling, c.query, c.docs) {
			if math.Abs(got-c.want[i]) > 1e-6 {
				t.Errorf("pooling %d: document %d: %g, want %g", c.pooling, i, got, c.want[i])
			}
		}
	}
}
