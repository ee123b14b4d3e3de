package model

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// Recurrences are divided by heads, and the convolutions before them by columns: each rank has the states of its own.

// A recurrence is how one is divided.
type recurrence struct {
	own   kernel.Own
	reads []operand
	dst   kernel.Buf
	cuts  [][]int // columns of dst
	at    place
	had   int // bytes of the whole state
	has   int // of this rank's
}

// An operand is columns of a buffer that a recurrence reads, and how they are best divided. All: each rank reads them all.
type operand struct {
	buf kernel.Buf
	wish
	all bool
}

// A stateCut is how many bytes a state had, and how many of them a rank does not keep.
type stateCut struct{ had, less int }

// stateName names a state among the matrices that every rank has as a whole.
func stateName(at place) string { return fmt.Sprintf("state %d in group %d", at.offset, at.group) }

// divideHeads divides n heads of dim columns: such that the columns are whole blocks of activations, if there are enough.
func (s *splitting) divideHeads(n, dim int) []int {
	unit := 1
	for unit*dim%kernel.ActBlock != 0 && unit < n {
		unit++
	}
	if n%unit == 0 {
		if cut := s.divide(n / unit); cut != nil {
			return scaled(cut, 0, unit, n)
		}
	}
	return s.divide(n)
}

// apiece is the operand of columns from col on, of heads of dim columns of which each rank has those of a cut.
func apiece(b kernel.Buf, col, dim int, heads []int) operand {
	n := len(heads) - 1
	cut := scaled(heads, col, dim, col+heads[n]*dim)
	return operand{b, wish{cut[0], cut[n], cut, false}, false}
}

// ofKeys is the operand of n heads of dim columns, which every rank reads if there is no cut of them.
func ofKeys(b kernel.Buf, col, dim, n int, cut []int) operand {
	if cut == nil {
		return everywhere(b, col, n*dim)
	}
	return apiece(b, col, dim, cut)
}

// everywhere is the operand of n columns from col on that every rank reads.
func everywhere(b kernel.Buf, col, n int) operand {
	return operand{b, wish{col, col + n, nil, true}, true}
}

