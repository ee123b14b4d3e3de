package model

import (
	"slices"
	"testing"
)

// keepsTheSame compares outcomes and gradients with what layers made kept of none, of some, and of all, to the bit.
func keepsTheSame(tb testing.TB, t *Trainer, texts []Text) {
	tb.Helper()
	all := 0
	for il := range t.layers {
		all += t.toKeep(il)
	}
	var outcomes [][]float64
	judge := func(x [][]float64) ([][]float64, error) {
		outcomes = slices.Clone(x)
		return along(x)
	}
	descend := func() {
		tb.Helper()
		if err := t.Descend(texts, judge, nil); err != nil {
			tb.Fatal(err)
		}
	}
	descend()
	want, gradient := outcomes, slices.Clone(t.Adapter.Gradient())
	last, bytes := len(t.layers)-1, t.Bytes()
	for _, c := range []struct{ most, layers int }{{all, len(t.layers)}, {t.toKeep(last), 1}, {t.toKeep(last) - 1, 0}} {
		t.Keep(uint64(c.most))
		n, size := t.Kept()
		if n != c.layers {
			tb.Errorf("%d layers are kept in %d of %d bytes, want %d", n, c.most, all, c.layers)
		}
		if size > uint64(c.most) || t.Bytes() != bytes+size {
			tb.Errorf("what is kept has %d bytes of %d, may have %d", size, t.Bytes()-bytes, c.most)
		}
		for range 2 { // with what the one before left behind
			descend()
			if !slices.EqualFunc(outcomes, want, slices.Equal) {
				tb.Errorf("other outcomes where %d layers are kept: %v, want %v", n, outcomes, want)
			}
			if !slices.Equal(t.Adapter.Gradient(), gradient) {
				tb.Errorf("another gradient where %d layers are kept", n)
			}
		}
	}
}

// Layers are kept only in memory that the budget has, and what they took is the budget's again.
func TestKeepIsOfTheBudget(t *testing.T) {
	_, tr, err := trainer(t, llamaFile, LoRA{Rank: 3, Alpha: 4}, 1)
	if err != nil {
		t.Fatal(err)
	}
	used := tr.budget.Used()
	keep := func(most uint64, want int) {
		t.Helper()
		tr.Keep(most)
		if n, size := tr.Kept(); n != want || tr.budget.Used() != used+size || (size > 0) != (want > 0) {
			t.Errorf("%d layers are kept, want %d, in %d bytes, of which %d are said", n, want, tr.budget.Used()-used, size)
		}
	}
	keep(1<<40, len(tr.layers))
	keep(0, 0)
	tr.budget.SetLimit(used+tr.m.file.Size()+1000, "test")
	if n := tr.Spare(); n != 500 {
		t.Errorf("%d bytes to spare, want half of 1000", n)
	}
	tr.budget.SetLimit(used+1000, "test")
	if n := tr.Spare(); n != 0 {
		t.Errorf("%d bytes to spare beside the file's pages", n)
	}
	keep(1<<40, 0)
	if tr.Close(); tr.budget.Used() != 0 {
		t.Errorf("%d bytes are used after Close", tr.budget.Used())
	}
}
