package model

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// mentions reports whether an operation names a buffer. Fields that it does not use may be a buffer's number as well:
// what is exchanged in vain for that does no harm.
func mentions(op kernel.Op, b kernel.Buf) bool { return mentioned(reflect.ValueOf(op), b) }

var bufType = reflect.TypeFor[kernel.Buf]()

func mentioned(v reflect.Value, b kernel.Buf) bool {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if mentioned(v.Field(i), b) {
				return true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if mentioned(it.Value(), b) {
				return true
			}
		}
	case reflect.Int32:
		return v.Type() == bufType && kernel.Buf(v.Int()) == b
	}
	return false
}

// op rewrites operation i of a list.
func (s *splitting) op(ops []kernel.Op, i int, op kernel.Op) {
	switch op := op.(type) {
	case kernel.Matmul:
		s.matmul(ops, i, op)
	case kernel.Adapt:
		if op.Add { // to an embedding
			s.each(op)
		} else {
			s.terms = append(s.terms, op)
		}
	case kernel.ToAct:
		s.toAct(ops, i, op)
	case kernel.Norm:
		s.need(op.Src, op.SrcCol, op.SrcCol+op.Cols)
		s.replaced(op.Act)
		s.out = append(s.out, op)
	case kernel.NormRows:
		s.normRows(op)
	case kernel.Gate:
		s.gate(op)
	case kernel.StoreKV:
		s.storeKV(op)
	case kernel.Attend:
		s.attend(op)
	case kernel.MoeCombine:
		s.combine(op)
	case kernel.Scan, kernel.Delta, kernel.WKV, kernel.Decay:
		s.recur(op)
	case kernel.Conv:
		s.conv(op)
	case kernel.Blend:
		s.blend(op)
	default:
		s.each(op)
	}
}

// each has every rank compute an operation.
func (s *splitting) each(op kernel.Op) {
	s.needs(op)
	s.out = append(s.out, op)
}

// byKind returns the buffers of activations in the order of their kinds. What ranks exchange must not be in the order
// of a map, which is another on each.
func byKind(act kernel.Act) (all []kernel.Buf) {
	for _, kind := range slices.Sorted(maps.Keys(act)) {
		all = append(all, act[kind])
	}
	return all
}

// replaced records that activations are written as a whole.
func (s *splitting) replaced(act kernel.Act) {
	for _, b := range byKind(act) {
		s.written(b, 0, s.p.Bufs[b].Width)
	}
}

// ------------------------------------------------------------------ products

// A piece is rows of a matrix of a product, whose results are columns of its buffer: this rank's are a part of them.
type piece struct {
	part kernel.Part
	of   int   // which of the parts of the product it is of
	row  int   // where they begin
	cut  []int // columns of the results; nil: every rank computes them all
}

// rows returns which rows of the matrix rank r has.
func (x piece) rows(of kernel.Part, r int) [2]int {
	if x.cut == nil {
		return [2]int{x.row, x.row + x.part.Out}
	}
	return [2]int{x.cut[r] - of.Col, x.cut[r+1] - of.Col}
}

// matmul divides rows of matrices, or whole matrices of heads.
func (s *splitting) matmul(ops []kernel.Op, i int, op kernel.Matmul) {
	var pieces []piece
	switch {
	case op.Rows == kernel.HeadRows:
		if of, ok := s.headsOf(op.Act); ok {
			s.matricesOfHeads(op, of)
			return
		}
	case op.Heads.N > 0:
		if s.rowsOfHeads(op) {
			return
		}
	default:
		pieces = s.pieces(ops, i, op)
	}
	whole := op
	parts, divided := s.parts(&op, pieces)
	if !divided {
		s.undivided(op)
		return
	}
	s.read(op)
	s.add(whole, func(part int) (rows [2]int) {
		rows = [2]int{op.Parts[part].Out, 0}
		for _, x := range pieces {
			if x.of == part {
				r := x.rows(op.Parts[part], s.rank)
				rows[0], rows[1] = min(rows[0], r[0]), max(rows[1], r[1])
			}
		}
		return rows
	})
	for k, x := range pieces {
		from, to := x.part.Col+x.row, x.part.Col+x.row+x.part.Out
		if k > 0 && op.Epilogue == kernel.GLU {
			break // its results are not stored
		}
		if x.cut == nil {
			if op.Epilogue == kernel.Add {
				s.need(op.Dst, from, to)
			} else {
				s.written(op.Dst, from, to)
			}
		} else if op.Epilogue != kernel.Add {
			s.written(op.Dst, from, to)
		} else {
			s.inPlace(op.Dst, x.cut)
		}
	}
	deltas := op.Deltas
	for at := range slices.Chunk(parts, kernel.MaxParts) {
		op.Parts = at
		if deltas != nil {
			op.Deltas, deltas = deltas[:len(at)], deltas[len(at):]
		}
		s.out = append(s.out, op)
	}
	for k, x := range pieces {
		if x.cut != nil && (k == 0 || op.Epilogue != kernel.GLU) {
			s.has(op.Dst, op.Route, x.cut, false)
		}
	}
}

