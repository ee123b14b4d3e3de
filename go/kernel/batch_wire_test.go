package kernel

import (
	"slices"
	"testing"
)

// A message has all that a batch has, with rows of so many columns.
func TestBatchMessage(t *testing.T) {
	const columns = 16
	of := func() *Batch {
		b, err := NewBatch(8, 2, 4, 1, []Group{{}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		b.SetState(0, alloc(t, 256), 64)
		return b
	}
	with := func(change func(b *Batch)) []byte {
		b := of()
		b.AddSeq([]int32{1, 2})
		b.Source(2)
		b.Add(7, 0)
		b.Add(9, 1)
		change(b)
		b.AddSeq([]int32{3})
		b.Add(5, 0)
		return b.AppendTo(nil, columns)
	}
	row, rows := float32s(columns+3), float32s(8*columns)
	for i := range row {
		row[i] = float32(i) + 0.5
	}
	plain := with(func(*Batch) {})
	for name, change := range map[string]func(b *Batch){
		"nothing":   func(*Batch) {},
		"a row":     func(b *Batch) { b.Bring(row) },
		"the first": func(b *Batch) { b.BringTo(0, row) },
		"adapters":  func(b *Batch) { b.Adapt([]int32{3, 0}, []float32{1, -2}) },
		"a place":   func(b *Batch) { b.Place([Axes]int32{1, 2, 3}) },
		"a span":    func(b *Batch) { b.Span(2) },
		"a sight":   func(b *Batch) { b.Sees(0, 1) },
	} {
		msg := with(change)
		if name != "nothing" && slices.Equal(msg, plain) {
			t.Errorf("%s is dropped", name)
		}
		to := of()
		clear(rows)
		if err := to.Take(msg, rows, columns); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again := to.AppendTo(nil, columns); !slices.Equal(again, msg) {
			t.Errorf("%s: %d and then %d", name, msg, again)
		}
		for n := range msg {
			if err := to.Take(msg[:n], rows, columns); err == nil {
				t.Errorf("%s: the first %d of %d bytes are taken", name, n, len(msg))
			}
		}
		for _, other := range []int{0, columns - 1} {
			if err := to.Take(msg, rows, other); name != "a row" && name != "the first" != (err == nil) {
				t.Errorf("%s: %d columns: %v", name, other, err)
			}
		}
		for i := range len(msg) / 4 { // no number of another rank is a panic
			for _, n := range []byte{0x7f, 0xff} {
				wrong := slices.Clone(msg)
				wrong[4*i+3] = n
				_ = to.Take(wrong, rows, columns)
			}
		}
	}
}
