package model

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// A place is where an operation keeps something, in the units of a group.
type place struct{ group, offset int }

// A keptCut is how the attention over the keys and values of a place is divided.
type keptCut struct {
	heads   []int // query heads
	kvHeads []int // kv heads; nil: every rank has them all
	shape   kernel.Heads
}

func keptAt(h kernel.Heads) place { return place{h.Group, h.KVOffset} }

func valueDim(h kernel.Heads) int { return cmp.Or(h.ValueDim, h.HeadDim) }

// divideKV finds out which keys and values are divided by heads: those whose readers all can be.
func (s *splitting) divideKV(p *nn.Program) {
	s.kv = map[place]*keptCut{}
	cannot := map[place]bool{}
	lists := slices.Concat([][]kernel.Op{p.Begin}, p.Encoder, p.Blocks())
	note := func(h kernel.Heads, can bool) {
		at := keptAt(h)
		k := s.kv[at]
		if k == nil {
			k = s.keptCut(h)
			s.kv[at] = k
		}
		if k == nil || !can || k.shape.NHead != h.NHead || k.shape.NHeadKV != h.NHeadKV || k.shape.HeadDim != h.HeadDim ||
			valueDim(k.shape) != valueDim(h) || !slices.Equal(k.shape.Tiers, h.Tiers) {
			cannot[at] = true
		}
	}
	for _, ops := range lists {
		for _, op := range ops {
			switch op := op.(type) {
			case kernel.StoreKV:
				note(op.Heads, true)
			case kernel.Attend:
				note(op.Heads, op.Relative.At == nil && !(op.Best > 0 && op.Apart))
			case kernel.Select:
				if op.Entries.Every == 0 {
					cannot[keptAt(op.Heads)] = true
				}
			}
		}
	}
	for at := range cannot {
		delete(s.kv, at)
	}
}

// keptCut returns how attention of this shape is divided, nil if it is not. Queries of a kv head stay together, since the
// factors of its channels are made of all of them.
func (s *splitting) keptCut(h kernel.Heads) *keptCut {
	k := &keptCut{shape: h}
	if h.NHeadKV > 1 {
		k.kvHeads = s.divide(h.NHeadKV)
		k.heads = scaled(k.kvHeads, 0, h.NHead/h.NHeadKV, h.NHead)
	} else if h.InKeys || !h.KV.K.Integer() && !h.KV.V.Integer() && len(h.Tiers) == 0 {
		k.heads = s.divide(h.NHead)
	}
	if k.heads == nil || !multiplesOf(h.HeadDim, k.heads) || !multiplesOf(valueDim(h), k.heads) ||
		!multiplesOf(h.HeadDim, k.kvHeads) || !multiplesOf(valueDim(h), k.kvHeads) {
		return nil
	}
	return k
}

// multiplesOf reports whether columns of heads begin at whole panels.
func multiplesOf(dim int, heads []int) bool {
	return !slices.ContainsFunc(heads, func(h int) bool { return h*dim%kernel.Panel != 0 })
}

// columns returns how the columns of queries, keys and values are divided; nil: every rank has them all.
func (k *keptCut) columns(h kernel.Heads) (all [3][]int) {
	d, v := h.HeadDim, valueDim(h)
	all[0] = scaled(k.heads, h.Col[0], d, h.Col[0]+h.NHead*d)
	all[1] = scaled(k.kvHeads, h.Col[1], d, h.Col[1]+h.NHeadKV*d)
	all[2] = scaled(k.kvHeads, h.Col[2], v, h.Col[2]+h.NHeadKV*v)
	return all
}

// of returns the shape of this rank's part.
func (s *splitting) of(k *keptCut, h kernel.Heads) kernel.Heads {
	h.NHead = k.heads[s.rank+1] - k.heads[s.rank]
	if k.kvHeads != nil {
		h.NHeadKV = k.kvHeads[s.rank+1] - k.kvHeads[s.rank]
	}
	return h
}

// ofKVHeads returns this rank's part of a vector with n numbers for each kv head.
func (s *splitting) ofKVHeads(k *keptCut, v []float32, n int) []float32 {
	if k.kvHeads == nil {
		return v
	}
	return within(v, k.kvHeads[s.rank]*n, (k.kvHeads[s.rank+1]-k.kvHeads[s.rank])*n)
}

