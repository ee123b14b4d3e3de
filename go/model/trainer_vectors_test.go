package model

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model/nn"
)

// withTensors writes the small model of that name with more keys, and with tensors of random numbers, and returns its path.
func withTensors(tb testing.TB, name string, keys map[string]any, tensors map[string][]uint64) string {
	tb.Helper()
	raw, err := os.ReadFile(testdata.Path(tb, "archs/"+name+".gguf"))
	if err != nil {
		tb.Fatal(err)
	}
	f, err := gguf.Parse(raw)
	if err != nil {
		tb.Fatal(err)
	}
	w := gguf.NewWriter()
	for _, kv := range f.KVs {
		w.Set(kv.Key, kv.Value)
	}
	for k, v := range keys {
		if !strings.HasPrefix(k, nn.Own) {
			k = name + "." + k
		}
		w.Set(k, v)
	}
	for _, x := range f.Tensors {
		w.AddTensor(x.Name, x.Type, x.Dims, gguf.Bytes(x.Data))
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for name, dims := range tensors {
		n := uint64(1)
		for _, d := range dims {
			n *= d
		}
		var data bytes.Buffer
		for range n {
			_ = binary.Write(&data, binary.LittleEndian, float32(rng.NormFloat64()*0.1)) // a buffer takes all bytes
		}
		w.AddTensor(name, gguf.F32, dims, gguf.Bytes(data.Bytes()))
	}
	path := filepath.Join(tb.TempDir(), name+".gguf")
	out, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer out.Close()
	if _, err := w.WriteTo(out); err != nil {
		tb.Fatal(err)
	}
	return path
}

// pooled are models with a pooling, and what is behind it.
func pooled(tb testing.TB) map[string]struct {
	path string
	kind nn.Pooling
} {
	type of = struct {
		path string
		kind nn.Pooling
	}
	bert := testdata.Path(tb, "archs/bert.gguf")
	f, err := OpenFile(bert)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	c, err := f.Config()
	if err != nil {
		tb.Fatal(err)
	}
	n := uint64(c.NEmbd)
	hidden := map[string][]uint64{"cls.weight": {n, n}, "cls.bias": {n}, "cls.output.weight": {n, 3}, "cls.output.bias": {3}}
	return map[string]of{
		"cls": {bert, nn.PoolCLS}, "last": {bert, nn.PoolLast}, "root of the mean": {bert, nn.PoolMeanSqrt}, "weighted": {bert, nn.PoolWeighted},
		"causal":      {testdata.Path(tb, "archs/qwen3.gguf"), nn.PoolLast},
		"causal mean": {testdata.Path(tb, "archs/llama.gguf"), nn.PoolMean},
		"dense":       {testdata.Path(tb, "archs/gemma-embedding.gguf"), nn.PoolMean},
		"scores":      {withTensors(tb, "bert", nil, map[string][]uint64{"cls.output.weight": {n, 3}, "cls.output.bias": {3}}), nn.PoolRank},
		"tanh":        {withTensors(tb, "bert", nil, hidden), nn.PoolRank},
		"gelu": {withTensors(tb, "bert", map[string]any{"quern.classifier.activation": "gelu", "quern.classifier.pooling": "mean"}, hidden),
			nn.PoolRank},
		"norm": {withTensors(tb, "modern-bert", nil, map[string][]uint64{"cls.weight": {n, n}, "cls.norm.weight": {n},
			"cls.output.weight": {n, 2}}), nn.PoolRank},
	}
}

// Gradients of vectors and scores, by each pooling, are what differences of them are.
func TestGradientOfVectors(t *testing.T) {
	for name, of := range pooled(t) {
		t.Run(name, func(t *testing.T) {
			m, tr, err := trainerOf(t, of.path, LoRA{Rank: 3, Alpha: 4}, 1, of.kind)
			if err != nil {
				t.Fatal(err)
			}
			if own := slices.Contains(tr.Adapter.names, "cls.output.weight"); own != (of.kind == nn.PoolRank) {
				t.Errorf("the classifier's own matrix is trained: %v", own)
			}
			texts := someTexts(m.Config)
			if m.Config.NType > 1 {
				texts[0].Second = 20
			}
			most, where := differs(t, tr, texts)
			t.Logf("%.4f of the gradient at most: %s", most, where)
			if most > 0.02 {
				t.Errorf("%.4f of the gradient: %s", most, where)
			}
			keepsTheSame(t, tr, texts)
		})
	}
}

// Without the adapter, texts come to what they come to where its B is 0, and to something else with it.
func TestOutcomesOfTheBase(t *testing.T) {
	for _, path := range []string{llamaFile, testdata.Path(t, "archs/bert.gguf")} {
		m, tr, err := trainer(t, path, LoRA{Rank: 3, Alpha: 4}, 1)
		if err != nil {
			t.Fatal(err)
		}
		outcomes := func(base bool) [][]float64 {
			x, err := tr.Outcomes(someTexts(m.Config), base, nil)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		base, with := outcomes(true), outcomes(false)
		clear(tr.Adapter.Numbers())
		if err := tr.Adapter.Moved(tr.pool); err != nil {
			t.Fatal(err)
		}
		for i, x := range outcomes(false) {
			if !slices.Equal(x, base[i]) || slices.Equal(x, with[i]) {
				t.Errorf("%s, text %d: %.6v of an empty adapter, %.6v without one, %.6v with one", path, i, x[0], base[i][0], with[i][0])
			}
		}
	}
}

// What a text comes to has the same bits in any company.
func TestOutcomesDependOnNoCompany(t *testing.T) {
	for _, path := range []string{llamaFile, testdata.Path(t, "archs/bert.gguf")} {
		m, tr, err := trainer(t, path, LoRA{Rank: 3, Alpha: 4}, 2)
		if err != nil {
			t.Fatal(err)
		}
		texts := someTexts(m.Config)
		all, err := tr.Outcomes(texts, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range texts {
			alone, err := tr.Outcomes([]Text{x}, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(alone[0], all[i]) {
				t.Errorf("%s: text %d alone has another outcome", path, i)
			}
		}
	}
}

func TestPoolingsThatAreRefused(t *testing.T) {
	bert := testdata.Path(t, "archs/bert.gguf")
	for kind, want := range map[nn.Pooling]string{nn.PoolRank: "no classifier", nn.PoolMax: "pooling", nn.PoolTokens: "pooling"} {
		if _, _, err := trainerOf(t, bert, LoRA{Rank: 3, Alpha: 4}, 1, kind); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v", kind, err)
		}
	}
	_, tr, err := trainerOf(t, bert, LoRA{Rank: 3, Alpha: 4}, 1, nn.PoolMean)
	if err != nil {
		t.Fatal(err)
	}
	x := []Text{{Tokens: []int32{1, 2}, Weights: []float32{0, 1}}}
	if _, err := tr.Gradient(x, nil); err == nil {
		t.Error("a loss of vectors")
	}
}
