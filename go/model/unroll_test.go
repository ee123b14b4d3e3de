package model

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// headTrainer opens a new head for the model at path for training.
func headTrainer(tb testing.TB, path string, h HeadShape, w Whole, threads int) (*Trainer, error) {
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
	a, err := NewDraftHead(f, h, w, pool, budget)
	if err != nil {
		return nil, err
	}
	t, err := NewTrainer(a.Model(), a, TrainerConfig{Pool: pool, Budget: budget, MaxTokens: 96})
	if err != nil {
		return nil, err
	}
	tb.Cleanup(t.Close)
	return t, nil
}

// Gradients of all weights of a head, through all its steps, are what differences of the loss are.
func TestGradientOfHead(t *testing.T) {
	for _, shape := range []HeadShape{{}, {Tokens: []int32{2, 3, 5, 7, 8, 9, 11, 20, 21, 22, 23, 30, 31, 32, 40, 41, 44, 45, 50, 51, 60}, Seed: 1}} {
		tr, err := headTrainer(t, llamaFile, shape, Whole{}, 2)
		if err != nil {
			t.Fatal(err)
		}
		own, signs := wholeDiffers(t, tr, someTexts(tr.m.Config))
		t.Logf("%v; signs: %v", own, signs)
		if own.share > 0.02 {
			t.Error(own)
		}
		if signs.share > 0.1 {
			t.Errorf("signs: %v", signs)
		}
	}
}

// Gradients of a head are the same bytes for any number of threads and each instruction set.
func TestGradientOfHeadIsTheSameEverywhere(t *testing.T) {
	sameEverywhere(t, "head", func(threads int) []byte {
		tr, err := headTrainer(t, llamaFile, HeadShape{Seed: 3}, Whole{}, threads)
		if err != nil {
			t.Fatal(err)
		}
		return gradientBytes(t, tr)
	})
}

// What a head is trained for is what it does in use: its later steps guess what it guesses there, given its own hidden states and
// the keys of its own guesses. So a text that goes on with these is guessed.
func TestHeadIsTrainedAsItIsUsed(t *testing.T) {
	path := filepath.Join(golden, headed)
	for seed, ids := range [][]int32{nil, {2, 3, 5, 7, 8, 9, 11, 100, 120, 121, 122, 123, 130, 200, 210, 250, 300}} {
		tr, err := headTrainer(t, path, HeadShape{Tokens: ids, Seed: uint64(seed)}, Whole{}, 2)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := tr.Adapter.Write("", tr.Adapter.Numbers()).WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		head := filepath.Join(t.TempDir(), "head.gguf")
		if err := os.WriteFile(head, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		guesses, states, _ := chainOf(t, withHead(t, path, head, Packed), headText, HeadSteps)
		text := Text{Tokens: slices.Clone(headText)}
		for _, g := range guesses {
			text.Tokens = append(text.Tokens, g.ID)
		}
		text.Weights = slices.Repeat([]float32{1}, len(text.Tokens))
		right, err := tr.Guessed(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k := range guesses {
			if !right[k][len(headText)+k] {
				t.Errorf("step %d does not guess %d", k, guesses[k].ID)
			}
			if k+1 < len(guesses) {
				made := tr.bufs.Row(tr.unrolled.hidden[k], len(headText)-2)[:tr.m.Config.NEmbd]
				if !near(made, states[k+1], 2e-4) {
					t.Errorf("step %d: a hidden state %v, in use %v", k, made[:4], states[k+1][:4])
				}
			}
		}
	}
}