// storeKV stores the keys and values of this rank's heads.
func (s *splitting) storeKV(op kernel.StoreKV) {
	k := s.kv[keptAt(op.Heads)]
	if k == nil {
		s.each(op)
		return
	}
	if op.Rope != kernel.RopeNone {
		s.need(op.Table, 0, op.NRot)
	}
	cuts, h := k.columns(op.Heads), op.Heads
	d, v := h.HeadDim, valueDim(h)
	widths := [3]int{h.NHead * d, h.NHeadKV * d, h.NHeadKV * v}
	last := 2
	if h.InKeys {
		last = 1
	}
	if op.QueriesOnly {
		last = 0
	}
	var apart [3]bool
	for i := range last + 1 {
		if cuts[i] == nil {
			s.need(op.QKV, h.Col[i], h.Col[i]+widths[i])
		} else {
			op.Col[i], apart[i] = s.at(op.QKV, cuts[i])
		}
	}
	op.QMul, op.KMul, op.VMul = s.ofKVHeads(k, op.QMul, d), s.ofKVHeads(k, op.KMul, d), s.ofKVHeads(k, op.VMul, v)
	op.Heads = s.of(k, op.Heads)
	s.out = append(s.out, op)
	s.has(op.QKV, kernel.NoBuf, cuts[0], apart[0]) // the queries are now turned
}

// attend computes the results of this rank's heads.
func (s *splitting) attend(op kernel.Attend) {
	k := s.kv[keptAt(op.Heads)]
	if k == nil {
		s.each(op)
		return
	}
	if op.Best > 0 {
		s.need(op.Chosen, 0, s.p.Bufs[op.Chosen].Width)
	}
	op.Col[0], _ = s.at(op.QKV, k.columns(op.Heads)[0])
	v, from := valueDim(op.Heads), k.heads[s.rank]
	cut := scaled(k.heads, 0, v, op.NHead*v)
	op.Heads = s.of(k, op.Heads)
	op.Mul = s.ofKVHeads(k, op.Mul, v)
	op.Sinks = within(op.Sinks, from, op.NHead)
	width := kernel.BiasWidth(op.Bias.Span)
	op.Bias.By = within(op.Bias.By, from*width, op.NHead*width)
	s.written(op.Dst, 0, cut[s.n])
	s.out = append(s.out, op)
	s.has(op.Dst, kernel.NoBuf, cut, true)
}

// moveKV takes out of the units of groups what this rank does not keep, and moves what is behind it.
func (s *splitting) moveKV() {
	saved := map[place]int{}
	for _, k := range s.kv {
		if k.kvHeads == nil {
			continue
		}
		h, values := k.shape, valueDim(k.shape)
		if h.InKeys {
			values = 0
		}
		for _, t := range append([]kernel.Tier{{KV: h.KV, Group: h.Group, KVOffset: h.KVOffset}}, h.Tiers...) {
			bytes := func(heads int) int { return kernel.KVBytes(t.KV, heads, h.HeadDim, values) }
			saved[place{t.Group, t.KVOffset}] = bytes(h.NHeadKV) - bytes(s.of(k, h).NHeadKV)
		}
	}
	for at, x := range s.states {
		saved[at] = x.less
	}
	s.takeOut(saved)
}

// takeOut makes units smaller by so many bytes at places, and moves what is behind them.
func (s *splitting) takeOut(saved map[place]int) {
	if len(saved) == 0 {
		return
	}
	for at, n := range saved {
		s.p.Groups[at.group].Bytes -= n
	}
	moved := func(group, offset int) int {
		to := offset
		for at, n := range saved {
			if at.group == group && at.offset < offset && offset >= at.offset+s.states[at].had { // else it is of that
				to -= n
			}
		}
		return to
	}
	for _, ops := range s.p.Lists() {
		for i, op := range ops {
			ops[i] = relocated(op, moved)
		}
	}
}

// relocated returns an operation with other offsets of its places.
func relocated(op kernel.Op, moved func(group, offset int) int) kernel.Op {
	v := reflect.New(reflect.TypeOf(op)).Elem()
	v.Set(reflect.ValueOf(op))
	relocate(v, moved)
	return v.Interface().(kernel.Op)
}