// read has everything exchanged that a product and its adapters' terms read but for what it adds to.
func (s *splitting) read(op kernel.Matmul) {
	s.exchange(kernel.Everyone, func(x portion) bool {
		return slices.Contains(slices.Collect(maps.Values(op.Act)), x.Dst) ||
			slices.ContainsFunc(s.terms, func(t kernel.Adapt) bool { return t.Act == x.Dst })
	})
}

// add computes the terms of adapters for the rows of a part of a product that this rank computes, or some more.
func (s *splitting) add(op kernel.Matmul, rows func(part int) [2]int) {
	for _, t := range s.terms {
		i := slices.Index(op.Deltas, t.Col)
		if r := rows(i); op.Parts[i].N == 1 {
			t.Low = slices.Clone(t.Low)
			for k := range t.Low {
				t.Low[k].B = rowsOfPacked(t.Low[k].B, r)
			}
			t.Col, t.Cols = t.Col+r[0], r[1]-r[0]
		}
		s.out = append(s.out, t)
	}
	s.terms = nil
}

// rowsOfPacked returns rows of a matrix, from the beginning of a panel on.
func rowsOfPacked(m kernel.Matrix, rows [2]int) kernel.Matrix {
	m.Out = rows[1] - rows[0]
	if m.Data != nil {
		panel := m.PanelBytes()
		m.Data = m.Data[rows[0]/kernel.Panel*panel : kernel.Pad(rows[1])/kernel.Panel*panel]
	}
	return m
}

// undivided has every rank compute a product.
func (s *splitting) undivided(op kernel.Matmul) {
	s.read(op)
	s.add(op, func(part int) [2]int { return [2]int{0, op.Parts[part].Out} })
	for _, p := range op.Parts {
		from, to := p.Col, p.Col+p.Out
		if op.Heads.N > 0 {
			from, to = s.region(op, p)
		}
		if op.Epilogue == kernel.Add || op.Heads.N > 0 {
			s.need(op.Dst, from, to)
		} else {
			s.written(op.Dst, from, to)
		}
	}
	s.out = append(s.out, op)
}

// region returns the columns of all heads of a product.
func (s *splitting) region(op kernel.Matmul, p kernel.Part) (from, to int) {
	from = p.Col / op.Heads.Step * op.Heads.Step
	return from, from + op.Heads.N*op.Heads.Step
}

// pieces returns the pieces of a product of rows, nil if it is not divided.
func (s *splitting) pieces(ops []kernel.Op, i int, op kernel.Matmul) []piece {
	var all []piece
	bytes, wished := 0, false
	for k, p := range op.Parts {
		bytes += p.Bytes()
		if p.N != 1 && op.Rows != kernel.PairRows {
			return nil
		}
		if k == 1 && op.Epilogue == kernel.GLU {
			if p.Out != op.Parts[0].Out {
				return nil
			}
			all = append(all, piece{p, k, 0, scaled(all[0].cut, p.Col-op.Parts[0].Col, 1, p.Col+p.Out)})
			continue
		}
		wishes := []wish{{p.Col, p.Col + p.Out, nil, false}}
		if op.Epilogue != kernel.Add {
			if w := s.wishes(ops, i+1, op.Dst, p.Col, p.Col+p.Out); w != nil && (len(w) == 1 || p.N == 1) {
				wishes, wished = w, true
			} else if x := s.w.byName[p.Name]; x != nil && x.squared {
				return nil // factors of keys and values are made of all rows, where every rank has all heads
			}
		}
		for _, w := range wishes {
			x := piece{p, k, w.from - p.Col, w.cut}
			x.part.Out = w.to - w.from
			if x.cut == nil && !w.whole {
				x.cut = s.units(w.from, w.to, kernel.Panel)
			}
			all = append(all, x)
		}
	}
	if op.Epilogue == kernel.GLU && (len(all) > kernel.MaxParts || all[0].cut == nil) {
		return nil
	}
	if !wished && op.Epilogue != kernel.Add && op.Rows != kernel.OutRows && bytes < s.Least {
		return nil
	}
	return all
}