// recurrence returns how an operation is divided, if it is a recurrence that can be.
func (s *splitting) recurrence(op kernel.Op) (r recurrence, ok bool) {
	var heads []int
	dim := 0                  // of results
	var bytes func(n int) int // of n heads
	switch op := op.(type) {
	case kernel.Scan:
		op = byChannels(op)
		n, groups := op.NHead, []int(nil)
		if op.NGroup > 1 && op.StateDim%kernel.Panel == 0 {
			groups = s.divideHeads(op.NGroup, n/op.NGroup*op.HeadDim)
		}
		if heads = scaled(groups, 0, n/op.NGroup, n); heads == nil && op.NGroup == 1 {
			heads = s.divideHeads(n, op.HeadDim)
		}
		if heads == nil {
			return r, false
		}
		r.reads = append(r.reads, apiece(op.Src, op.Col[0], op.HeadDim, heads))
		for _, col := range op.Col[1:] {
			r.reads = append(r.reads, ofKeys(op.Src, col, op.StateDim, op.NGroup, groups))
		}
		if op.ByChannel {
			r.reads = append(r.reads, apiece(op.Steps, op.StepCol, op.HeadDim, heads))
		} else {
			r.reads = append(r.reads, everywhere(op.Steps, op.StepCol, n))
		}
		r.dst, r.at, dim = op.Dst, place{op.Group, op.Offset}, op.HeadDim
		bytes = func(n int) int { return kernel.ScanBytes(n, op.StateDim, op.HeadDim) }
	case kernel.Delta:
		each := op.NHead / op.NHeadKey
		keys := []int(nil)
		if op.KeyDim%kernel.Panel == 0 {
			keys = s.divideHeads(op.NHeadKey, each*op.ValueDim)
		}
		apart := op.Tiled && each > 1 // the values of a key are not neighbours
		if heads = scaled(keys, 0, each, op.NHead); apart || keys == nil {
			heads = s.divideHeads(op.NHead, op.ValueDim)
		}
		if heads == nil {
			return r, false
		}
		for _, col := range op.Col[:2] {
			x := ofKeys(op.Src, col, op.KeyDim, op.NHeadKey, keys)
			x.all = x.all || apart
			r.reads = append(r.reads, x)
		}
		r.reads = append(r.reads, apiece(op.Src, op.Col[2], op.ValueDim, heads))
		if op.ByChannel {
			r.reads = append(r.reads, everywhere(op.Gates, 0, op.GateHeads), ofKeys(op.Gates, op.GateHeads, op.KeyDim, op.NHead, keys))
		} else {
			r.reads = append(r.reads, everywhere(op.Gates, 0, s.p.Bufs[op.Gates].Width))
		}
		r.dst, r.at, dim = op.Dst, place{op.Group, op.Offset}, op.ValueDim
		bytes = func(n int) int { return kernel.DeltaBytes(n, op.KeyDim, op.ValueDim) }
	case kernel.WKV:
		if heads = s.divideHeads(op.NHead, op.HeadDim); heads == nil {
			return r, false
		}
		for _, col := range op.Col {
			r.reads = append(r.reads, apiece(op.Src, col, op.HeadDim, heads))
		}
		width := op.NHead * op.HeadDim
		r.reads = append(r.reads, apiece(op.Gates, 0, op.HeadDim, heads), apiece(op.Gates, width, op.HeadDim, heads))
		r.cuts = [][]int{scaled(heads, width, op.HeadDim, 2*width)}
		r.dst, r.at, dim = op.Dst, place{op.Group, op.Offset}, op.HeadDim
		bytes = func(n int) int { return kernel.WKVBytes(n, op.HeadDim) }
	case kernel.Decay:
		each := op.NHead / op.NHeadKey
		keys := s.divideHeads(op.NHeadKey, each*op.HeadDim)
		if heads = scaled(keys, 0, each, op.NHead); keys == nil {
			heads = s.divideHeads(op.NHead, op.HeadDim)
		}
		if heads == nil {
			return r, false
		}
		r.reads = append(r.reads, apiece(op.Src, op.Col[0], op.HeadDim, heads), apiece(op.Decays, 0, op.HeadDim, heads))
		for _, col := range op.Col[1:] {
			r.reads = append(r.reads, ofKeys(op.Src, col, op.HeadDim, op.NHeadKey, keys))
		}
		r.dst, r.at, dim = op.Dst, place{op.Group, op.Offset}, op.HeadDim
		bytes = func(n int) int { return kernel.WKVBytes(n, op.HeadDim) }
	default:
		return r, false
	}
	n := heads[s.n]
	r.own = kernel.Own{From: heads[s.rank], To: heads[s.rank+1]}
	r.cuts = append(r.cuts, scaled(heads, 0, dim, n*dim))
	r.had, r.has = bytes(n), bytes(r.own.To-r.own.From)
	return r, !s.whole[stateName(r.at)]
}

// byChannels returns a scan of one head by channels as one of as many heads as it has panels, which is the same.
func byChannels(op kernel.Scan) kernel.Scan {
	if op.ByChannel && op.NHead == 1 {
		op.NHead, op.HeadDim = op.HeadDim/kernel.Panel, kernel.Panel
	}
	return op
}

// recur computes this rank's heads.
func (s *splitting) recur(op kernel.Op) {
	r, ok := s.recurrence(op)
	if !ok || !s.keeps(r.at, r.had, r.has) {
		s.each(op)
		return
	}
	s.exchange(kernel.Everyone, func(x portion) bool {
		return slices.ContainsFunc(r.reads, func(o operand) bool {
			mine := !o.all && slices.Equal(x.Cut, o.cut) && !x.apart
			return x.Dst == o.buf && x.from() < o.to && o.from < x.to() && !mine
		})
	})
	switch o := op.(type) {
	case kernel.Scan:
		o = byChannels(o)
		o.Own = r.own
		op = o
	case kernel.Delta:
		o.Own = r.own
		op = o
	case kernel.WKV:
		o.Own = r.own
		op = o
	case kernel.Decay:
		o.Own = r.own
		op = o
	}
	for _, cut := range r.cuts {
		s.written(r.dst, cut[0], cut[s.n])
	}
	s.out = append(s.out, op)
	for _, cut := range r.cuts {
		s.has(r.dst, kernel.NoBuf, cut, false)
	}
}