// relocate replaces the offset of each place in a struct: fields Group and Offset or KVOffset side by side.
func relocate(v reflect.Value, moved func(group, offset int) int) {
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case f.Kind() == reflect.Struct:
			relocate(f, moved)
		case f.Type() == reflect.TypeFor[[]kernel.Tier]():
			tiers := slices.Clone(f.Interface().([]kernel.Tier))
			for k := range tiers {
				tiers[k].KVOffset = moved(tiers[k].Group, tiers[k].KVOffset)
			}
			f.Set(reflect.ValueOf(tiers))
		}
	}
	group := v.FieldByName("Group")
	if _, own := v.Type().FieldByName("Group"); !own || group.Kind() != reflect.Int {
		return
	}
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name == "Offset" || name == "KVOffset" {
			v.Field(i).SetInt(int64(moved(int(group.Int()), int(v.Field(i).Int()))))
		}
	}
}

// ------------------------------------------------------------------ who reads what

// A wish is how results are best divided for what reads them: columns from .. to, cut there, or with neither a cut nor
// whole anywhere.
type wish struct {
	from, to int
	cut      []int
	whole    bool // every rank needs all
}

// wishes returns how columns of a buffer that is about to be written are best divided, nil if it makes no difference.
func (s *splitting) wishes(ops []kernel.Op, i int, b kernel.Buf, from, to int) []wish {
	if all := s.stateWishes(ops, i, b, from, to); all != nil {
		return all
	}
	for ; i < len(ops); i++ {
		switch op := ops[i].(type) {
		case kernel.ToAct:
			if op.Src == b && op.Rows != kernel.HeadRows && op.SrcCol == from && op.SrcCol+op.Cols == to {
				if cut := s.units(from, to, kernel.ActBlock); cut != nil {
					return []wish{{from, to, cut, false}}
				}
				return nil
			}
		case kernel.StoreKV:
			if op.QKV == b {
				return s.wishesOf(op, from, to)
			}
		case kernel.NormRows:
			if op.Src == b && op.Dst == b && op.SrcCol == op.DstCol {
				continue
			}
		case kernel.Gate:
			if op.Segs == 0 && !op.ByRow && op.Src == b && op.SrcCol == from && op.SrcCol+op.Cols == to {
				if x := s.find(op.Dst, op.DstCol, op.DstCol+op.Cols); x != nil {
					return []wish{{from, to, scaled(x.Cut, from-op.DstCol, 1, to), false}}
				}
				return moved(s.wishes(ops, i+1, op.Dst, op.DstCol, op.DstCol+op.Cols), from-op.DstCol)
			}
			if op.Segs == 0 && !op.ByRow && op.Dst == b && op.DstCol == from && op.DstCol+op.Cols == to {
				continue
			}
		case kernel.Matmul:
			if op.Dst == b && op.Epilogue != kernel.Add && !slices.Contains(slices.Collect(maps.Values(op.Act)), b) {
				continue // other columns
			}
		}
		if mentions(ops[i], b) {
			return nil
		}
	}
	return nil
}

// moved returns wishes of other columns.
func moved(all []wish, by int) []wish {
	for i, w := range all {
		all[i] = wish{w.from + by, w.to + by, nil, w.whole}
		if w.cut != nil {
			all[i].cut = scaled(w.cut, by, 1, w.to+by)
		}
	}
	return all
}

// wishesOf returns how queries, keys and values are divided, if they are all of the columns.
func (s *splitting) wishesOf(op kernel.StoreKV, from, to int) (all []wish) {
	k := s.kv[keptAt(op.Heads)]
	if k == nil {
		return nil
	}
	h := op.Heads
	cuts, d := k.columns(h), h.HeadDim
	ends := [3]int{h.Col[0] + h.NHead*d, h.Col[1] + h.NHeadKV*d, h.Col[2] + h.NHeadKV*valueDim(h)}
	for i := range ends {
		if i > 0 && op.QueriesOnly || i == 2 && h.InKeys || h.Col[i] < from || ends[i] > to {
			continue
		}
		all = append(all, wish{h.Col[i], ends[i], cuts[i], cuts[i] == nil})
	}
	slices.SortFunc(all, func(a, b wish) int { return a.from - b.from })
	at := from
	for _, w := range all {
		if w.from != at {
			return nil
		}
		at = w.to
	}
	if at != to {
		return nil
	}
	return all
}
