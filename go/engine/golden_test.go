package engine

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sample"
)

const golden = "../../scripts/golden"

// testBudget is more than any test needs and less than a machine has.
func testBudget() *mem.Budget { return mem.NewBudget(1<<30, "test") }

// device returns a Device of so many threads.
func device(tb testing.TB, threads int) *Device {
	tb.Helper()
	return deviceOf(tb, DeviceConfig{Threads: threads, Budget: testBudget()})
}

func deviceOf(tb testing.TB, c DeviceConfig) *Device {
	tb.Helper()
	d, err := NewDevice(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(d.Close)
	return d
}

func open(tb testing.TB, path string, c Config) *Engine {
	tb.Helper()
	if c.Device == nil {
		c.Device = device(tb, 1)
	}
	if n, err := strconv.Atoi(os.Getenv("QUERN_TEST_RANKS")); err == nil && c.Ranks == nil {
		c.Ranks = divided(tb, path, n)
	}
	file, err := openBoth(path)
	if err != nil {
		tb.Fatal(err)
	}
	e, err := New(file, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	return e
}

// openBoth opens a model, with the head that is named behind it.
func openBoth(path string) (*model.File, error) {
	path, head, ok := strings.Cut(path, besideHead)
	file, err := model.OpenFile(path)
	if err == nil && ok {
		var h *model.File
		if h, err = model.OpenFile(head); err == nil {
			err = file.DraftBy(h)
		}
	}
	return file, err
}

// divided returns n ranks, of which all but the first have memory of their own. With QUERN_TEST_RANKS=n all tests run with
// models that are divided among so many, but those that have asked for something else.
func divided(tb testing.TB, path string, n int) *Ranks {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, wait, err := InThreads(ctx, func(bool) (*model.File, error) { return openBoth(path) },
		DeviceConfig{Threads: n, Budget: testBudget()}, n)
	if err != nil {
		tb.Fatal(err)
	}
	r.Least = 1
	tb.Cleanup(func() {
		defer cancel()
		if err := wait(); err != nil {
			tb.Errorf("a rank: %v", err)
		}
	})
	return r
}

// besideHead is between the path of a model and that of a head that drafts for it.
const besideHead = "\x00"

// greedy returns the likeliest continuation of the prompt.
func greedy(tb testing.TB, e *Engine, prompt []int32, n int) []int32 {
	tb.Helper()
	s := e.NewSequence()
	defer s.Close()
	var ids []int32
	_, err := e.Generate(context.Background(), s, likeliest(prompt, n),
		func(id int32) error { ids = append(ids, id); return nil })
	if err != nil {
		tb.Fatal(err)
	}
	return ids
}

// likeliest are the parameters of the likeliest continuation.
func likeliest(prompt []int32, n int) generate.Params {
	p := sample.Defaults()
	p.Temp = 0
	return generate.Params{Prompt: prompt, MaxTokens: n, Sampling: p, TopLogprobs: -1}
}

// logits returns the logits after the wanted tokens, or all when want is nil.
func logits(tb testing.TB, e *Engine, ids []int32, want []int) map[int][]float32 {
	tb.Helper()
	s := e.NewSequence()
	defer s.Close()
	got := map[int][]float32{}
	err := e.Eval(context.Background(), s, ids, 0, func(i int, l []float32) error {
		if want == nil || slices.Contains(want, i) {
			got[i] = slices.Clone(l)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return got
}

// The index of models.json: see scripts/golden.py.
type goldenModel struct {
	Name, File string
	Tolerance  float64
	Runs       []struct {
		Name      string
		PromptIDs []int32 `json:"prompt_ids"`
		GreedyIDs []int32 `json:"greedy_ids"`
		Rows      []int
		Tensors   struct {
			Logits struct {
				Shape  [2]int
				Offset int
				Bytes  int
			}
		}
	}
}

func goldenModels(tb testing.TB) ([]goldenModel, []byte) {
	tb.Helper()
	var index struct {
		Data  string
		Cases []goldenModel
	}
	raw, err := os.ReadFile(filepath.Join(golden, "models.json"))
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		tb.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(golden, index.Data))
	if err != nil {
		tb.Fatal(err)
	}
	if len(index.Cases) == 0 {
		tb.Fatal("no golden models")
	}
	return index.Cases, data
}

// Tiny models of every architecture give the text and the logits of the oracle,
// which shares no code with this.
func TestGoldenModels(t *testing.T) {
	models, data := goldenModels(t)
	for _, m := range models {
		for _, kv := range []kvcache.Type{kvcache.F16, kvcache.F32, kvcache.I16} {
			t.Run(m.Name+"/"+kv.String(), func(t *testing.T) {
				e := open(t, filepath.Join(golden, m.File), Config{KV: kvcache.Both(kv)})
				tolerance := m.Tolerance
				if kv != kvcache.F32 { // each key and value is off by up to 2^-11 of itself
					tolerance += 2e-3
				}
				for _, run := range m.Runs {
					if got := greedy(t, e, run.PromptIDs, len(run.GreedyIDs)); !slices.Equal(got, run.GreedyIDs) {
						t.Errorf("%s: greedy ids\n got %v\nwant %v", run.Name, got, run.GreedyIDs)
					}
					ids := slices.Concat(run.PromptIDs, run.GreedyIDs)
					got := logits(t, e, ids, run.Rows)
					place := run.Tensors.Logits
					want := f32s(data[place.Offset : place.Offset+place.Bytes])
					worst := 0.0
					for k, row := range run.Rows {
						worst = max(worst, relative(got[row], want[k*place.Shape[1]:(k+1)*place.Shape[1]]))
					}
					if !(worst <= tolerance) {
						t.Errorf("%s: logits off by %.2g of the largest, want at most %.2g", run.Name, worst, tolerance)
					}
				}
			})
		}
	}
}

// relative returns the largest difference, relative to the largest |want|.
func relative(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	largest, diff := 0.0, 0.0
	for i := range want {
		largest = max(largest, math.Abs(float64(want[i])))
		diff = max(diff, math.Abs(float64(got[i])-float64(want[i]))) // NaN stays NaN
	}
	return diff / largest
}

func f32s(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(uint32(b[4*i]) | uint32(b[4*i+1])<<8 | uint32(b[4*i+2])<<16 | uint32(b[4*i+3])<<24)
	}
	return v
}