// parts returns the parts of a product that are this rank's, and whether any is divided.
func (s *splitting) parts(op *kernel.Matmul, pieces []piece) (parts []kernel.Part, divided bool) {
	deltas := op.Deltas
	for at := 0; at < len(pieces); { // the pieces of one matrix
		end := at + 1
		for end < len(pieces) && pieces[end].of == pieces[at].of {
			end++
		}
		mine, ok := s.rowsOf(op.Parts[pieces[at].of], pieces[at:end])
		if !ok {
			return nil, false
		}
		for k, x := range pieces[at:end] {
			divided = divided || x.cut != nil
			parts = append(parts, mine[k])
		}
		at = end
	}
	if divided && op.Deltas != nil { // of what adapters add, each rank has all columns
		op.Deltas = nil
		for k, x := range pieces {
			at := deltas[x.of]
			if at >= 0 {
				at += parts[k].Col - op.Parts[x.of].Col
			}
			op.Deltas = append(op.Deltas, at)
		}
	}
	return parts, divided
}

// rowsOf returns this rank's part of pieces of a matrix, or of each of N.
func (s *splitting) rowsOf(of kernel.Part, pieces []piece) ([]kernel.Part, bool) {
	lists := make([][]panels, s.n)
	each := kernel.Pad(of.Out) / kernel.Panel
	for _, x := range pieces {
		for r := range lists {
			rows := x.rows(of, r)
			if rows[0]%kernel.Panel != 0 || rows[1]%kernel.Panel != 0 && rows[1] != of.Out {
				return nil, false
			}
			for m := range of.N {
				lists[r] = append(lists[r], panels{m*each + rows[0]/kernel.Panel, m*each + kernel.Pad(rows[1])/kernel.Panel})
			}
		}
	}
	data, ok := s.take(of.Matrix, lists)
	if !ok {
		return nil, false
	}
	var parts []kernel.Part
	for _, x := range pieces {
		r := x.rows(of, s.rank)
		p := of
		p.Out, p.Col = r[1]-r[0], of.Col+r[0]
		p.Bias = s.biases(of, r)
		if p.Data != nil {
			n := p.Bytes()
			p.Data, data = data[:n:n], data[n:]
		}
		parts = append(parts, p)
	}
	return parts, true
}

// biases returns those of rows of a matrix, or of each of N.
func (s *splitting) biases(of kernel.Part, rows [2]int) []float32 {
	each, n := kernel.Pad(of.Out), kernel.Pad(rows[1]-rows[0])
	if of.N == 1 || n == each {
		if of.Bias == nil {
			return nil
		}
		return of.Bias[rows[0]:][:n*of.N]
	}
	if of.Bias == nil {
		return nil
	}
	key := fmt.Sprintf("%s %d", of.Name, rows)
	if all := s.w.bias[key]; all != nil { // a program with adapters has the same
		return all
	}
	all := s.w.memory(n * of.N)
	if s.w.bias == nil {
		s.w.bias = map[string][]float32{}
	}
	s.w.bias[key] = all
	for m := range of.N {
		copy(all[m*n:(m+1)*n], of.Bias[m*each+rows[0]:])
	}
	return all
}

// take records that each rank has these panels of a matrix, and returns the memory of this rank's, nil before there is some.
func (s *splitting) take(m kernel.Matrix, lists [][]panels) ([]byte, bool) {
	old, taken := s.panels[m.Name]
	if s.whole[m.Name] || !s.w.divisible(m, lists) || taken && !slices.EqualFunc(old, lists, slices.Equal[[]panels]) {
		if taken {
			s.clashes[m.Name] = true
		}
		return nil, false
	}
	s.panels[m.Name] = lists
	return m.Data, true
}

// ------------------------------------------------------------------ heads

// headsOf returns how activations of heads are divided.
func (s *splitting) headsOf(act kernel.Act) (headsCut, bool) {
	for _, b := range byKind(act) {
		if of, ok := s.heads[b]; ok {
			return of, true
		}
	}
	return headsCut{}, false
}

