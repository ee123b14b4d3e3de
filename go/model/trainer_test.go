package model

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

var updateTrained = flag.Bool("update-trained", false, "write the list of models that are trained, and of those that are refused")

// trainer opens the model at path with an adapter of random numbers, as far as they are small, and a trainer for it: of the mean
// of vectors, if it makes no logits.
func trainer(tb testing.TB, path string, l LoRA, threads int) (*Model, *Trainer, error) {
	tb.Helper()
	return trainerOf(tb, path, l, threads, nn.PoolNone)
}

func trainerOf(tb testing.TB, path string, l LoRA, threads int, pooling nn.Pooling) (*Model, *Trainer, error) {
	tb.Helper()
	m, err := load(tb, path, Mapped)
	if err != nil {
		return nil, nil, err
	}
	tb.Cleanup(m.Close)
	t, err := trainerFor(tb, m, l, threads, pooling)
	return m, t, err
}

// trainerFor is trainerOf for a model that is open.
func trainerFor(tb testing.TB, m *Model, l LoRA, threads int, pooling nn.Pooling) (*Trainer, error) {
	tb.Helper()
	pool, err := kernel.NewPool(threads, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	budget := mem.NewBudget(1<<32, "")
	l.Classifier = pooling == nn.PoolRank
	a, err := NewTuned(m, l, budget)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range a.Numbers()[:a.plain] {
		a.Numbers()[i] = float32(rng.NormFloat64()) * 0.1
	}
	for i := range a.Numbers()[a.plain:] { // magnitudes: rows become of other lengths
		a.Numbers()[a.plain+i] *= 1 + 0.2*float32(rng.NormFloat64())
	}
	if err := a.Moved(pool); err != nil {
		tb.Fatal(err)
	}
	c := TrainerConfig{Pool: pool, Budget: budget, MaxTokens: 96, Pooling: pooling}
	if pooling == nn.PoolNone && !m.Has(nn.Logits) {
		c.Pooling = nn.PoolMean
	}
	t, err := NewTrainer(m, a, c)
	if err != nil {
		return nil, err
	}
	tb.Cleanup(t.Close)
	return t, nil
}

// someTexts returns texts of random tokens, of which some have no weight.
func someTexts(c *Config) []Text {
	rng := rand.New(rand.NewPCG(3, 4))
	var texts []Text
	for _, n := range []int{70, 5, 18} {
		x := Text{Tokens: make([]int32, n), Weights: make([]float32, n)}
		for i := range n {
			x.Tokens[i] = int32(rng.IntN(c.NVocab))
			if never := c.Suppressed; i%4 != 2 && (int(x.Tokens[i]) < never[0] || int(x.Tokens[i]) >= never[1]) {
				x.Weights[i] = float32(i%3+1) / 2
			}
		}
		texts = append(texts, x)
	}
	return texts
}

// along is the gradients of a loss that is linear in the outcomes of texts: of the losses of tokens their sum.
func along(outcomes [][]float64) ([][]float64, error) {
	by := make([][]float64, len(outcomes))
	for i, x := range outcomes {
		by[i] = []float64{1}
		for j := 0; j < len(x) && len(x) > 1; j++ {
			by[i] = append(by[i][:j], math.Sin(float64(7*i+j*j)))
		}
	}
	return by, nil
}

func normOf(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// lossAlong returns the loss whose gradients along are.
func lossAlong(outcomes [][]float64) (sum float64) {
	by, _ := along(outcomes)
	for i, x := range outcomes {
		for j, v := range x {
			sum += v * by[i][j]
		}
	}
	return sum
}

// differs compares the gradient, along each matrix of the adapter by itself, with differences of the loss, and returns the
// largest difference as a share of the whole gradient's norm, and the name of that matrix.
func differs(tb testing.TB, t *Trainer, texts []Text) (most float64, where string) {
	tb.Helper()
	a := t.Adapter
	if err := t.Descend(texts, along, nil); err != nil {
		tb.Fatal(err)
	}
	numbers := a.Numbers()
	gradient, was := slices.Clone(a.Gradient()), slices.Clone(numbers)
	total, at := normOf(gradient), 0
	if total == 0 {
		tb.Fatal("no gradient at all")
	}
	type part struct {
		name string
		n    int
	}
	var parts []part
	for _, name := range a.names {
		parts = append(parts, part{name + " A", len(a.low[name].a)}, part{name + " B", len(a.low[name].b)})
	}
	for _, name := range a.names {
		if x := a.low[name].turned; x != nil {
			parts = append(parts, part{name + " magnitudes", len(x.m)})
		}
	}
	if a.head != nil {
		for _, w := range a.head.weights {
			parts = append(parts, part{w.Name, w.n})
		}
	}
	every := len(parts)/40 | 1 // of deep models fewer matrices, As and Bs in turn
	for number, part := range parts {
		own := gradient[at : at+part.n]
		if (number+1)%every != 0 {
			at += part.n
			continue
		}
		length := normOf(own)
		if length == 0 {
			tb.Errorf("%s has no gradient", part.name)
			at += part.n
			continue
		}
		loss := func(h float64) float64 {
			for i, d := range own {
				numbers[at+i] = was[at+i] + float32(h*float64(d)/length)
			}
			if err := a.pack(t.pool); err != nil { // lengths stay: the gradient has them as constants
				tb.Fatal(err)
			}
			if a.head != nil {
				if err := a.head.moved(numbers, 1); err != nil {
					tb.Fatal(err)
				}
			}
			outcomes, err := t.Outcomes(texts, false, nil)
			if err != nil {
				tb.Fatal(err)
			}
			return lossAlong(outcomes)
		}
		d, measured := math.Inf(1), 0.0
		for step := 0.02; step > 1e-5 && d > 0.005; step /= 5 { // on a way of some length experts are chosen anew
			by := (loss(step) - loss(-step)) / (2 * step)
			if off := math.Abs(by-length) / total; off < d {
				d, measured = off, by
			}
		}
		copy(numbers[at:at+part.n], was[at:])
		if d >= most {
			most, where = d, fmt.Sprintf("%s: %.5f measured, %.5f computed, of %.5f", part.name, measured, length, total)
		}
		at += part.n
	}
	return most, where
}

// isListed compares lines of what is trained, in any order, with a file, which -update-trained writes.
func isListed(t *testing.T, path string, lines []string) {
	t.Helper()
	slices.Sort(lines)
	got := strings.Join(lines, "")
	if *updateTrained {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("what is trained differs from %s, which -update-trained writes (%v):\n%s", path, err, got)
	}
}

// trainedFile says of each small model whether it is trained, or the error that refuses it.
const trainedFile = "testdata/trained.txt"

// Gradients of small models of every architecture that can be trained are what differences of the loss are, matrix by
// matrix. The others are refused by an error that is as the list has it.
func TestGradientOfEveryArchitecture(t *testing.T) {
	var lines []string
	for _, path := range smallModels(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".gguf")
		t.Run(name, func(t *testing.T) {
			m, tr, err := trainer(t, path, LoRA{Rank: 3, Alpha: 4}, 1)
			if err != nil {
				lines = append(lines, fmt.Sprintf("%s: refused: %v\n", name, err))
				return
			}
			lines = append(lines, name+": trained\n")
			most, where := differs(t, tr, someTexts(m.Config))
			t.Logf("%.4f of the gradient at most: %s", most, where)
			if most > 0.02 {
				t.Errorf("%.4f of the gradient: %s", most, where)
			}
			keepsTheSame(t, tr, someTexts(m.Config))
			servesWhatIsTrained(t, m, tr)
		})
	}
	isListed(t, trainedFile, lines)
}

// llamaFile is a model of two layers, of several quantized types.
var llamaFile = filepath.Join(golden, "tiny-llama-mixed.gguf")

// gradientBytes returns the loss of some texts and its gradient, to compare.
func gradientBytes(t *testing.T, tr *Trainer) []byte {
	t.Helper()
	loss, err := tr.Gradient(someTexts(tr.m.Config), nil)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "%x %x", loss, tr.Adapter.Gradient())
}

