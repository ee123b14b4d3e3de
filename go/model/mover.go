package model

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/nn"
)

// ErrShift reports that a model does not support context shift. Errors that wrap it have the reason.
var ErrShift = errors.New("contexts of this model cannot be shifted")

// Shiftable returns nil if keys and values can be moved to other positions in sequences of n: if they depend
// on the position only by rotations, or not at all.
func (s *Survey) Shiftable(n int) error {
	f, err := s.find(Packed)
	if err != nil {
		return err
	}
	switch c := s.Config; {
	case c.OnePass():
		return fmt.Errorf("%w: %s reads a text as a whole", ErrShift, c.Arch)
	case c.Positions:
		return fmt.Errorf("%w: %s has an embedding of each position, which is in all that follows", ErrShift, c.Arch)
	}
	for _, g := range s.Layout {
		if g.PerSequence {
			return fmt.Errorf("%w: %s has recurrent state, from which no token can be taken out", ErrShift, s.Config.Arch)
		}
	}
	for _, ops := range f.program.Blocks() {
		for _, op := range ops {
			a, ok := op.(kernel.Attend)
			switch {
			case ok && a.Chunked:
				return fmt.Errorf("%w: %s sees chunks that begin at multiples of %d positions", ErrShift, s.Config.Arch, a.Window)
			case ok && a.Entries.Every > 0:
				return fmt.Errorf("%w: %s keeps entries that stand for %d positions each", ErrShift, s.Config.Arch, a.Entries.Every)
			}
		}
	}
	if s.Layout.Shiftable(n) < 0 {
		return fmt.Errorf("%w in a context of %d: its windows are larger than the half that is left; give a larger one", ErrShift, n)
	}
	return nil
}

// A Mover moves keys and values to other positions of their sequences, or requantizes them.
type Mover struct {
	groups []*kernel.KeptLayers
}

// NewMover returns a Mover for the model, which must be Shiftable if shifts is set. The caller closes it
// before the model.
func (m *Model) NewMover(shifts bool) (*Mover, error) {
	v := &Mover{}
	for i := range m.Layout {
		kept := keptIn(m.program, i)
		for _, k := range kept {
			if shifts && !k.Turnable() {
				v.Close()
				return nil, fmt.Errorf("%w: some channels of its keys are always 0, as weights of a norm say", ErrShift)
			}
		}
		v.groups = append(v.groups, kernel.NewKeptLayers(kept))
	}
	return v, nil
}

// keptIn returns what the layers of a program store in blocks of a group.
func keptIn(p *nn.Program, group int) (kept []kernel.KeptKV) {
	freqs := map[kernel.Buf][]float64{}
	for _, ops := range slices.Concat([][]kernel.Op{p.Begin}, p.Blocks()) { // blocks that draft may have rotations of their own
		for _, op := range ops {
			if table, ok := op.(kernel.RopeTable); ok {
				freqs[table.Dst] = table.Freqs
			}
		}
	}
	for _, ops := range p.Blocks() {
		for _, op := range ops {
			s, ok := op.(kernel.StoreKV)
			if !ok || s.QueriesOnly {
				continue
			}
			k := s.Kept(freqs[s.Table])
			if s.Group == group {
				kept = append(kept, k)
			}
			for _, t := range s.Tiers {
				if t.Group == group {
					kept = append(kept, k.In(t))
				}
			}
		}
	}
	return kept
}

// unitsOf returns the memory of a group.
type unitsOf func(group int) kernel.Units

func unitsIn(kv *kvcache.Pool) unitsOf {
	return func(group int) kernel.Units { return kernel.Units(kv.Units(group)) }
}

// Move moves the keys and values of a Shift.
func (v *Mover) Move(threads *kernel.Pool, kv *kvcache.Pool, s *kvcache.Shift, end int) {
	v.move(threads, unitsIn(kv), s, end)
}

func (v *Mover) move(threads *kernel.Pool, units unitsOf, s *kvcache.Shift, end int) {
	for i, g := range v.groups {
		g.Shift(threads, units(i), s.To[i], s.From[i], s.At, end, s.By)
	}
}

// Age requantizes blocks of a table to the types of their new groups.
func (v *Mover) Age(threads *kernel.Pool, kv *kvcache.Pool, a *kvcache.Aging) {
	v.age(threads, unitsIn(kv), a.Blocks)
}

func (v *Mover) age(threads *kernel.Pool, units unitsOf, blocks []kvcache.AgedBlock) {
	block := func(group int, id int32) kernel.KeptBlock {
		return kernel.KeptBlock{Layers: v.groups[group], Units: units(group), ID: id}
	}
	for _, b := range blocks {
		threads.Convert(block(b.To, b.New), block(b.From, b.Old))
	}
}

// Close frees the Mover. Closing again is a no-op.
func (v *Mover) Close() {
	for _, g := range v.groups {
		g.Close()
	}
	v.groups = nil
}
