package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/model"
)

const nIDs = 150 // reaches into a third KV block

func randomIDs(e *Engine, seed uint64, n int) []int32 {
	r := rand.New(rand.NewPCG(seed, 1))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(r.IntN(e.Model().Config.NVocab))
	}
	return ids
}

func mustEqual(t *testing.T, what string, got, want map[int][]float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: logits after %d tokens, want %d", what, len(got), len(want))
		return
	}
	for i := range len(want) {
		for j := range want[i] {
			if math.Float32bits(got[i][j]) != math.Float32bits(want[i][j]) {
				t.Errorf("%s: logit %d after token %d is %g, want %g", what, j, i, got[i][j], want[i][j])
				return
			}
		}
	}
}

// The bits of a token's logits do not depend on who shares its pass, on how its
// sequence was cut into passes, on the threads, on where the weights lie, or on
// the instruction set.
func TestLogitsAreInvariant(t *testing.T) {
	t.Parallel()
	types := []kvcache.Types{
		{}, {K: kvcache.Q4, V: kvcache.BF16}, kvcache.Both(kvcache.F32), {K: kvcache.F16, V: kvcache.Q8}, {K: kvcache.Q8, V: kvcache.Q4},
	}
	for i, file := range []string{"tiny-llama-mixed.gguf", "tiny-llama-mixed32.gguf", "tiny-moe-f32.gguf", "tiny-llama-tied-f16.gguf"} {
		if i > 0 { // attention knows nothing of the weights' types
			types = types[:2]
		}
		t.Run(file, func(t *testing.T) { invariant(t, filepath.Join(golden, file), types) })
	}
	if testing.Short() { // larger ones of the same
		return
	}
	for _, file := range []string{"TinyStories-656K-x2-Q4_K_M.gguf", "TinyStories-656K-x2-IQ3_XXS.gguf", "TinyStories-656K-moe4x2-Q4_0.gguf"} {
		t.Run(file, func(t *testing.T) { invariant(t, testdata.Path(t, "models/quant/"+file), types[:1]) })
	}
}

// inPlaces returns places of so many threads each, all on the first node.
func inPlaces(threads ...int) (p machine.Placement) {
	for _, n := range threads {
		p.Places = append(p.Places, machine.Place{Threads: n})
	}
	return p
}

func invariant(t *testing.T, path string, types []kvcache.Types) {
	for _, kv := range types {
		base := open(t, path, Config{KV: kv, Residency: model.Packed})
		ids := randomIDs(base, 5, nIDs)
		want := logits(t, base, ids, nil)
		for _, c := range []Config{
			{Device: device(t, 2)},
			{Device: deviceOf(t, DeviceConfig{Threads: 2, Place: machine.Placement{CPUs: []int{0, 1}}, Budget: testBudget()}), Batch: 31},
			{Device: deviceOf(t, DeviceConfig{Threads: 2, Place: inPlaces(1, 1), Budget: testBudget()}), Batch: 31},
			{Device: deviceOf(t, DeviceConfig{Threads: 5, Place: inPlaces(1, 3, 1), Budget: testBudget()})},
			{Residency: model.Mapped},
			{Residency: model.Mapped, Device: device(t, 2), Batch: 64},
			{Residency: model.Mapped, Device: deviceOf(t, DeviceConfig{Threads: 3, Place: inPlaces(1, 2), Budget: testBudget()}), Batch: 64},
			{Batch: 1},
			{Batch: 7},
			{Batch: 13, Device: device(t, 2)},
		} {
			c.KV = kv
			e := open(t, path, c)
			what := fmt.Sprintf("kv %v, %d threads, batch %d, %v", kv, e.device.Threads(), c.Batch, c.Residency)
			mustEqual(t, what, logits(t, e, ids, nil), want)
		}
		together(t, open(t, path, Config{KV: kv, Device: device(t, 2), Sequences: 4}), ids, want)
		forked(t, open(t, path, Config{KV: kv, Sequences: 3}), ids, want)
	}

	base := open(t, path, Config{})
	ids := randomIDs(base, 5, nIDs)
	want := logits(t, base, ids, nil)
	defer kernel.Init(kernel.Best)
	for _, allow := range []kernel.ISA{kernel.Scalar, kernel.AVX2, kernel.AVX2 | kernel.AVXVNNI | kernel.AVX512} {
		used := kernel.Init(allow)
		mustEqual(t, "instruction set "+used.String(), logits(t, open(t, path, Config{}), ids, nil), want)
	}
}

// together evaluates ids in passes that others share, cut at random.
func together(t *testing.T, e *Engine, ids []int32, want map[int][]float32) {
	r := rand.New(rand.NewPCG(3, 3))
	s := e.NewSequence()
	defer s.Close()
	others := []*Sequence{e.NewSequence(), e.NewSequence(), e.NewSequence()}
	for _, o := range others {
		defer o.Close()
	}
	most := min(120, e.ctx-30)
	got := map[int][]float32{}
	for s.Len() < len(ids) {
		at := s.Len()
		items := []Item{{Seq: s, IDs: ids[at:min(at+1+r.IntN(40), len(ids))]}}
		items[0].Rows = len(items[0].IDs)
		for k, o := range others {
			if o.Len() > most {
				o.Truncate(r.IntN(most - 20))
			}
			items = append(items, Item{Seq: o, IDs: randomIDs(e, uint64(at*10+k), r.IntN(30))})
		}
		r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		if err := e.pass(canceler{ctx: t.Context()}, items); err != nil {
			t.Fatal(err)
		}
		next := at
		e.heads(items, func(parts []part) error {
			for _, p := range parts {
				for _, l := range p.rows {
					got[next] = slices.Clone(l)
					next++
				}
			}
			return nil
		})
	}
	mustEqual(t, "in passes with others", got, want)
}

// forked evaluates a prefix once, and goes on in two forks of it.
func forked(t *testing.T, e *Engine, ids []int32, want map[int][]float32) {
	const cut = 70 // within the second block
	ctx := context.Background()
	trunk := e.NewSequence()
	defer trunk.Close()
	if err := e.Eval(ctx, trunk, ids[:cut], 0, nil); err != nil {
		t.Fatal(err)
	}
	a, b := trunk.Fork(), trunk.Fork()
	defer a.Close()
	defer b.Close()
	if err := e.Eval(ctx, a, randomIDs(e, 99, 40), 0, nil); err != nil {
		t.Fatal(err)
	}
	got := map[int][]float32{}
	for i := range cut {
		got[i] = want[i]
	}
	err := e.Eval(ctx, b, ids[cut:], 0, func(i int, l []float32) error {
		got[cut+i] = slices.Clone(l)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "after a fork", got, want)
}
