package model

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// wholeTrainer opens all weights of the model at path for training.
func wholeTrainer(tb testing.TB, path string, w Whole, threads int) (*Trainer, error) {
	tb.Helper()
	return wholeTrainerOf(tb, path, w, threads, nn.PoolNone)
}

// wholeTrainerOf is wholeTrainer of vectors or scores.
func wholeTrainerOf(tb testing.TB, path string, w Whole, threads int, pooling nn.Pooling) (*Trainer, error) {
	tb.Helper()
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { f.Close() })
	pool, err := kernel.NewPool(threads, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	budget := mem.NewBudget(1<<32, "")
	w.KV = kvF32
	a, err := NewWhole(f, w, pool, budget)
	if err != nil {
		return nil, err
	}
	t, err := NewTrainer(a.Model(), a, TrainerConfig{Pool: pool, Budget: budget, MaxTokens: 96, Pooling: pooling})
	if err != nil {
		return nil, err
	}
	tb.Cleanup(t.Close)
	return t, nil
}

// A slope is how the loss changes along some numbers of a tensor.
type slope struct {
	name               string
	measured, computed float64
	share              float64 // of their difference
}

func (s slope) String() string {
	return fmt.Sprintf("%.4f of the gradient along %s: %.5f measured, %.5f computed", s.share, s.name, s.measured, s.computed)
}

// wholeDiffers compares the gradient with differences of the loss, tensor by tensor: along the tensor's gradient, and along
// random signs, which see what a gradient lacks. It returns where they differ most, as shares of the tensor's gradient and a
// part of the whole one, along signs of what a gradient of that length has along them.
func wholeDiffers(tb testing.TB, t *Trainer, texts []Text) (own, signs slope) {
	tb.Helper()
	a := t.Adapter
	if err := t.Descend(texts, along, nil); err != nil {
		tb.Fatal(err)
	}
	numbers := a.Numbers()
	gradient, was := slices.Clone(a.Gradient()), slices.Clone(numbers)
	total := normOf(gradient)
	rng := rand.New(rand.NewPCG(5, 6))
	every := len(a.whole.weights)/50 + 1
	for i := range a.whole.weights {
		w := &a.whole.weights[i]
		g := gradient[w.at : w.at+w.n]
		length := normOf(g)
		if !w.reached {
			continue
		}
		if length == 0 {
			tb.Errorf("%s has no gradient", w.Name)
		}
		if i%every != 0 {
			continue
		}
		step := 0.01 * min(1, normOf(was[w.at:w.at+w.n]))
		alongNumbers := func(by []float32) (measured, computed float64) {
			size := normOf(by)
			loss := func(h float64) float64 {
				for i, d := range by {
					numbers[w.at+i] = was[w.at+i] + float32(h*float64(d)/size)
				}
				if err := a.Moved(t.pool); err != nil {
					tb.Fatal(err)
				}
				outcomes, err := t.Outcomes(texts, false, nil)
				if err != nil {
					tb.Fatal(err)
				}
				return lossAlong(outcomes)
			}
			measured = (loss(step) - loss(-step)) / (2 * step)
			copy(numbers[w.at:w.at+w.n], was[w.at:])
			for i, d := range by {
				computed += float64(d) / size * float64(g[i])
			}
			return measured, computed
		}
		random := make([]float32, w.n)
		for i := range random {
			random[i] = float32(2*rng.IntN(2) - 1)
		}
		measured, computed := alongNumbers(random)
		if d := math.Abs(measured-computed) * math.Sqrt(float64(w.n)) / (length + 0.005*total); d >= signs.share {
			signs = slope{w.Name, measured, computed, d}
		}
		if length == 0 {
			continue
		}
		measured, computed = alongNumbers(g)
		if d := math.Abs(measured-computed) / (length + 0.05*total); d >= own.share {
			own = slope{w.Name, measured, computed, d}
		}
	}
	return own, signs
}

// Gradients of all weights of models of vectors and scores, by each pooling, are what differences of these are.
func TestGradientOfAllWeightsOfVectors(t *testing.T) {
	for name, of := range pooled(t) {
		t.Run(name, func(t *testing.T) {
			tr, err := wholeTrainerOf(t, of.path, Whole{}, 1, of.kind)
			if err != nil {
				t.Fatal(err)
			}
			texts := someTexts(tr.m.Config)
			if tr.m.Config.NType > 1 {
				texts[0].Second = 20
			}
			own, signs := wholeDiffers(t, tr, texts)
			t.Logf("%v; %v", own, signs)
			if own.share > 0.02 || signs.share > 0.1 {
				t.Errorf("%v; %v", own, signs)
			}
		})
	}
}

