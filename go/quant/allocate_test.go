package quant_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
)

// An allocation fits its budget, loses less where it is larger, does not depend on threads, and follows weights; what was
// chosen can be written, and is as large as was said.
func TestAllocation(t *testing.T) {
	f := peerModel(t, t.TempDir(), "rows")
	importance, err := someMatrix(f).Importance()
	if err != nil {
		t.Fatal(err)
	}
	allocate := func(threads int) (*quant.Job, *quant.Allocation) {
		j := &quant.Job{From: f, Threads: threads, Importance: importance}
		a, err := quant.NewAllocation(context.Background(), j, quant.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return j, a
	}
	j, a := allocate(1)
	_, b := allocate(3)
	// A layer's matrices are parts of a sum of two to a layer, and the last matrix makes all of the logits.
	last := "token_embd.weight"
	if _, ok := f.Tensor("output.weight"); ok {
		last = "output.weight"
	}
	for _, x := range a.Tensors {
		want := 1.0
		if x.Types[0].Name == last {
			n, err := f.Uint("llama.block_count")
			if want = float64(n); err != nil || n < 2 {
				t.Fatal(n, err)
			}
		}
		if x.Weight != want {
			t.Errorf("%s counts %v, want %v", x.Types[0].Name, x.Weight, want)
		}
	}
	least, most := a.Bounds()
	before := 1e9
	for step := range uint64(9) {
		budget := least + (most-least)*step/8
		j.Choices = a.Fill(budget)
		if got := j.Bytes(); got > budget || step == 0 && got != least || step == 8 && got != most {
			t.Errorf("%d bytes of %d to %d, want at most %d", got, least, most, budget)
		}
		if !slices.Equal(j.Choices, b.Fill(budget)) {
			t.Errorf("%d bytes: other choices with 3 threads", budget)
		}
		loss := 0.0
		for i := range a.Tensors {
			loss += a.Chosen(i).Error
		}
		if loss > before {
			t.Errorf("%d bytes lose %v, fewer %v", budget, loss, before)
		}
		before = loss
	}
	if before != 0 {
		t.Errorf("the largest of all lose %v", before)
	}
	budget := (least + most) / 3
	j.Choices = a.Fill(budget)
	at := slices.IndexFunc(j.Choices, func(c quant.Choice) bool { return c.To != c.Type })
	a.Tensors[at].Weight = 1e6
	if c := a.Fill(budget)[at]; c.To != gguf.F16 {
		t.Errorf("%s counts most of all and is %v", c.Name, c.To)
	}
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := j.WriteShard(context.Background(), &out, 0, 1); err != nil {
		t.Fatal(err)
	}
	if n, err := j.FileBytes(); err != nil || n != uint64(out.Len()) {
		t.Errorf("a file of %d bytes, %d were said, %v", out.Len(), n, err)
	}
}

// With the trellis types there are smaller files, also without an importance matrix, and none loses more at its size.
func TestAllocationOfTrellisTypes(t *testing.T) {
	t.Parallel()
	f := peerModel(t, t.TempDir(), "rows")
	allocate := func(o quant.Options) *quant.Allocation {
		a, err := quant.NewAllocation(context.Background(), &quant.Job{From: f, Threads: 1}, o)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	loss := func(a *quant.Allocation, budget uint64) (sum float64) {
		a.Fill(budget)
		for i := range a.Tensors {
			sum += a.Tensors[i].Weight * a.Chosen(i).Error
		}
		return sum
	}
	plain, more := allocate(quant.Options{}), allocate(quant.Options{Trellis: true})
	least, most := plain.Bounds()
	if fewer, _ := more.Bounds(); fewer >= least {
		t.Errorf("at least %d bytes, without trellis types %d", fewer, least)
	}
	chosen := more.Fill(least)
	if !slices.ContainsFunc(chosen, func(c quant.Choice) bool { return slices.Contains(trellisTypes, c.To) }) {
		t.Error("none is chosen")
	}
	if slices.ContainsFunc(plain.Fill(least), func(c quant.Choice) bool { return slices.Contains(trellisTypes, c.To) }) {
		t.Error("one is chosen that was not asked for")
	}
	for _, budget := range []uint64{least, least + (most-least)/8} {
		if a, b := loss(more, budget), loss(plain, budget); a > b {
			t.Errorf("%d bytes lose %v, without trellis types %v", budget, a, b)
		}
	}
}

var trellisTypes = []gguf.Type{gguf.IQ1_KT, gguf.IQ2_KT, gguf.IQ3_KT, gguf.IQ4_KT}
