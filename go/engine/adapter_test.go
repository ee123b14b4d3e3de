package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
)

// writeAdapter writes an adapter of some tensors of the model in e, with numbers that follow from seed.
func writeAdapter(t *testing.T, e *Engine, rank int, seed uint64, tensors ...string) string {
	t.Helper()
	arch := e.Model().Config.Arch
	w := gguf.NewWriter()
	w.Set("general.architecture", arch)
	w.Set("general.type", "adapter")
	w.Set("adapter.type", "lora")
	w.Set("adapter.lora.alpha", float32(rank))
	numbers := func(n int) []byte {
		var b bytes.Buffer
		for range n {
			seed = seed*6364136223846793005 + 1442695040888963407
			x := float32(int32(seed>>33)-1<<30) / (1 << 31)
			bits := math.Float32bits(x)
			b.Write([]byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)})
		}
		return b.Bytes()
	}
	for _, name := range tensors {
		x, ok := e.Model().GGUF().Tensor(name)
		if !ok {
			t.Fatalf("no tensor %s", name)
		}
		a, b := []uint64{x.Dims[0], uint64(rank)}, []uint64{uint64(rank), x.Dims[1]}
		if name == "token_embd.weight" {
			a, b = []uint64{uint64(rank), x.Dims[1]}, []uint64{uint64(rank), x.Dims[0]}
		}
		for i, dims := range [][]uint64{a, b} {
			n := dims[0] * dims[1]
			if len(x.Dims) > 2 {
				dims = append(dims, x.Dims[2])
				n *= x.Dims[2]
			}
			w.AddTensor(name+[]string{".lora_a", ".lora_b"}[i], gguf.F32, dims, gguf.Bytes(numbers(int(n))))
		}
	}
	path := filepath.Join(t.TempDir(), fmt.Sprintf("adapter-%d.gguf", rank))
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := w.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	return path
}