// wholeFile has the small models of which all weights are trained.
const wholeFile = "testdata/trained_whole.txt"

// Gradients of all weights of small models of every architecture that can be trained are what differences of the loss are,
// tensor by tensor. The others are refused in a line.
func TestGradientOfAllWeightsOfEveryArchitecture(t *testing.T) {
	var lines []string
	for _, path := range smallModels(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".gguf")
		t.Run(name, func(t *testing.T) {
			tr, err := wholeTrainer(t, path, Whole{}, 1)
			if err != nil {
				if !strings.Contains(err.Error(), "cannot be trained") || strings.Contains(err.Error(), "\n") {
					t.Errorf("refused by %v", err)
				}
				return
			}
			lines = append(lines, name+"\n")
			own, signs := wholeDiffers(t, tr, someTexts(tr.m.Config))
			t.Logf("%v; signs: %v", own, signs)
			if own.share > 0.02 {
				t.Error(own)
			}
			if signs.share > 0.1 {
				t.Errorf("signs: %v", signs)
			}
			keepsTheSame(t, tr, someTexts(tr.m.Config))
		})
	}
	isListed(t, wholeFile, lines)
}

// typed returns a Whole whose matrices have a type.
func typed(typ gguf.Type) Whole {
	return Whole{Type: func(t *gguf.Tensor) gguf.Type {
		if t.Dims[0]%256 != 0 && typ.BlockElems() > 1 {
			return gguf.Q8_0
		}
		return typ
	}}
}

// What is trained is the file that is written: its losses, loaded anew, have the bits of the trainer's, for each type that
// weights are rounded to, also after they moved.
func TestWholeModelIsWhatIsWritten(t *testing.T) {
	for _, typ := range []gguf.Type{gguf.F32, gguf.BF16, gguf.Q4_K} {
		tr, err := wholeTrainer(t, llamaFile, typed(typ), 2)
		if err != nil {
			t.Fatal(err)
		}
		texts := someTexts(tr.m.Config)
		if _, err := tr.Gradient(texts, nil); err != nil {
			t.Fatal(err)
		}
		a := tr.Adapter
		for i, d := range a.Gradient() {
			a.Numbers()[i] -= 0.01 * d
		}
		if err := a.Moved(tr.pool); err != nil {
			t.Fatal(err)
		}
		want, err := tr.Loss(texts, nil)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := a.Write("llama", a.Numbers()).WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "written.gguf")
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		_, again, err := trainer(t, path, LoRA{Rank: 1, Alpha: 1}, 1) // an adapter of zeros changes nothing
		if err != nil {
			t.Fatal(err)
		}
		clear(again.Adapter.Numbers())
		if err := again.Adapter.Moved(again.pool); err != nil {
			t.Fatal(err)
		}
		got, err := again.Loss(texts, nil)
		if err != nil || got != want {
			t.Errorf("%v: a loss of %v, %v in training: %v", typ, got, want, err)
		}
	}
}

// Gradients of all weights are the same bytes for any number of threads and each instruction set.
func TestWholeGradientIsTheSameEverywhere(t *testing.T) {
	for _, typ := range []gguf.Type{gguf.F32, gguf.Q4_K} {
		sameEverywhere(t, typ.String(), func(threads int) []byte {
			tr, err := wholeTrainer(t, llamaFile, typed(typ), threads)
			if err != nil {
				t.Fatal(err)
			}
			return gradientBytes(t, tr)
		})
	}
}

// What weights cannot be rounded to is an error of one line, and so is too little memory.
func TestWholeRefusals(t *testing.T) {
	for _, typ := range []gguf.Type{gguf.IQ1_S, gguf.IQ2_XXS, gguf.Type(9999)} {
		w := Whole{Type: func(*gguf.Tensor) gguf.Type { return typ }}
		if _, err := wholeTrainer(t, llamaFile, w, 1); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: error %v", typ, err)
		}
	}
	f, err := OpenFile(llamaFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := NewWhole(f, Whole{KV: kvF32}, pool, mem.NewBudget(1<<16, "test")); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
}
