package model

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// trainer opens the model at path with an adapter of random numbers, as far as they are small, and a trainer for it.
func trainer(tb testing.TB, path string, l LoRA, threads int) (*Model, *Trainer, error) {
	tb.Helper()
	m, err := load(tb, path, Mapped)
	if err != nil {
		return nil, nil, err
	}
	tb.Cleanup(m.Close)
	pool, err := kernel.NewPool(threads, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	budget := mem.NewBudget(1<<32, "")
	a, err := NewTuned(m, l, budget)
	if err != nil {
		return nil, nil, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range a.Numbers {
		a.Numbers[i] = float32(rng.NormFloat64()) * 0.1
	}
	if err := a.Moved(pool); err != nil {
		tb.Fatal(err)
	}
	t, err := NewTrainer(m, a, TrainerConfig{Pool: pool, Budget: budget, MaxTokens: 96})
	if err != nil {
		return nil, nil, err
	}
	tb.Cleanup(t.Close)
	return m, t, nil
}

// someTexts returns texts of random tokens, of which some have no weight.
func someTexts(vocab int) []Text {
	rng := rand.New(rand.NewPCG(3, 4))
	var texts []Text
	for _, n := range []int{70, 5, 18} {
		x := Text{Tokens: make([]int32, n), Weights: make([]float32, n)}
		for i := range n {
			x.Tokens[i] = int32(rng.IntN(vocab))
			if i%4 != 2 {
				x.Weights[i] = float32(i%3+1) / 2
			}
		}
		texts = append(texts, x)
	}
	return texts
}

// along returns the slope of the loss in a direction, by differences, and by the slopes.
func along(tb testing.TB, t *Trainer, texts []Text, to []float32, step float64) (measured, computed float64) {
	tb.Helper()
	a := t.Adapter
	if _, err := t.Slopes(texts, nil); err != nil {
		tb.Fatal(err)
	}
	for i, d := range a.Slopes {
		computed += float64(d) * float64(to[i])
	}
	was := slices.Clone(a.Numbers)
	at := func(h float64) float64 {
		for i := range a.Numbers {
			a.Numbers[i] = was[i] + float32(h*float64(to[i]))
		}
		if err := a.Moved(t.pool); err != nil {
			tb.Fatal(err)
		}
		loss, err := t.Loss(texts, nil)
		if err != nil {
			tb.Fatal(err)
		}
		return loss
	}
	measured = (at(step) - at(-step)) / (2 * step)
	at(0)
	return measured, computed
}

// The slopes of small models of every architecture that can be trained are those that differences of the loss have: along
// themselves, matrix by matrix. Others are refused by the name of an operation.
func TestSlopesOfEveryArchitecture(t *testing.T) {
	trained := 0
	files, err := filepath.Glob(filepath.Join(testdata.Path(t, "archs"), "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d models: %v", len(files), err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".gguf")
		t.Run(name, func(t *testing.T) {
			m, tr, err := trainer(t, path, LoRA{Rank: 3, Alpha: 4}, 2)
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("an error of several lines: %v", err)
				}
				t.Skip(err)
			}
			trained++
			texts := someTexts(m.Config.NVocab)
			if _, err := tr.Slopes(texts, nil); err != nil {
				t.Fatal(err)
			}
			norm := 0.0
			for _, d := range tr.Adapter.Slopes {
				norm += float64(d) * float64(d)
			}
			to := make([]float32, len(tr.Adapter.Slopes))
			for i, d := range tr.Adapter.Slopes {
				to[i] = d / float32(math.Sqrt(norm))
			}
			measured, computed := along(t, tr, texts, to, 0.02)
			t.Logf("slope %.5f measured, %.5f computed", measured, computed)
			if math.Abs(measured-computed) > 0.03*math.Abs(measured) {
				t.Errorf("slope %.5f measured, %.5f computed", measured, computed)
			}
		})
	}
	if trained < 5 {
		t.Errorf("%d architectures can be trained, want some more", trained)
	}
}

// llamaFile is a model of two layers, of several quantized types.
var llamaFile = filepath.Join(golden, "tiny-llama-mixed.gguf")

// Slopes are the same bytes for any number of threads and each instruction set.
func TestSlopesAreTheSameEverywhere(t *testing.T) {
	defer kernel.Init(kernel.CPU())
	var want []byte
	for _, isa := range kernel.Ladder(kernel.CPU()) {
		kernel.Init(isa)
		for threads := range 3 {
			m, tr, err := trainer(t, llamaFile, LoRA{Rank: 5, Alpha: 4}, threads+1)
			if err != nil {
				t.Fatal(err)
			}
			loss, err := tr.Slopes(someTexts(m.Config.NVocab), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Appendf(nil, "%x %x", loss, tr.Adapter.Slopes)
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%v, %d threads: other slopes", isa, threads+1)
			}
		}
	}
}
