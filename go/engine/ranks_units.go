package engine

import (
	"context"
	"io"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
)

// What is saved of a divided model's state is saved by rank 0, which has the folders and the files: units have the parts of
// all ranks there, one after the other. So there is one place where something is saved or is not, and nothing that could
// differ between ranks. The parts of others come and go between passes.

// turnBytes is about how much of that comes or goes between two passes.
const turnBytes = 16 << 20

// asked calls f, which tells other ranks something and waits for their answers, in the device's turn, unless there are none.
func (e *Engine) asked(f func() error) error {
	if e.lead == nil {
		return nil
	}
	e.talk.Lock()
	defer e.talk.Unlock()
	return e.device.inTurn(f)
}

// unitBytes returns the bytes of units on all ranks.
func (e *Engine) unitBytes(units ...kvcache.Unit) (n int) {
	for _, u := range units {
		if e.lead == nil {
			n += e.kv.Layout()[u.Group].Bytes
		} else {
			n += e.lead.UnitBytes(u.Group)
		}
	}
	return n
}

// pageBytes returns the most bytes of a page of the tree on all ranks.
func (e *Engine) pageBytes() uint64 {
	if e.lead == nil {
		return e.tree.PageBytes()
	}
	all := uint64(0)
	for i := range e.kv.Layout() {
		all += uint64(e.unitBytes(kvcache.Unit{Group: i}))
	}
	return all
}

// partsOf cuts memory into the parts of units that ranks have, by unit and rank.
func (e *Engine) partsOf(units []kvcache.Unit, memory []byte) (all [][][]byte) {
	for _, u := range units {
		if e.lead == nil {
			n := e.unitBytes(u)
			all = append(all, [][]byte{memory[:n:n]})
		} else {
			all = append(all, e.lead.Parts(u.Group, memory))
		}
		memory = memory[e.unitBytes(u):]
	}
	return all
}

// gather copies units, whose memory is these pieces, to a memory with room for the parts of all ranks.
func (e *Engine) gather(ctx context.Context, units []kvcache.Unit, pieces [][]byte, memory []byte) (parts [][][]byte, err error) {
	parts = e.partsOf(units, memory)
	for i, of := range e.piecesOf(units, pieces) {
		into := parts[i][0]
		for _, piece := range of {
			into = into[copy(into, piece):]
		}
	}
	return parts, e.asked(func() error { return e.lead.Gather(ctx, units, parts) })
}

// piecesOf returns the pieces of each unit, which are one after the other.
func (e *Engine) piecesOf(units []kvcache.Unit, pieces [][]byte) (all [][][]byte) {
	for _, u := range units {
		k := 0
		for n := e.kv.Layout()[u.Group].Bytes; n > 0; k++ {
			n -= len(pieces[k])
		}
		all, pieces = append(all, pieces[:k]), pieces[k:]
	}
	return all
}

// scatter gives the other ranks their parts of units.
func (e *Engine) scatter(units []kvcache.Unit, parts [][][]byte) error {
	return e.asked(func() error {
		for i, u := range units {
			if err := e.lead.Scatter(u, parts[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachUnits calls f with units that a sequence needs to continue, in their order and about turnBytes at a time, with memory
// for the parts of all ranks.
func (e *Engine) eachUnits(table *kvcache.Table, f func(units []kvcache.Unit, pieces [][]byte, memory []byte) error) error {
	var region *mem.Region
	defer func() {
		if region != nil {
			region.Close()
		}
	}()
	var units []kvcache.Unit
	var pieces [][]byte
	flush := func() error {
		n := e.unitBytes(units...)
		if n == 0 {
			return nil
		}
		if region == nil || len(region.Bytes()) < n {
			if region != nil {
				region.Close()
			}
			var err error
			if region, err = e.device.budget.Alloc("state of all ranks", uint64(n)); err != nil {
				return err
			}
		}
		err := f(units, pieces, region.Bytes()[:n])
		units, pieces = units[:0], pieces[:0]
		return err
	}
	err := table.EachUnit(func(u kvcache.Unit, of [][]byte) error {
		if len(units) > 0 && e.unitBytes(units...)+e.unitBytes(u) > turnBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		units, pieces = append(units, u), append(pieces, of...)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return err
}

// writeState writes the units that a sequence needs to continue.
func (e *Engine) writeState(table *kvcache.Table, w io.Writer) (n int64, err error) {
	write := func(b []byte) error {
		k, err := w.Write(b)
		n += int64(k)
		return err
	}
	if e.lead == nil {
		err = table.Parts(write)
		return n, err
	}
	err = e.eachUnits(table, func(units []kvcache.Unit, pieces [][]byte, memory []byte) error {
		if _, err := e.gather(context.Background(), units, pieces, memory); err != nil {
			return err
		}
		return write(memory)
	})
	return n, err
}

// readState fills them.
func (e *Engine) readState(table *kvcache.Table, r io.Reader) error {
	if e.lead == nil {
		return table.Parts(func(part []byte) error {
			_, err := io.ReadFull(r, part)
			return err
		})
	}
	return e.eachUnits(table, func(units []kvcache.Unit, pieces [][]byte, memory []byte) error {
		if _, err := io.ReadFull(r, memory); err != nil {
			return err
		}
		parts := e.partsOf(units, memory)
		for i, of := range e.piecesOf(units, pieces) {
			from := parts[i][0]
			for _, piece := range of {
				from = from[copy(piece, from):]
			}
		}
		return e.scatter(units, parts)
	})
}
