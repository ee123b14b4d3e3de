package engine

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
)

// The vectors and scores that are trained are those that are served with the adapter, and without it, to the bit.
func TestVectorsAreThoseOfTraining(t *testing.T) {
	t.Parallel()
	for name, pooling := range map[string]nn.Pooling{
		"bert": nn.PoolMean, "bert with a classifier": nn.PoolRank, "modern-bert": nn.PoolCLS, "nomic-bert": nn.PoolMeanSqrt, "gemma-embedding": nn.PoolMean, "qwen3": nn.PoolLast,
		"llama": nn.PoolWeighted,
	} {
		file, scores := strings.CutSuffix(name, " with a classifier")
		path := testdata.Path(t, "archs/"+file+".gguf")
		if scores {
			path = withClassifier(t, path)
		}
		texts, want, adapter := outcomes(t, path, pooling)
		e := open(t, path, Config{Device: device(t, 2), Ctx: 100, Batch: 128, KV: kvcache.Both(kvcache.F16), Vectors: true})
		a := []ScaledAdapter{{Adapter: openAdapter(t, e, adapter), Scale: 1}}
		var read []Text
		for _, x := range texts {
			read = append(read, Text{IDs: x.Tokens, Adapters: a}, Text{IDs: x.Tokens})
		}
		err := e.Embed(t.Context(), read, pooling, func(i int, vectors [][]float32) error {
			for j, v := range vectors[0] {
				if float64(v) != want[i][j] {
					t.Errorf("%s, text %d, number %d: %v is served, %v was trained", name, i, j, v, want[i][j])
					break
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// withClassifier writes the model at path with a classifier of three classes, and returns its path.
func withClassifier(t *testing.T, path string) string {
	t.Helper()
	f, err := model.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := f.Config()
	if err != nil {
		t.Fatal(err)
	}
	w := gguf.NewWriter()
	for _, kv := range f.GGUF.KVs {
		w.Set(kv.Key, kv.Value)
	}
	for _, x := range f.GGUF.Tensors {
		w.AddTensor(x.Name, x.Type, x.Dims, gguf.Bytes(x.Data))
	}
	n := uint64(c.NEmbd)
	for name, dims := range map[string][]uint64{"cls.weight": {n, n}, "cls.output.weight": {n, 3}} {
		w.AddTensor(name, gguf.F32, dims, func(out io.Writer) error {
			for i := range dims[0] * dims[1] {
				if err := binary.Write(out, binary.LittleEndian, float32(i*i%13)/20-0.3); err != nil {
					return err
				}
			}
			return nil
		})
	}
	path = filepath.Join(t.TempDir(), "classifier.gguf")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := w.WriteTo(out); err != nil {
		t.Fatal(err)
	}
	return path
}

// outcomes returns texts, what a Trainer with an adapter of random numbers makes of each, and without it, and the file of that
// adapter.
func outcomes(t *testing.T, path string, pooling nn.Pooling) (texts []model.Text, all [][]float64, adapter string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pool, err := kernel.NewPool(1, nil)
	must(err)
	defer pool.Close()
	f, err := model.OpenFile(path)
	must(err)
	defer f.Close()
	budget := mem.NewBudget(1<<28, "test")
	s, err := model.NewSurvey(f, kernel.KVTypes{K: kernel.KVF16, V: kernel.KVF16}, 0)
	must(err)
	m, err := s.Load(model.Options{Pack: pool.PackInto, Budget: budget, Residency: model.Mapped})
	must(err)
	defer m.Close()
	a, err := model.NewTuned(m, model.LoRA{Rank: 4, Alpha: 8, Classifier: pooling == nn.PoolRank}, budget)
	must(err)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range a.Numbers() {
		a.Numbers()[i] = float32(rng.NormFloat64()) * 0.1
	}
	must(a.Moved(pool))
	tr, err := model.NewTrainer(m, a, model.TrainerConfig{Pool: pool, Budget: budget, MaxTokens: 192, Pooling: pooling})
	must(err)
	defer tr.Close()
	for _, n := range []int{3, 70, 17} {
		x := model.Text{}
		for i := range n {
			x.Tokens = append(x.Tokens, int32(5+(i*i+n)%200))
		}
		texts = append(texts, x)
	}
	with, err := tr.Outcomes(texts, false, nil)
	must(err)
	without, err := tr.Outcomes(texts, true, nil)
	must(err)
	for i := range texts {
		all = append(all, with[i], without[i])
	}
	adapter = filepath.Join(t.TempDir(), "adapter.gguf")
	out, err := os.Create(adapter)
	must(err)
	defer out.Close()
	_, err = a.Write(m.Config.Arch, a.Numbers()).WriteTo(out)
	must(err)
	return texts, all, adapter
}
