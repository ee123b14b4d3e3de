package kernel

import (
	"slices"
	"testing"
)

// A message has all that a batch of tokens has; what a message does not have is refused.
func TestBatchMessage(t *testing.T) {
	with := func(change func(b *Batch)) ([]byte, error) {
		b, err := NewBatch(8, 2, 4, 1, []Group{{}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		b.SetState(0, alloc(t, 256), 64)
		b.AddSeq([]int32{1, 2})
		b.Source(2)
		b.Add(7, 0)
		b.Add(9, 1)
		change(b)
		return b.AppendTo(nil)
	}
	plain, err := with(func(*Batch) {})
	if err != nil {
		t.Fatal(err)
	}
	to, err := NewBatch(8, 2, 4, 1, []Group{{}})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	to.SetState(0, alloc(t, 256), 64)
	if err := to.Take(plain); err != nil {
		t.Fatal(err)
	}
	if again, err := to.AppendTo(nil); err != nil || !slices.Equal(again, plain) {
		t.Errorf("%v, %d and then %d", err, plain, again)
	}
	row := float32s(16)
	for name, change := range map[string]func(b *Batch){
		"a row":      func(b *Batch) { b.Bring(row) },
		"an adapter": func(b *Batch) { b.Adapt([]int32{0}, []float32{1}) },
		"a place":    func(b *Batch) { b.Place([Axes]int32{1, 2, 3}) },
		"a span":     func(b *Batch) { b.Span(2) },
		"a sight":    func(b *Batch) { b.Sees(0, 1) },
	} {
		if _, err := with(change); err == nil {
			t.Errorf("%s is dropped", name)
		}
	}
}
