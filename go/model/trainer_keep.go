package model

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// bytesOf returns the memory of a buffer.
func (t *Trainer) bytesOf(b kernel.Buf) int {
	return kernel.BufBytes(t.program.bufs[b:b+1], t.room)
}

// toKeep returns the memory of what the backward pass reads of a layer, beside the residual before it.
func (t *Trainer) toKeep(il int) (n int) {
	for _, b := range t.program.layers[il].kept {
		n += t.bytesOf(b)
	}
	return n
}

// Spare is the memory that a Trainer may take to be faster: half of what its budget has left, once the pages of the model's
// file have room too.
func (t *Trainer) Spare() uint64 {
	free := t.budget.Free()
	if t.Adapter.whole == nil {
		free -= min(free, t.m.file.Size())
	}
	return free / 2
}

// Keep has passes that follow keep what the backward pass reads of as many layers as there are this many bytes for, the
// last ones, in place of any that were kept before. It takes nothing where the budget has less.
func (t *Trainer) Keep(most uint64) {
	if t.unrolled != nil { // all is kept, and the model's layers have no backward pass
		return
	}
	t.kept.Close()
	t.kept = &mem.Region{}
	from, n := len(t.layers), 0
	for from > 0 && uint64(n+t.toKeep(from-1)) <= most {
		from--
		n += t.toKeep(from)
	}
	if kept, err := t.budget.Alloc("what layers made", uint64(n)); err == nil {
		t.kept = kept
	} else {
		from = len(t.layers)
	}
	for il, l := range t.layers {
		l.kept = il >= from
	}
	t.place()
}

// Kept returns how many layers the backward pass does not compute again, and the memory for that.
func (t *Trainer) Kept() (layers int, bytes uint64) {
	for _, l := range t.layers {
		if l.kept {
			layers++
		}
	}
	return layers, uint64(len(t.kept.Bytes()))
}

// place makes the places of the residual, and of what is kept of layers. That before the first layer is the buffers' own.
func (t *Trainer) place() {
	for _, b := range t.places {
		b.Close()
	}
	t.places = make([]*kernel.Buffers, len(t.layers)+1)
	residual, size := t.bufs.Memory(t.program.x), t.bytesOf(t.program.x)
	saved, kept := t.saved, t.kept.Bytes()
	for il := range t.places {
		elsewhere := map[kernel.Buf][]byte{t.program.x: residual}
		if il < len(t.layers) && !t.program.frozen {
			residual, saved = saved[:size], saved[size:]
			elsewhere[t.program.after] = residual
			if t.layers[il].kept {
				for _, b := range t.program.layers[il].kept {
					n := t.bytesOf(b)
					elsewhere[b], kept = kept[:n], kept[n:]
				}
			}
		}
		t.places[il] = t.bufs.With(elsewhere)
	}
	t.at = t.places[0]
}