// sameEverywhere compares what is computed with each instruction set, by one thread and by several.
func sameEverywhere(t *testing.T, what string, compute func(threads int) []byte) {
	t.Helper()
	defer kernel.Init(kernel.CPU())
	var want []byte
	for _, isa := range kernel.Ladder(kernel.CPU()) {
		kernel.Init(isa)
		for threads := 1; threads <= 3; threads++ {
			got := compute(threads)
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s, %v, %d threads: other gradients", what, isa, threads)
			}
		}
	}
}

// Gradients are the same bytes for any number of threads and each instruction set.
func TestGradientIsTheSameEverywhere(t *testing.T) {
	for _, path := range []string{llamaFile, testdata.Path(t, "archs/modern-bert.gguf"), testdata.Path(t, "archs/gpt-oss.gguf")} {
		sameEverywhere(t, path, func(threads int) []byte {
			m, tr, err := trainer(t, path, LoRA{Rank: 5, Alpha: 4}, threads)
			if err != nil {
				t.Fatal(err)
			}
			var outcomes [][]float64
			judge := func(x [][]float64) ([][]float64, error) {
				outcomes = x
				return along(x)
			}
			if err := tr.Descend(someTexts(m.Config), judge, nil); err != nil {
				t.Fatal(err)
			}
			return fmt.Appendf(nil, "%x %x", outcomes, tr.Adapter.Gradient())
		})
	}
}

