package engine

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
)

// Passes that begin before all weights are packed give the same bits, and each matrix is read once.
func TestEarly(t *testing.T) {
	paths := []string{filepath.Join(golden, "tiny-llama-mixed.gguf"), filepath.Join(golden, "tiny-moe-f32.gguf")}
	for _, arch := range []string{"gemma3n", "deepseek2", "granitemoe", "t5"} {
		paths = append(paths, testdata.Path(t, "archs/"+arch+".gguf"))
	}
	paths = append(paths, packFile(t, tiny))
	for _, path := range paths {
		base := open(t, path, Config{Ctx: 200, Batch: 64, Residency: model.Packed})
		ids := randomIDs(base, 5, 90)
		var done, total atomic.Uint64
		e := open(t, path, Config{Ctx: 200, Batch: 64, Residency: model.Packed, Early: true, Device: device(t, 2), Progress: func(d, all uint64) {
			done.Store(d)
			total.Store(all)
		}})
		if len(base.Model().Config.Encoder) > 0 {
			if got, want := greedy(t, e, ids[:20], 12), greedy(t, base, ids[:20], 12); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", path, got, want)
			}
			continue
		}
		mustEqual(t, path, logits(t, e, ids, nil), logits(t, base, ids, nil))
		if done.Load() == 0 || done.Load() != total.Load() {
			t.Errorf("%s: %d bytes were read, of %d", path, done.Load(), total.Load())
		}
		open(t, path, Config{Ctx: 200, Early: true}).Close() // before the weights are there
	}
}

// What is wrong with weights that come later is an error of the passes that need them.
func TestEarlyFails(t *testing.T) {
	b, err := os.ReadFile(tiny)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gguf.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := g.Tensor("blk.1.ffn_down.weight")
	if !ok {
		t.Fatal("no such tensor")
	}
	binary.LittleEndian.PutUint32(b[x.Offset:], math.Float32bits(float32(math.NaN())))
	path := filepath.Join(t.TempDir(), "nan.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []Config{{Early: true}, {Residency: model.Streamed}} {
		e := open(t, path, c)
		s := e.NewSequence()
		defer s.Close()
		for range 2 {
			if err := e.Eval(t.Context(), s, []int32{1, 2, 3}, 3, nil); !errors.Is(err, kernel.ErrNotFinite) || s.Len() != 0 {
				t.Errorf("%v weights: %v, %d tokens", c.Residency, err, s.Len())
			}
		}
	}
}