// matricesOfHeads multiplies this rank's heads, of which its activations are, by their matrices.
func (s *splitting) matricesOfHeads(op kernel.Matmul, of headsCut) {
	from, to := of.cut[s.rank], of.cut[s.rank+1]
	op.Parts = slices.Clone(op.Parts)
	base, end := s.region(op, op.Parts[0])
	cut := scaled(of.cut, base, op.Heads.Step, end)
	own, apart := s.at(op.Dst, cut)
	for i, p := range op.Parts {
		each := kernel.Pad(p.Out) / kernel.Panel
		lists := make([][]panels, s.n)
		for r := range lists {
			lists[r] = []panels{{of.cut[r] * each, of.cut[r+1] * each}}
		}
		data, ok := s.take(p.Matrix, lists)
		if !ok { // every rank has it
			data = s.part(p.Matrix, from, to)
		}
		p.N, p.Data = to-from, data
		if p.Bias != nil {
			p.Bias = p.Bias[from*kernel.Pad(p.Out):]
		}
		p.Col += own - base
		op.Parts[i] = p
	}
	for kind := range op.Act {
		op.Act = kernel.Act{kind: of.buf}
	}
	op.Heads.N = to - from
	s.out = append(s.out, op)
	s.has(op.Dst, kernel.NoBuf, cut, apart)
}

// part returns the memory of matrices from .. to - 1 of N.
func (s *splitting) part(m kernel.Matrix, from, to int) []byte {
	if m.Data == nil {
		return nil
	}
	each := len(m.Data) / m.N
	return m.Data[from*each : to*each : to*each]
}

// rowsOfHeads computes the rows of this rank's heads, and reports whether it can.
func (s *splitting) rowsOfHeads(op kernel.Matmul) bool {
	heads := s.divide(op.Heads.N)
	if heads == nil || op.Epilogue == kernel.Add || op.Rows != kernel.TokRows {
		return false
	}
	base, end := s.region(op, op.Parts[0])
	for _, p := range op.Parts {
		if b, _ := s.region(op, p); b != base || p.N != 1 || p.Out/op.Heads.N%kernel.Panel != 0 {
			return false
		}
	}
	cut := scaled(heads, base, op.Heads.Step, end)
	var parts []kernel.Part
	for _, p := range op.Parts {
		each := p.Out / op.Heads.N
		rows := [2]int{heads[s.rank] * each, heads[s.rank+1] * each}
		lists := make([][]panels, s.n)
		for r := range lists {
			lists[r] = []panels{{heads[r] * each / kernel.Panel, heads[r+1] * each / kernel.Panel}}
		}
		data, ok := s.take(p.Matrix, lists)
		if !ok {
			return false
		}
		p.Bias = s.biases(p, rows)
		p.Out, p.Data = rows[1]-rows[0], data
		p.Col += cut[s.rank] - base
		parts = append(parts, p)
	}
	s.read(op)
	of := func(part int) [2]int {
		each := op.Parts[part].Out / op.Heads.N
		return [2]int{heads[s.rank] * each, heads[s.rank+1] * each}
	}
	s.add(op, of)
	if op.Deltas != nil {
		op.Deltas = slices.Clone(op.Deltas)
		for i := range op.Deltas {
			if op.Deltas[i] >= 0 {
				op.Deltas[i] += of(i)[0]
			}
		}
	}
	s.inPlace(op.Dst, cut)
	op.Parts, op.Heads.N = parts, heads[s.rank+1]-heads[s.rank]
	s.out = append(s.out, op)
	s.has(op.Dst, kernel.NoBuf, cut, false)
	return true
}

// ------------------------------------------------------------------ activations

// toAct converts this rank's columns, where they are whole blocks, or its heads.
func (s *splitting) toAct(ops []kernel.Op, i int, op kernel.ToAct) {
	if op.Rows == kernel.HeadRows {
		s.actOfHeads(ops, i, op)
		return
	}
	x := s.find(op.Src, op.SrcCol, op.SrcCol+op.Cols)
	if x == nil || !multiples(x.Cut, kernel.ActBlock) {
		s.need(op.Src, op.SrcCol, op.SrcCol+op.Cols)
		s.replaced(op.Act)
		s.out = append(s.out, op)
		return
	}
	blocks := make([]int, len(x.Cut))
	for r, c := range x.Cut {
		blocks[r] = (c - op.SrcCol + kernel.ActBlock - 1) / kernel.ActBlock
	}
	op.SrcCol, op.Cols, op.Block = x.Own, x.Cut[s.rank+1]-x.Cut[s.rank], blocks[s.rank]
	s.replaced(op.Act)
	s.out = append(s.out, op)
	for _, b := range byKind(op.Act) {
		s.p.Bufs[b].Width = max(s.p.Bufs[b].Width, blocks[s.n]*kernel.ActBlock) // whole blocks are exchanged
		s.has(b, op.Route, blocks, false)
	}
}

