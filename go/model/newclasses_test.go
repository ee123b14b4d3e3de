package model

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model/nn"
)

// someClasses are those of a new classifier in tests.
var someClasses = NewClasses{Names: []string{"red", "green", "blue"}, Seed: 7}

// classifiedFile opens a model, and gives it a new classifier.
func classifiedFile(tb testing.TB, path string) *File {
	tb.Helper()
	f, err := OpenFile(path)
	if err == nil {
		err = f.Classify(someClasses)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// classifierTrainer returns a Trainer of a model with a new classifier.
func classifierTrainer(tb testing.TB, path string, threads int, targets ...string) (*Model, *Trainer) {
	tb.Helper()
	m, err := loadFile(tb, classifiedFile(tb, path), Mapped, kvF32)
	if err != nil {
		tb.Fatal(err)
	}
	tr, err := trainerFor(tb, m, LoRA{Rank: 3, Alpha: 4, Targets: targets}, threads, nn.PoolRank)
	if err != nil {
		tb.Fatal(err)
	}
	return m, tr
}

// givenClasses are models that get a classifier, with what the adapter beside it is of.
func givenClasses(tb testing.TB) map[string]struct {
	path    string
	targets []string
} {
	type of = struct {
		path    string
		targets []string
	}
	bert := testdata.Path(tb, "models/tiny-random-bert-mean-f16.gguf")
	return map[string]of{
		"alone":         {bert, []string{"cls.output"}},
		"mean":          {bert, []string{"attn_v", "ffn_up"}},
		"first token":   {testdata.Path(tb, "models/tiny-random-bert-cls-f16.gguf"), []string{"attn_output"}},
		"last token":    {testdata.Path(tb, "archs/qwen3.gguf"), nil},
		"quantized":     {llamaFile, nil},
		"layer between": {testdata.Path(tb, "archs/gemma-embedding.gguf"), []string{"ffn_down"}},
		"no gradients":  {testdata.Path(tb, "archs/deepseek2.gguf"), []string{"cls.output"}},
	}
}

// Gradients of a new classifier, alone and beside an adapter, are what differences of its scores are, and the alone one leaves layers
// as they are.
func TestGradientOfNewClasses(t *testing.T) {
	for name, of := range givenClasses(t) {
		t.Run(name, func(t *testing.T) {
			m, tr := classifierTrainer(t, of.path, 1, of.targets...)
			if alone := len(of.targets) == 1 && of.targets[0] == "cls.output"; alone != (len(tr.Adapter.names) == 0) || alone != tr.program.frozen {
				t.Errorf("an adapter of %q", tr.Adapter.names)
			}
			if n := len(tr.Adapter.head.weights); n != 2 || tr.HasBase() {
				t.Errorf("%d tensors are trained as they are", n)
			}
			texts := someTexts(m.Config)
			most, where := differs(t, tr, texts)
			t.Logf("%.4f of the gradient at most: %s", most, where)
			if most > 0.02 {
				t.Errorf("%.4f of the gradient: %s", most, where)
			}
			if !tr.program.frozen {
				keepsTheSame(t, tr, texts)
			} else if tr.Keep(1 << 30); len(tr.kept.Bytes()) > 0 {
				t.Error("what frozen layers make is kept")
			}
		})
	}
}

// What the numbers say is what a file with them says, to the bit, and metadata has the classes.
func TestNewClassesAreServed(t *testing.T) {
	m, tr := classifierTrainer(t, testdata.Path(t, "models/tiny-random-bert-mean-f16.gguf"), 1, "cls.output")
	for i := range tr.Adapter.Numbers() { // biases too
		tr.Adapter.Numbers()[i] += float32(i%7) / 16
	}
	if err := tr.Adapter.Moved(tr.pool); err != nil {
		t.Fatal(err)
	}
	texts := someTexts(m.Config)
	want, err := tr.Outcomes(texts, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := MergeAdapters(m.file, nil, AsFloats)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "classified.gguf")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteTo(out); err != nil {
		t.Fatal(err)
	}
	out.Close()
	m, tr, err = trainerOf(t, path, LoRA{Rank: 3, Alpha: 4}, 1, nn.PoolRank)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tr.Outcomes(texts, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v is served, %v was trained", got, want)
	}
	if c := m.Config.Classifier; !slices.Equal(c.Labels, someClasses.Names) || c.Pooling != nn.PoolMean || c.NScore != 3 || c.Several || c.Softmax {
		t.Errorf("classifier %+v", c)
	}
}

// Scores and gradients have the same bits with any instruction set and any number of threads.
func TestNewClassesSameEverywhere(t *testing.T) {
	sameEverywhere(t, "a new classifier", func(threads int) []byte {
		m, tr := classifierTrainer(t, testdata.Path(t, "archs/qwen3.gguf"), threads, "attn_q")
		var outcomes [][]float64
		if err := tr.Descend(someTexts(m.Config), func(x [][]float64) ([][]float64, error) {
			outcomes = x
			return along(x)
		}, nil); err != nil {
			t.Fatal(err)
		}
		return fmt.Appendf(nil, "%x %x", outcomes, tr.Adapter.Gradient())
	})
}

// The first numbers are the same on every machine, and others for another seed.
func TestFirstNumbersOfNewClasses(t *testing.T) {
	first := func(seed uint64) string {
		f, err := OpenFile(llamaFile)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c := someClasses
		c.Seed = seed
		if err := f.Classify(c); err != nil {
			t.Fatal(err)
		}
		matrix, _ := f.GGUF.Tensor("cls.output.weight")
		bias, _ := f.GGUF.Tensor("cls.output.bias")
		if slices.ContainsFunc(bias.Data, func(b byte) bool { return b != 0 }) || bytes.Equal(matrix.Data, make([]byte, len(matrix.Data))) {
			t.Error("biases begin at 0, and the matrix does not")
		}
		return fmt.Sprintf("%x", sha256.Sum256(matrix.Data))[:16]
	}
	if got, want := first(7), "02cb711b0aa54be2"; got != want || first(8) == want {
		t.Errorf("the matrix of seed 7 has the hash %s, want %s", got, want)
	}
}

func TestNewClassesThatAreRefused(t *testing.T) {
	bert := testdata.Path(t, "archs/bert.gguf")
	long := strings.Repeat("x", mostClassName+1)
	for want, names := range map[string][]string{
		"1 classes": {"a"}, "without a name": {"a", ""}, `"a" comes twice`: {"a", "b", "a"}, "bytes": {"a", long},
		"4097 classes": make([]string, mostClasses+1),
	} {
		f, err := OpenFile(bert)
		if err != nil {
			t.Fatal(err)
		}
		tensors := len(f.GGUF.Tensors)
		if err := f.Classify(NewClasses{Names: names}); err == nil || !strings.Contains(err.Error(), want) || len(f.GGUF.Tensors) != tensors {
			t.Errorf("%.60q: error %v", names, err)
		}
		f.Close()
	}
	f := classifiedFile(t, bert)
	defer f.Close()
	if err := f.Classify(someClasses); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("twice: error %v", err)
	}
	m, err := loadFile(t, classifiedFile(t, bert), Mapped, kvF32)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trainerFor(t, m, LoRA{Rank: 3, Alpha: 4, Targets: []string{"cls"}}, 1, nn.PoolRank); err == nil || !strings.Contains(err.Error(), `"cls"`) {
		t.Errorf("a hidden layer that there is not: error %v", err)
	}
}