// keeps records that this rank keeps so many bytes of a state, and reports whether it can: all operations on a state are
// divided alike.
func (s *splitting) keeps(at place, had, has int) bool {
	name := stateName(at)
	if old, ok := s.states[at]; ok && old != (stateCut{had, had - has}) {
		s.clashes[name] = true
	}
	if s.whole[name] {
		has = had
	}
	s.states[at] = stateCut{had, had - has}
	return has < had
}

// A segment is columns of a buffer that are one portion, or, where that is nil, that every rank has.
type segment struct {
	from, to int
	of       *portion
}

// segments returns columns of a buffer as segments; nil if a portion reaches beyond them, or is not in its place.
func (s *splitting) segments(b kernel.Buf, from, to int) (all []segment) {
	for i := range s.portions {
		if x := &s.portions[i]; x.Dst == b && x.from() < to && from < x.to() {
			if x.apart || x.from() < from || x.to() > to {
				return nil
			}
			all = append(all, segment{x.from(), x.to(), x})
		}
	}
	slices.SortFunc(all, func(a, b segment) int { return a.from - b.from })
	at := from
	for i := 0; i < len(all); i++ {
		if x := all[i]; x.from > at {
			all = slices.Insert(all, i, segment{at, x.from, nil})
			i++
		}
		at = all[i].to
	}
	if at < to {
		all = append(all, segment{at, to, nil})
	}
	return all
}

// conv computes the columns of which this rank has the inputs, each segment of them apart.
func (s *splitting) conv(op kernel.Conv) {
	parts := s.convolved(op)
	if parts == nil || op.Results > 1 {
		s.each(op)
		return
	}
	at, had, has := place{op.Group, op.Offset}, kernel.ConvBytes(op.Cols, op.Taps), 0
	for _, x := range parts {
		from, to := s.ownOf(x)
		has += kernel.ConvBytes(to-from, op.Taps)
	}
	if op.Ahead == 0 && !s.keeps(at, had, has) {
		s.each(op)
		return
	}
	for _, x := range parts {
		s.written(op.Dst, x.from, x.to)
		op.From, op.To = s.ownOf(x)
		s.out = append(s.out, op)
		op.Offset += kernel.ConvBytes(op.To-op.From, op.Taps)
		if x.cut != nil {
			s.has(op.Dst, kernel.NoBuf, x.cut, false)
		}
	}
}

// ownOf returns the columns of a wish that are this rank's.
func (s *splitting) ownOf(x wish) (from, to int) {
	if x.cut == nil {
		return x.from, x.to
	}
	return x.cut[s.rank], x.cut[s.rank+1]
}

// convolved returns how the columns of a convolution are divided, as its inputs are; nil: they are not.
func (s *splitting) convolved(op kernel.Conv) (all []wish) {
	inputs := op.Col[:1]
	if op.Gated {
		inputs = op.Col[:]
	}
	divided := false
	for k, col := range inputs {
		var parts []wish
		for _, x := range s.segments(op.Src, col, col+op.Cols) {
			w := wish{from: x.from - col, to: x.to - col, whole: x.of == nil}
			if x.of != nil {
				w.cut, divided = scaled(x.of.Cut, -col, 1, x.to-col), true
			}
			parts = append(parts, w)
		}
		if k > 0 && !slices.EqualFunc(parts, all, func(a, b wish) bool { return a.from == b.from && slices.Equal(a.cut, b.cut) }) {
			return nil
		}
		all = parts
	}
	if !divided {
		return nil
	}
	return all
}