// actOfHeads converts this rank's heads, if products by head are all that reads them.
func (s *splitting) actOfHeads(ops []kernel.Op, i int, op kernel.ToAct) {
	heads := s.divide(op.Heads.N)
	if heads == nil || len(op.Act) != 1 || !s.onlyByHead(ops[i+1:], op) {
		s.each(op)
		return
	}
	base := op.SrcCol / op.Heads.Step * op.Heads.Step
	cut := scaled(heads, base, op.Heads.Step, base+op.Heads.N*op.Heads.Step)
	own, _ := s.at(op.Src, cut)
	op.SrcCol += own - base
	op.Heads.N = heads[s.rank+1] - heads[s.rank]
	for kind, b := range op.Act {
		s.replaced(op.Act)
		local := s.local(b, op.Heads.N)
		op.Act = kernel.Act{kind: local}
		s.heads[b] = headsCut{local, heads}
	}
	s.out = append(s.out, op)
}

// onlyByHead reports whether the activations of an operation are read by products that can be divided by heads, before
// they are written again.
func (s *splitting) onlyByHead(ops []kernel.Op, of kernel.ToAct) bool {
	var act kernel.Buf
	for _, b := range of.Act {
		act = b
	}
	for _, op := range ops {
		if !mentions(op, act) {
			continue
		}
		if again, ok := op.(kernel.ToAct); ok && again.Rows == kernel.HeadRows {
			return true
		}
		mm, ok := op.(kernel.Matmul)
		if !ok || mm.Rows != kernel.HeadRows || mm.Epilogue == kernel.Add || mm.Heads.N != of.Heads.N || len(mm.Act) != 1 {
			return false
		}
		base, _ := s.region(mm, mm.Parts[0])
		for _, p := range mm.Parts {
			if b, _ := s.region(mm, p); b != base || p.N != of.Heads.N || p.Scales != nil {
				return false
			}
		}
	}
	return true
}

// local returns the buffer for activations of n of the heads.
func (s *splitting) local(b kernel.Buf, n int) kernel.Buf {
	spec := s.p.Bufs[b]
	spec.NHead = n
	if s.locals[spec] == nil {
		s.locals[spec] = map[kernel.Buf]kernel.Buf{}
	}
	l, ok := s.locals[spec][b]
	if !ok {
		l = kernel.Buf(len(s.p.Bufs))
		s.p.Bufs = append(s.p.Bufs, spec)
		s.locals[spec][b] = l
	}
	return l
}

// ------------------------------------------------------------------ what is computed column by column, or by segments

// gate multiplies this rank's columns.
func (s *splitting) gate(op kernel.Gate) {
	n := op.Cols * max(op.Segs, 1)
	x := s.find(op.Dst, op.DstCol, op.DstCol+n)
	if x == nil || op.Segs > 0 && !multiples(x.Cut, op.Cols*kernel.Panel) {
		s.each(op)
		return
	}
	cut, own := x.Cut, x.Own
	from, mine := cut[s.rank]-op.DstCol, cut[s.rank+1]-cut[s.rank]
	switch {
	case op.Segs > 0:
		s.need(op.Src, op.SrcCol, op.SrcCol+op.Segs)
		op.SrcCol += from / op.Cols
		op.Segs = mine / op.Cols
	case op.ByRow:
		s.need(op.Src, op.SrcCol, op.SrcCol+1)
		op.Cols = mine
	default:
		op.SrcCol, _ = s.at(op.Src, scaled(cut, op.SrcCol-op.DstCol, 1, op.SrcCol+n))
		op.Cols = mine
	}
	op.DstCol = own
	s.out = append(s.out, op)
}

