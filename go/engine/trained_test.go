package engine

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
)

// The vectors that are trained are those that are served with the adapter, to the bit.
func TestVectorsAreThoseOfTraining(t *testing.T) {
	t.Parallel()
	for name, pooling := range map[string]nn.Pooling{
		"bert": nn.PoolMean, "modern-bert": nn.PoolCLS, "nomic-bert": nn.PoolMeanSqrt, "gemma-embedding": nn.PoolMean, "qwen3": nn.PoolLast,
		"llama": nn.PoolWeighted,
	} {
		path := testdata.Path(t, "archs/"+name+".gguf")
		texts, want, adapter := outcomes(t, path, pooling)
		e := open(t, path, Config{Device: device(t, 2), Ctx: 100, Batch: 128, KV: kvcache.Both(kvcache.F16), Vectors: true})
		a := []ScaledAdapter{{Adapter: openAdapter(t, e, adapter), Scale: 1}}
		var read []Text
		for _, x := range texts {
			read = append(read, Text{IDs: x.Tokens, Adapters: a})
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

// outcomes returns texts, what a Trainer with an adapter of random numbers makes of them, and the file of that adapter.
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
	a, err := model.NewTuned(m, model.LoRA{Rank: 4, Alpha: 8}, budget)
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
	all, err = tr.Outcomes(texts, false, nil)
	must(err)
	adapter = filepath.Join(t.TempDir(), "adapter.gguf")
	out, err := os.Create(adapter)
	must(err)
	defer out.Close()
	_, err = a.Write(m.Config.Arch, a.Numbers()).WriteTo(out)
	must(err)
	return texts, all, adapter
}