// Descend by the sum of losses is Gradient, to the bit.
func TestDescendOfLossesIsGradient(t *testing.T) {
	m, tr, err := trainer(t, llamaFile, LoRA{Rank: 5, Alpha: 4}, 2)
	if err != nil {
		t.Fatal(err)
	}
	texts := someTexts(m.Config)
	loss, err := tr.Gradient(texts, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := tr.Loss(texts, nil); again != loss {
		t.Errorf("loss %v, then %v: %v", loss, again, err)
	}
	want := slices.Clone(tr.Adapter.Gradient())
	if err := tr.Descend(texts, along, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(tr.Adapter.Gradient(), want) {
		t.Error("another gradient")
	}
}

// A text that is longer than the model's table of positions is an error, and no access beyond it.
func TestTextLongerThanPositions(t *testing.T) {
	m, tr, err := trainer(t, "testdata/archs/gpt2.gguf", LoRA{Rank: 3, Alpha: 4}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if tr.MaxText() != min(96, m.Config.NCtx) {
		t.Errorf("texts of %d tokens, of a model with %d positions", tr.MaxText(), m.Config.NCtx)
	}
	m.Config.NCtx = 20 // as if the table were short
	x := Text{Tokens: make([]int32, 21), Weights: make([]float32, 21)}
	if _, err := tr.Loss([]Text{x}, nil); err == nil || !strings.Contains(err.Error(), "positions") {
		t.Errorf("error %v", err)
	}
}

// Texts that take more KV blocks than a chunk has are an error, as many short ones do.
func TestChunkIsBoundedByBlocks(t *testing.T) {
	_, tr, err := trainer(t, llamaFile, LoRA{Rank: 3, Alpha: 4}, 1)
	if err != nil {
		t.Fatal(err)
	}
	x := Text{Tokens: []int32{1, 2}, Weights: []float32{0, 1}}
	if tr.MaxBlocks() != 4 {
		t.Errorf("%d blocks for %d tokens, want 4", tr.MaxBlocks(), tr.MaxTokens())
	}
	if _, err := tr.Loss(slices.Repeat([]Text{x}, 4), nil); err != nil {
		t.Error(err)
	}
	if _, err := tr.Loss(slices.Repeat([]Text{x}, 5), nil); err == nil || !strings.Contains(err.Error(), "blocks") {
		t.Errorf("error %v", err)
	}
}

// A token that the model never generates cannot be learnt.
func TestSuppressedTokenIsNotLearnt(t *testing.T) {
	m, tr, err := trainer(t, "testdata/archs/chameleon.gguf", LoRA{Rank: 3, Alpha: 4}, 1)
	if err != nil {
		t.Fatal(err)
	}
	x := Text{Tokens: []int32{0, int32(m.Config.Suppressed[0])}, Weights: []float32{0, 1}}
	if _, err := tr.Loss([]Text{x}, nil); !errors.Is(err, ErrToken) {
		t.Errorf("error %v", err)
	}
}

// An adapter whose term would be nothing, or no number, is refused in a line.
func TestAdapterRefusals(t *testing.T) {
	for _, l := range []LoRA{
		{}, {Rank: 4}, {Rank: 4, Alpha: -1}, {Rank: 4, Alpha: math.NaN()}, {Rank: 4, Alpha: math.Inf(1)}, {Rank: 4, Alpha: 1e-60},
		{Rank: 1 << 20, Alpha: 1}, {Rank: 4, Alpha: 1, Targets: []string{"attn_z"}},
	} {
		if _, _, err := trainer(t, llamaFile, l, 1); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: error %v", l, err)
		}
	}
}

// Others may use the pool between two layers, and change its threads: there is memory for as many as there are then, and the
// bits stay.
func TestThreadsChangeBetweenLayers(t *testing.T) {
	m, tr, err := trainer(t, llamaFile, LoRA{Rank: 4, Alpha: 8}, 1)
	if err != nil {
		t.Fatal(err)
	}
	texts := someTexts(m.Config)
	loss, err := tr.Gradient(texts, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, bytes, calls := slices.Clone(tr.Adapter.Gradient()), tr.Bytes(), 0
	tr.between = func() {
		calls++
		if err := tr.pool.Resize(1+calls%4, nil); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := tr.Gradient(texts, nil); err != nil || again != loss || !slices.Equal(tr.Adapter.Gradient(), want) {
		t.Errorf("loss %v, %v, want %v, or another gradient", again, err, loss)
	}
	if layers := len(tr.layers); calls < 2*layers {
		t.Errorf("others could use the pool %d times, want twice in each of %d layers", calls, layers)
	}
	if tr.Bytes() <= bytes {
		t.Errorf("%d bytes for 4 threads, %d for one", tr.Bytes(), bytes)
	}
	tr.budget.SetLimit(tr.budget.Used(), "test")
	tr.between = func() {
		if err := tr.pool.Resize(9, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tr.Gradient(texts, nil); !errors.As(err, new(*mem.LimitError)) {
		t.Errorf("no memory for 9 threads: error %v", err)
	}
}