// normRows normalises this rank's segments.
func (s *splitting) normRows(op kernel.NormRows) {
	n := op.Cols * op.Segs
	if parts := s.segments(op.Src, op.SrcCol, op.SrcCol+n); len(parts) > 1 && s.bySegments(op, parts) {
		return
	}
	if op.Epilogue == kernel.Add && s.addNorm(op) {
		return
	}
	x := s.find(op.Src, op.SrcCol, op.SrcCol+n)
	unit := op.Cols
	if op.Kind == kernel.NoNorm && op.Weight == nil && op.Bias == nil && op.Segs == 1 {
		unit = 1
	}
	if x == nil || op.Epilogue != kernel.Store || !multiples(x.Cut, unit) || s.n > 1 && unit == op.Cols && op.Segs == 1 {
		s.need(op.Src, op.SrcCol, op.SrcCol+n)
		if op.Epilogue == kernel.Store {
			s.written(op.Dst, op.DstCol, op.DstCol+n)
		} else {
			s.need(op.Dst, op.DstCol, op.DstCol+n)
		}
		s.out = append(s.out, op)
		return
	}
	cut, own, apart := x.Cut, x.Own, x.apart
	from, mine := cut[s.rank]-op.SrcCol, cut[s.rank+1]-cut[s.rank]
	to := scaled(cut, op.DstCol-op.SrcCol, 1, op.DstCol+n)
	inPlace := op.Src == op.Dst && op.SrcCol == op.DstCol
	if op.SegWeights {
		op.Weight, op.Bias = within(op.Weight, from, mine), within(op.Bias, from, mine)
	}
	if op.SrcCol, op.DstCol = own, to[s.rank]; inPlace {
		op.DstCol = own
	} else {
		apart = false
		s.written(op.Dst, to[0], to[s.n])
	}
	if unit == 1 {
		op.Cols = mine
	} else {
		op.Segs = mine / unit
	}
	s.out = append(s.out, op)
	s.has(op.Dst, kernel.NoBuf, to, apart)
}

// bySegments normalises in place each of the segments that columns are, if they are whole ones of the operation.
func (s *splitting) bySegments(op kernel.NormRows, parts []segment) bool {
	if op.Epilogue != kernel.Store || op.Src != op.Dst || op.SrcCol != op.DstCol ||
		slices.ContainsFunc(parts, func(x segment) bool { return (x.from-op.SrcCol)%op.Cols != 0 }) {
		return false
	}
	for _, x := range parts {
		part, from := op, x.from-op.SrcCol
		part.SrcCol, part.DstCol, part.Segs = x.from, x.from, (x.to-x.from)/op.Cols
		if op.SegWeights {
			part.Weight, part.Bias = within(op.Weight, from, x.to-x.from), within(op.Bias, from, x.to-x.from)
		}
		s.normRows(part)
	}
	return true
}

// addNorm adds what it makes of this rank's segments to columns of which it has the same, and reports whether it can.
func (s *splitting) addNorm(op kernel.NormRows) bool {
	n := op.Cols * op.Segs
	x, y := s.find(op.Src, op.SrcCol, op.SrcCol+n), s.find(op.Dst, op.DstCol, op.DstCol+n)
	if x == nil || y == nil || !multiples(x.Cut, op.Cols) || op.Segs == 1 ||
		!slices.Equal(scaled(x.Cut, op.DstCol-op.SrcCol, 1, op.DstCol+n), y.Cut) {
		return false
	}
	from, mine := x.Cut[s.rank]-op.SrcCol, x.Cut[s.rank+1]-x.Cut[s.rank]
	if op.SegWeights {
		op.Weight, op.Bias = within(op.Weight, from, mine), within(op.Bias, from, mine)
	}
	op.SrcCol, op.DstCol, op.Segs = x.Own, y.Own, mine/op.Cols
	s.out = append(s.out, op)
	return true
}

// within returns n numbers of a vector, which may have no memory.
func within(v []float32, from, n int) []float32 {
	if v == nil {
		return nil
	}
	return v[from : from+n]
}

// combine adds up this rank's columns of what experts return.
func (s *splitting) combine(op kernel.MoeCombine) {
	var x *portion
	for i := range s.portions {
		if y := &s.portions[i]; y.Dst == op.Src && y.from() == 0 && !y.apart {
			x = y
		}
	}
	if x == nil {
		s.each(op)
		return
	}
	cut := x.Cut
	if op.ReturnsSame {
		s.need(op.Same, 0, cut[s.n])
	}
	if op.Store {
		s.written(op.Dst, 0, cut[s.n])
	} else {
		s.inPlace(op.Dst, cut)
	}
	op.Col, op.Cols = cut[s.rank], cut[s.rank+1]-cut[s.rank]
	s.out = append(s.out, op)
	s.has(op.Dst, kernel.NoBuf, cut, false)
}
