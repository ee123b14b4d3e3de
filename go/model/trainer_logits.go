package model

import (
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// Logits calls visit with each token of a text that has a weight, by its number, and with the logits that it is predicted by, of the
// whole vocabulary, which are valid during the call; base: without the adapter. Its errors are those of Outcomes, and visit's. It
// is for a Trainer without a Pooling.
func (t *Trainer) Logits(text Text, base bool, stop *kernel.Stop, visit func(i int, logits []float32) error) error {
	switch {
	case t.pooling != nil:
		return errPooled
	case base && !t.HasBase():
		return errNoBase
	}
	if err := t.forward([]Text{text}, base, false, stop); err != nil {
		return err
	}
	x := t.program.logits
	for some := range slices.Chunk(t.rows, t.maxOut) {
		if err := t.pause(stop); err != nil {
			return err
		}
		t.batch.SetOut(some)
		t.run(t.logits)
		for i, at := range some {
			if err := visit(int(at)+1, t.bufs.Row(x.x, i)[:x.width]); err != nil {
				return err
			}
		}
	}
	return t.m.Damaged()
}
