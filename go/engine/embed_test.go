package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/nn"
)

// A text has the same vector alone and among others, in one pass and in slices, and its memory is
// free when it is there.
func TestEmbedTogether(t *testing.T) {
	t.Parallel()
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
			for _, pooling := range []nn.Pooling{nn.PoolMean, nn.PoolNone} {
				together := embedAll(t, e, texts, pooling)
				for i := len(texts) - 1; i >= 0; i-- {
					alone := embedAll(t, e, texts[i:i+1], pooling)[0]
					want := 1
					if pooling == nn.PoolNone {
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
			if err := e.Embed(t.Context(), []Text{{IDs: []int32{5}}, {}}, nn.PoolMean, nil); err == nil {
				t.Error("a text of nothing has a vector")
			}
			err := e.Embed(t.Context(), []Text{{IDs: make([]int32, 101)}}, nn.PoolMean, nil)
			if !errors.Is(err, ErrTooLong) {
				t.Errorf("a text too long: %v", err)
			}
		})
	}
}

// A text of which the model's numbers overflow has no vector.
func TestEmbedOverflows(t *testing.T) {
	raw, err := os.ReadFile(testdata.Path(t, "archs/bert.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	w, ok := f.Tensor("blk.0.layer_output_norm.weight")
	if !ok || w.Type != gguf.F32 {
		t.Fatal("no norm of floats")
	}
	for i := 0; i < len(w.Data); i += 4 {
		binary.LittleEndian.PutUint32(w.Data[i:], math.Float32bits(3e38))
	}
	path := filepath.Join(t.TempDir(), "large.gguf")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	e := open(t, path, Config{Device: device(t, 1), Ctx: 100, Batch: 16, KV: kvcache.Both(kvcache.Q8), Vectors: true})
	for _, pooling := range []nn.Pooling{nn.PoolMean, nn.PoolCLS, nn.PoolNone} {
		err := e.Embed(t.Context(), []Text{{IDs: []int32{5, 6}}}, pooling, func(_ int, v [][]float32) error { return fmt.Errorf("vectors %v", v[0][:4]) })
		if !errors.Is(err, ErrOverflow) {
			t.Errorf("pooling %d: %v", pooling, err)
		}
	}
}

func embedAll(t *testing.T, e *Engine, texts [][]int32, pooling nn.Pooling) (all [][][]float32) {
	t.Helper()
	read := make([]Text, len(texts))
	for i, ids := range texts {
		read[i].IDs = ids
	}
	err := e.Embed(t.Context(), read, pooling, func(i int, vectors [][]float32) error {
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

// A model for vectors of texts beside one for chats takes what it takes alone, also while both run, and leaves nothing.
func TestVectorsBesideChat(t *testing.T) {
	d, path := device(t, 2), testdata.Path(t, "archs/bert.gguf")
	c := Config{Device: d, Ctx: 100, Batch: 16, KV: kvcache.Both(kvcache.Q8), Vectors: true}
	texts := [][]int32{{5, 6, 7, 8}, {9, 10, 11}}
	alone := Config{Device: device(t, 2), Ctx: c.Ctx, Batch: c.Batch, KV: c.KV, Vectors: true}
	want := embedAll(t, open(t, path, alone), texts, nn.PoolMean)
	took := alone.Device.Budget().Used()

	chat := openLoop(t, tiny, Config{Device: d, Sequences: 2}, LoopConfig{})
	said := greedy(t, open(t, tiny, Config{}), []int32{1, 2, 3}, 100)
	before := d.Budget().Used()
	e := open(t, path, c)
	if n := d.Budget().Used() - before; n != took {
		t.Errorf("it takes %d bytes, alone %d", n, took)
	}
	_, s := submit(t, chat, greedyRequest([]int32{1, 2, 3}, 100))
	for range 5 {
		for i, v := range embedAll(t, e, texts, nn.PoolMean) {
			if !slices.EqualFunc(v, want[i], slices.Equal[[]float32]) {
				t.Errorf("text %d has another vector beside a chat", i)
			}
		}
		if n := d.Budget().Used() - before; n != took {
			t.Errorf("while both run it takes %d bytes, alone %d", n, took)
		}
	}
	if r := s.wait(t); r.Err != nil || !slices.Equal(s.ids, said) {
		t.Errorf("beside vectors %v, %v, alone %v", s.ids, r.Err, said)
	}
	e.Close()
	if n := d.Budget().Used(); n != before {
		t.Errorf("%d bytes are left of it", n-before)
	}
}