// stateWishes returns how columns of a buffer that is about to be written are best divided for the recurrence that comes
// next: for what it reads, also by a convolution, and for what its results are multiplied by.
func (s *splitting) stateWishes(ops []kernel.Op, i int, b kernel.Buf, from, to int) (all []wish) {
	k := i + slices.IndexFunc(ops[i:], func(op kernel.Op) bool { _, ok := s.recurrence(op); return ok })
	if k < i {
		return s.gatedWishes(ops[i:], b, from, to)
	}
	r, _ := s.recurrence(ops[k])
	add := func(w wish, by int) {
		if w.from+by < from || w.to+by > to {
			return
		}
		w = wish{w.from + by, w.to + by, scaled(w.cut, by, 1, w.to+by), w.whole}
		if !slices.ContainsFunc(all, func(o wish) bool { return o.from < w.to && w.from < o.to }) {
			all = append(all, w)
		}
	}
	for _, x := range r.reads {
		if x.buf == b {
			add(x.wish, 0)
		}
		for _, op := range ops[i:k] {
			switch op := op.(type) {
			case kernel.Conv:
				if op.Dst == x.buf && op.Src == b && !op.Gated && x.to <= op.Cols {
					add(x.wish, op.Col[0])
				}
			case kernel.Blend:
				if op.Dst == x.buf && op.By == b && op.DstCol <= x.from && x.to <= op.DstCol+op.Cols {
					add(x.wish, op.ByCol-op.DstCol)
				}
			}
		}
	}
	for _, op := range ops[k+1:] {
		if g, ok := op.(kernel.Gate); ok && g.Dst == r.dst && g.Src == b && g.Segs == 0 && !g.ByRow {
			for _, cut := range r.cuts {
				if cut[0] == g.DstCol && cut[s.n] == g.DstCol+g.Cols {
					add(wish{cut[0], cut[s.n], cut, false}, g.SrcCol-g.DstCol)
				}
			}
		}
		if _, again := s.recurrence(op); again {
			break
		}
	}
	if !slices.ContainsFunc(all, func(w wish) bool { return w.cut != nil }) {
		return nil
	}
	slices.SortFunc(all, func(a, b wish) int { return a.from - b.from })
	return withRest(all, from, to)
}

// gatedWishes is stateWishes for a convolution with gates, of which nothing but that is recurrent.
func (s *splitting) gatedWishes(ops []kernel.Op, b kernel.Buf, from, to int) (all []wish) {
	for _, op := range ops {
		c, ok := op.(kernel.Conv)
		if !ok || c.Src != b || !c.Gated {
			continue
		}
		cut := s.units(0, c.Cols, kernel.ActBlock)
		if cut == nil {
			cut = s.units(0, c.Cols, kernel.Panel)
		}
		if cut == nil {
			return nil
		}
		for _, col := range slices.Sorted(slices.Values(c.Col[:])) {
			if w := scaled(cut, col, 1, col+c.Cols); col >= from && w[s.n] <= to {
				all = append(all, wish{w[0], w[s.n], w, false})
			}
		}
		return withRest(all, from, to)
	}
	return nil
}

// withRest adds to wishes what is between them, which every rank needs, and joins such that are neighbours.
func withRest(wishes []wish, from, to int) (all []wish) {
	at := from
	for _, w := range append(wishes, wish{from: to, to: to}) {
		for _, x := range []wish{{at, w.from, nil, true}, w} {
			last := len(all) - 1
			switch {
			case x.from == x.to:
			case x.cut == nil && last >= 0 && all[last].cut == nil:
				all[last].to = x.to
			default:
				all = append(all, x)
			}
		}
		at = w.to
	}
	return all
}

// blend moves this rank's columns.
func (s *splitting) blend(op kernel.Blend) {
	x := s.find(op.Dst, op.DstCol, op.DstCol+op.Cols)
	if x == nil {
		s.each(op)
		return
	}
	cut, own := x.Cut, x.Own
	op.SrcCol, _ = s.at(op.Src, scaled(cut, op.SrcCol-op.DstCol, 1, op.SrcCol+op.Cols))
	op.ByCol, _ = s.at(op.By, scaled(cut, op.ByCol-op.DstCol, 1, op.ByCol+op.Cols))
	op.DstCol, op.Cols = own, cut[s.rank+1]-cut[s.rank]
	s.out = append(s.out, op)
}
