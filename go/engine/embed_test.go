package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/arch"
)

// A text has the same vector alone and among others, in one pass and in slices, and its memory is
// free when it is there.
func TestEmbedTogether(t *testing.T) {
	for _, name := range []string{"bert", "nomic-bert-moe", "modern-bert", "gemma-embedding", "jina-bert-v2", "t5encoder", "qwen3", "qwen35"} {
		t.Run(name, func(t *testing.T) {
			c := Config{Device: device(t, 2), Ctx: 100, Batch: 16, KV: kvcache.Both(kvcache.Q8), Vectors: true}
			e := open(t, testdata.Path(t, "archs/"+name+".gguf"), c)
			var texts [][]int32
			for n := 1; n <= 100; n += 33 {
				var ids []int32
				for i := range n {
					ids = append(ids, int32(5+(i*i+n)%300))
				}
				texts = append(texts, ids)
			}
			for _, pooling := range []arch.Pooling{arch.PoolMean, arch.PoolNone} {
				together := embedAll(t, e, texts, pooling)
				for i := len(texts) - 1; i >= 0; i-- {
					alone := embedAll(t, e, texts[i:i+1], pooling)[0]
					want := 1
					if pooling == arch.PoolNone {
						want = len(texts[i])
					}
					if len(alone) != want || !slices.EqualFunc(alone, together[i], slices.Equal[[]float32]) {
						t.Fatalf("pooling %d: %d vectors of a text of %d tokens, others in company", pooling, len(alone), len(texts[i]))
					}
				}
			}
			if e.kv.Available() != e.kv.Limit() {
				t.Errorf("%d of %d bytes are free", e.kv.Available(), e.kv.Limit())
			}
			if err := e.Embed(t.Context(), [][]int32{{5}, nil}, arch.PoolMean, nil); err == nil {
				t.Error("a text of nothing has a vector")
			}
			err := e.Embed(t.Context(), [][]int32{make([]int32, 101)}, arch.PoolMean, nil)
			if !errors.Is(err, ErrTooLong) {
				t.Errorf("a text too long: %v", err)
			}
		})
	}
}

func embedAll(t *testing.T, e *Engine, texts [][]int32, pooling arch.Pooling) (all [][][]float32) {
	t.Helper()
	err := e.Embed(t.Context(), texts, pooling, func(i int, vectors [][]float32) error {
		if i != len(all) {
			t.Fatalf("text %d after %d", i, len(all)-1)
		}
		all = append(all, vectors)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