func openAdapter(t *testing.T, e *Engine, path string) *Adapter {
	t.Helper()
	a, err := e.OpenAdapter(path)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// adapted returns a sequence with adapters.
func adapted(t *testing.T, e *Engine, list ...ScaledAdapter) *Sequence {
	t.Helper()
	s := e.NewSequence()
	if err := s.SetAdapters(list); err != nil {
		t.Fatal(err)
	}
	return s
}

// A real model with a real adapter gives the logits and the text that an independent implementation recorded.
func TestAdapterReference(t *testing.T) {
	const model, adapter = "TinyStories-656K-f32.gguf", "TinyStories-656K-lora-r32-f16.gguf"
	raw, err := os.ReadFile(testdata.Path(t, "models/reference_numpy_derived.json"))
	if err != nil {
		t.Fatal(err)
	}
	var files map[string][]struct {
		PromptIDs []int32      `json:"prompt_ids"`
		GreedyIDs []int32      `json:"greedy_ids"`
		Top5      [][2]float64 `json:"first_logits_top5"`
	}
	if err := json.Unmarshal(raw, &files); err != nil {
		t.Fatal(err)
	}
	runs := files[model+" + "+adapter]
	if len(runs) == 0 {
		t.Fatal("no reference")
	}
	e := open(t, testdata.Path(t, "models/"+model), Config{KV: kvcache.Both(kvcache.F32), Device: device(t, 2)})
	a := openAdapter(t, e, testdata.Path(t, "models/"+adapter))
	for _, r := range runs {
		s := adapted(t, e, ScaledAdapter{a, 1})
		var first []float32
		after := len(r.PromptIDs) - 1
		err := e.Eval(context.Background(), s, r.PromptIDs, after, func(_ int, l []float32) error { first = slices.Clone(l); return nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, top := range r.Top5 {
			if got := float64(first[int(top[0])]); math.Abs(got-top[1]) > 1e-4*math.Abs(top[1]) {
				t.Errorf("logit of %v is %v, want %v", top[0], got, top[1])
			}
		}
		var ids []int32
		if _, err := e.Generate(context.Background(), s, likeliest(r.PromptIDs, len(r.GreedyIDs)), func(id int32) error { ids = append(ids, id); return nil }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ids, r.GreedyIDs) {
			t.Errorf("text %v, want %v", ids, r.GreedyIDs)
		}
	}
}

// A token's logits do not depend on the adapters of others in its pass, and those of a sequence without any are
// the bits of an engine that has none.
func TestAdaptersInCompany(t *testing.T) {
	for _, file := range []string{"models/quant/TinyStories-656K-x2-Q4_K_M.gguf", "models/TinyStories-656K-moe4x2-f16.gguf"} {
		path := testdata.Path(t, file)
		e := open(t, path, Config{Device: device(t, 2), Sequences: 5})
		tensors := []string{"blk.0.attn_q.weight", "blk.0.attn_v.weight", "blk.1.attn_output.weight", "token_embd.weight"}
		if strings.Contains(file, "moe") {
			tensors = append(tensors, "blk.0.ffn_gate_exps.weight", "blk.1.ffn_down_exps.weight", "blk.1.ffn_gate_inp.weight")
		} else {
			tensors = append(tensors, "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.1.ffn_down.weight")
		}
		one := openAdapter(t, e, writeAdapter(t, e, 3, 1, tensors...))
		two := openAdapter(t, e, writeAdapter(t, e, 20, 2, tensors[1:]...))
		kinds := [][]ScaledAdapter{nil, {{one, 0.7}}, {{two, -0.5}}, {{two, 1}, {one, 0.3}}, {{one, 0}}}
		ids := randomIDs(e, 5, 40)
		alone := func(list []ScaledAdapter) map[int][]float32 {
			s, got := adapted(t, e, list...), map[int][]float32{}
			defer s.Close()
			err := e.Eval(context.Background(), s, ids, 0, func(i int, l []float32) error { got[i] = slices.Clone(l); return nil })
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		want := make([]map[int][]float32, len(kinds))
		for i, list := range kinds {
			want[i] = alone(list)
		}
		mustEqual(t, "without adapters", want[0], logits(t, open(t, path, Config{}), ids, nil))
		mustEqual(t, "scaled by 0", want[4], want[0])
		for i := 1; i < 4; i++ {
			if slices.Equal(want[i][39], want[0][39]) {
				t.Errorf("adapters %d change nothing", i)
			}
		}
		var items []Item
		got := make([]map[int][]float32, len(kinds))
		for i, list := range kinds {
			items = append(items, Item{Seq: adapted(t, e, list...)})
			got[i] = map[int][]float32{}
		}
		for step := 0; slices.ContainsFunc(items, func(it Item) bool { return it.Seq.Len() < len(ids) }); step++ {
			for i := range items {
				at := items[i].Seq.Len()
				items[i].IDs = ids[at:min(at+1+(step*7+i*5)%11, len(ids))]
				items[i].Rows = len(items[i].IDs)
			}
			if err := e.pass(canceler{ctx: t.Context()}, items); err != nil {
				t.Fatal(err)
			}
			next := make([]int, len(items))
			for i := range items {
				next[i] = items[i].Seq.Len() - len(items[i].IDs)
			}
			e.heads(items, func(parts []part) error {
				for _, p := range parts {
					for _, l := range p.rows {
						got[p.item][next[p.item]] = slices.Clone(l)
						next[p.item]++
					}
				}
				return nil
			})
		}
		for i := range kinds {
			mustEqual(t, fmt.Sprintf("%s: adapters %d in company", file, i), got[i], want[i])
			items[i].Seq.Close()
		}
		func() {
			defer kernel.Init(kernel.Best)
			for _, allow := range []kernel.ISA{kernel.Scalar, kernel.AVX2} {
				used := kernel.Init(allow)
				mustEqual(t, "instruction set "+used.String(), alone(kinds[3]), want[3])
			}
		}()
	}
}

// Adapters come and go while requests run; a text is that of its adapters whatever the company, and the cache does not give one the
// state that another has computed.
func TestLoopAdapters(t *testing.T) {
	path := testdata.Path(t, "models/TinyStories-656K-x2-f16.gguf")
	l := openLoop(t, path, Config{Sequences: 4, Shared: true}, LoopConfig{Queue: 100})
	tensors := []string{"blk.0.attn_q.weight", "blk.1.attn_v.weight", "blk.1.ffn_down.weight"}
	files := []string{writeAdapter(t, l.e, 4, 1, tensors...), writeAdapter(t, l.e, 8, 2, tensors...)}
	prompt := randomIDs(l.e, 9, 140)

	alone := open(t, path, Config{})
	texts := make([][]int32, 3)
	for i := range texts {
		s := alone.NewSequence()
		if i > 0 {
			if err := s.SetAdapters([]ScaledAdapter{{openAdapter(t, alone, files[i-1]), 1}}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := alone.Generate(context.Background(), s, likeliest(prompt, 12), func(id int32) error { texts[i] = append(texts[i], id); return nil })
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if slices.Equal(texts[0], texts[1]) || slices.Equal(texts[1], texts[2]) {
		t.Fatalf("the adapters make no other texts: %v", texts)
	}
	run := func(list []ScaledAdapter) ([]int32, Result, error) {
		r, c := greedyRequest(prompt, 12), newCatcher()
		r.Adapters, r.Sink = list, c
		if _, err := l.Submit(r); err != nil {
			return nil, Result{}, err
		}
		res := c.wait(t)
		return c.ids, res, res.Err
	}
	var wg, threads sync.WaitGroup
	var done atomic.Bool
	threads.Go(func() { // a quota that changes all the time
		for i := 0; !done.Load(); i++ {
			if err := l.e.device.SetThreads(1+i%3, machine.Placement{}); err != nil {
				t.Error(err)
			}
		}
	})
	for k := range 3 {
		wg.Go(func() {
			for range 4 {
				var list []ScaledAdapter
				var a *Adapter
				if k > 0 {
					var err error
					if a, err = l.OpenAdapter(files[k-1]); err != nil {
						t.Error(err)
						return
					}
					list = []ScaledAdapter{{a, 1}}
				}
				got, _, err := run(list)
				if err != nil || !slices.Equal(got, texts[k]) {
					t.Errorf("adapter %d: %v, %v, want %v", k, got, err, texts[k])
				}
				if a != nil {
					if err := l.DropAdapter(context.Background(), a); err != nil {
						t.Error(err)
					}
					if _, _, err := run(list); !errors.Is(err, ErrAdapterGone) {
						t.Errorf("an adapter that was unloaded: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	done.Store(true)
	threads.Wait()

	a, err := l.OpenAdapter(files[0])
	if err != nil {
		t.Fatal(err)
	}
	// What the adapter of the same file computed before is found again; under another scale it is not.
	if _, res, err := run([]ScaledAdapter{{a, 1}}); err != nil || res.CachedTokens < 128 {
		t.Errorf("%d tokens from the cache, %v", res.CachedTokens, err)
	}
	if _, res, err := run([]ScaledAdapter{{a, 0.5}}); err != nil || res.CachedTokens != 0 {
		t.Errorf("%d tokens from the cache under another scale, %v", res.CachedTokens, err)
	}
	// A slot that was saved under adapters is restored for these.
	_, res, err := run([]ScaledAdapter{{a, 1}})
	if err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	if _, err := l.SaveSlot(res.Slot, "", &saved); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		l.EraseSlot(i, "")
	}
	l.mu.Lock()
	l.tree.Clear()
	l.mu.Unlock()
	if _, err := l.RestoreSlot(0, "", bytes.NewReader(saved.Bytes())); err != nil {
		t.Fatal(err)
	}
	if _, res, err := run(nil); err != nil || res.CachedTokens != 0 {
		t.Errorf("%d tokens without an adapter from a slot with one, %v", res.CachedTokens, err)
	}
	if got, res, err := run([]ScaledAdapter{{a, 1}}); err != nil || res.CachedTokens < 128 || !slices.Equal(got, texts[1]) {
		t.Errorf("%d tokens from the restored slot, %v", res.CachedTokens, err)
	}
	// Unloading waits for the requests that use the adapter, and refuses new ones at once.
	long, c := greedyRequest(prompt, 60), newCatcher()
	long.Adapters, long.Sink = []ScaledAdapter{{a, 1}}, c
	if _, err := l.Submit(long); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.DropAdapter(gone, a); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, _, err := run([]ScaledAdapter{{a, 1}}); !errors.Is(err, ErrAdapterGone) {
		t.Errorf("a request to an adapter that is being unloaded: %v", err)
	}
	if res := c.wait(t); res.Err != nil || res.Generated != 60 {
		t.Errorf("the request under way: %+v", res)
	}
	<-a.leaving
	checkBlocks(t, l)
	twice := ScaledAdapter{a, 1}
	if _, _, err := run([]ScaledAdapter{twice, twice}); err == nil {
		t.Error("the same adapter twice is taken")
	}
	if _, _, err := run([]ScaledAdapter{{a, float32(math.NaN())}}); err == nil {
		t.Error("a scale of NaN is taken")
	}
}
