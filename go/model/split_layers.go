package model

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// A staging rewrites a program such that this rank computes some of its layers, one behind the other. What layers leave for
// those behind them goes from rank to rank, and at last to rank 0, which computes outputs. What is before the layers, such as
// embeddings and tables of rotations, every rank computes. So the bits are the same.
//
// No rank waits for those that come after it: while they compute a batch, it may compute the next.
type staging struct {
	splitting             // of which the exchanges are used
	whole     *nn.Program // as it is given
	cuts      []int       // rank r has layers cuts[r] to cuts[r+1]
}

// byLayers returns the program of a rank, and which matrices it does not have: those with an empty list.
func (r Ranks) byLayers(p *nn.Program) (*nn.Program, map[string][]panels) {
	to := *p
	to.Next = nil
	to.Bufs, to.Groups = slices.Clone(p.Bufs), slices.Clone(p.Groups)
	s := &staging{whole: p, splitting: splitting{
		Ranks: r, rank: r.Group.Rank(), n: r.Group.Count(), p: &to, stages: map[kernel.BufSpec]kernel.Buf{},
	}}
	s.cuts = s.divideLayers()
	to.Layers, to.Outputs = nil, nil
	for il, ops := range p.Layers {
		var mine []kernel.Op
		if s.owner(il) == s.rank {
			mine = slices.Clone(ops)
		}
		if next := il + 1; next < len(p.Layers) && s.owner(next) != s.owner(il) {
			mine = append(mine, s.hand(s.owner(il), s.owner(next), s.live(next))...)
		}
		to.Layers = append(to.Layers, mine)
	}
	for _, o := range p.Outputs {
		to.Outputs = append(to.Outputs, s.output(o))
	}
	s.keepPlaces()
	s.allowParts()
	return &to, s.lacks()
}

// allowParts has what outputs read in buffers with rows of all tokens, where layers may have computed some tokens after others.
func (s *staging) allowParts() {
	done := slices.Concat(s.whole.Begin, slices.Concat(s.whole.Layers...))
	var read []kernel.Buf
	for _, o := range s.whole.Outputs {
		if !o.Given {
			read = append(read, s.between(done, o.Ops, o.Buf)...)
		}
	}
	for _, b := range read {
		if spec := s.p.Bufs[b]; spec.Kind != kernel.Floats || spec.Rows != kernel.TokRows {
			return
		}
	}
	for _, b := range read {
		s.p.Bufs[b].Whole = true
	}
	total, most := 0, 0
	for r := range s.n {
		n := 0
		for _, ops := range s.whole.Layers[s.cuts[r]:s.cuts[r+1]] {
			n += 1 + matrixBytes(ops)
		}
		total, most = total+n, max(most, n)
	}
	if most < total {
		s.p.Widest = float64(most) / float64(total)
	}
}

// owner returns the rank that has a layer.
func (s *staging) owner(il int) int {
	for r := range s.n {
		if il < s.cuts[r+1] {
			return r
		}
	}
	return s.n - 1
}

// hand gives rank `to` buffers that rank `from` has. All ranks count these exchanges, and the others have no part in them.
func (s *staging) hand(from, to int, bufs []kernel.Buf) []kernel.Op {
	s.out, s.portions = nil, nil
	for _, b := range bufs {
		spec := s.p.Bufs[b]
		width := spec.Width
		if spec.Kind != kernel.Floats {
			width = (width + kernel.ActBlock - 1) / kernel.ActBlock
		}
		cut := make([]int, s.n+1)
		for r := from + 1; r <= s.n; r++ {
			cut[r] = width
		}
		s.portions = append(s.portions, portion{kernel.SharePart{Dst: b, Kind: spec.Kind, Fine: spec.Fine, Cut: cut, Own: cut[s.rank]}, kernel.NoBuf, false})
	}
	s.exchange(to, func(portion) bool { return true })
	return s.out
}

// output divides the operations of an output: the rank of the last layers picks the rows, and rank 0 does the rest.
func (s *staging) output(o nn.Output) nn.Output {
	last := s.owner(len(s.whole.Layers) - 1)
	before, after := []kernel.Op(nil), o.Ops
	for i, op := range o.Ops {
		if _, ok := op.(kernel.Gather); ok {
			before, after = o.Ops[:i+1], o.Ops[i+1:]
		}
	}
	if last == 0 || o.Given {
		before, after = nil, o.Ops
	}
	var mine []kernel.Op
	if s.rank == last {
		mine = append(mine, before...)
	}
	if last != 0 && !o.Given {
		mine = append(mine, s.hand(last, 0, s.between(slices.Concat(slices.Concat(s.whole.Layers...), before), after, o.Buf))...)
	}
	if s.rank == 0 {
		mine = append(mine, after...)
	}
	o.Ops = mine
	return o
}

// live returns what layers from `next` on, and the outputs, read of what layers before it have left.
func (s *staging) live(next int) []kernel.Buf {
	before, after := slices.Concat(s.whole.Layers[:next]...), slices.Concat(s.whole.Layers[next:]...)
	live := map[kernel.Buf]bool{}
	for _, o := range s.whole.Outputs {
		if o.Given {
			continue
		}
		for _, b := range s.between(before, slices.Concat(after, o.Ops), o.Buf) {
			live[b] = true
		}
	}
	return slices.Sorted(maps.Keys(live))
}

// between returns which buffers that some operations write others read before they write them anew, or leave as the result.
func (s *staging) between(before, after []kernel.Op, result kernel.Buf) (all []kernel.Buf) {
	for i := range s.whole.Bufs {
		b := kernel.Buf(i)
		if !slices.ContainsFunc(before, func(op kernel.Op) bool { return writes(op, b) }) {
			continue
		}
		first := slices.IndexFunc(after, func(op kernel.Op) bool { return mentions(told(op), b) })
		if first < 0 && b == result || first >= 0 && !overwrites(after[first], b, s.whole.Bufs[b].Width) {
			all = append(all, b)
		}
	}
	return all
}

// told returns an operation whose fields that it does not use name no buffer.
func told(op kernel.Op) kernel.Op {
	none := func(b *kernel.Buf, unless bool) {
		if !unless {
			*b = kernel.NoBuf
		}
	}
	switch op := op.(type) {
	case kernel.Matmul:
		none(&op.Route, op.Rows == kernel.PairRows)
		none(&op.Delta, op.Deltas != nil)
		return op
	case kernel.ToAct:
		none(&op.Route, op.Rows == kernel.PairRows)
		return op
	case kernel.StoreKV:
		none(&op.Table, op.Rope != kernel.RopeNone)
		return op
	case kernel.Attend:
		none(&op.Chosen, op.Best > 0)
		return op
	case kernel.MoeCombine:
		none(&op.Same, op.ReturnsSame)
		return op
	}
	return op
}

// writes reports whether an operation changes a buffer. That is what its Dst names, and a few more.
func writes(op kernel.Op, b kernel.Buf) bool {
	switch op := op.(type) {
	case kernel.Norm:
		return slices.Contains(byKind(op.Act), b)
	case kernel.ToAct:
		return slices.Contains(byKind(op.Act), b)
	case kernel.StoreKV:
		return op.QKV == b
	case kernel.MoeHeads:
		return op.Tok == b || op.Pair == b
	}
	dst := dstOf(op)
	return dst.IsValid() && mentioned(dst, b)
}

// dsts has where operations of a type have their Dst, as fields of fields; nil: nowhere. A search by name is most of what
// it takes to divide layers.
var dsts sync.Map

// dstOf returns the Dst of an operation, if it has one.
func dstOf(op kernel.Op) reflect.Value {
	v := reflect.ValueOf(op)
	at, ok := dsts.Load(v.Type())
	if !ok {
		field, _ := v.Type().FieldByName("Dst")
		at, _ = dsts.LoadOrStore(v.Type(), field.Index)
	}
	if index := at.([]int); index != nil {
		return v.FieldByIndex(index)
	}
	return reflect.Value{}
}

// overwrites reports whether an operation writes a buffer of so many columns and reads nothing of what was there. What other operations may
// do is not known here: they count as readers, and the buffer is handed on in vain at worst.
func overwrites(op kernel.Op, b kernel.Buf, width int) bool {
	if !writes(op, b) {
		return false
	}
	switch op := op.(type) {
	case kernel.Matmul:
		return op.Epilogue != kernel.Add && !slices.Contains(byKind(op.Act), b)
	case kernel.Norm:
		return op.Src != b
	case kernel.ToAct:
		return op.Src != b
	case kernel.NormRows:
		return op.Epilogue == kernel.Store && op.Src != b && op.DstCol == 0 && op.Cols*op.Segs >= width
	case kernel.Embed:
		return !op.Add
	case kernel.MoeCombine:
		return op.Store && op.Src != b
	case kernel.MoeRoute:
		return op.Src != b
	case kernel.MoeGather:
		return !slices.Contains(byKind(op.Src), b)
	case kernel.Conv:
		return op.Src != b
	case kernel.Delta:
		return op.Src != b && op.Gates != b
	case kernel.Scan:
		return op.Src != b && op.Steps != b
	case kernel.Attend, kernel.Select, kernel.RopeTable, kernel.Gather:
		return true
	}
	return false
}

// divideLayers returns where layers are divided among the ranks: by the bytes of their weights, where nothing but buffers
// is handed on. With few such places some ranks have no layers. The outputs, which rank 0 computes, do not count: passes that are
// in flight together want none.
func (s *staging) divideLayers() []int {
	n := len(s.whole.Layers)
	before := make([]int, n+1) // bytes of the layers before each
	for il, ops := range s.whole.Layers {
		before[il+1] = before[il] + 1 + matrixBytes(ops)
	}
	used := s.used()
	var may []int
	for at := 1; at < n; at++ {
		if !used[at] && s.mayHand(at) {
			may = append(may, at)
		}
	}
	cuts, done := []int{0}, 0
	for r := range s.n - 1 {
		done += s.share(r)
		target, best, least := float64(before[n])*float64(done)/float64(s.shares()), n, 0.0
		for i, c := range may {
			left := len(may) - i - 1
			if c <= cuts[r] || left < s.n-2-r && best < n {
				continue
			}
			if off := math.Abs(float64(before[c]) - target); best == n || off < least {
				best, least = c, off
			}
		}
		cuts = append(cuts, best)
	}
	return append(cuts, n)
}

// matrixBytes returns the bytes of the matrices of products, as panels: they may have no layout yet, and all ranks divide alike.
func matrixBytes(ops []kernel.Op) (n int) {
	for _, op := range ops {
		if mm, ok := op.(kernel.Matmul); ok {
			for _, p := range mm.Parts {
				n += p.N * kernel.Pad(p.Out) / kernel.Panel * kernel.PanelBytes(p.Type, p.In)
			}
		}
	}
	return n
}

// used returns of each layer whether it, or one behind it, uses state of the layers before it: it cannot be another rank's
// then.
func (s *staging) used() []bool {
	used := make([]bool, len(s.whole.Layers))
	first := map[place]int{} // the layer that has it
	for il, ops := range s.whole.Layers {
		for p := range placesOf(ops) {
			from, ok := first[p]
			if !ok {
				first[p] = il
				continue
			}
			for at := from + 1; at <= il; at++ {
				used[at] = true
			}
		}
	}
	return used
}

// mayHand reports whether layers from `at` on read nothing that cannot be handed on.
func (s *staging) mayHand(at int) bool {
	return !slices.ContainsFunc(s.live(at), func(b kernel.Buf) bool {
		spec := s.whole.Bufs[b]
		return spec.Kind == kernel.Route || spec.Rows != kernel.TokRows
	})
}

// ------------------------------------------------------------------ what a rank has

// placesOf returns where operations keep state.
func placesOf(ops []kernel.Op) map[place]bool {
	all := map[place]bool{}
	for _, op := range ops {
		addPlaces(reflect.ValueOf(op), all)
	}
	return all
}

// addPlaces adds the places in a struct: fields Group and Offset or KVOffset side by side.
func addPlaces(v reflect.Value, all map[place]bool) {
	if e, ok := v.Interface().(kernel.Entries); ok && e.Every == 0 {
		return
	}
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			addPlaces(f, all)
		case f.Type() == reflect.TypeFor[[]kernel.Tier]():
			for _, t := range f.Interface().([]kernel.Tier) {
				all[place{t.Group, t.KVOffset}] = true
			}
		}
	}
	field, own := v.Type().FieldByName("Group")
	if !own || len(field.Index) > 1 || field.Type.Kind() != reflect.Int {
		return
	}
	for _, name := range []string{"Offset", "KVOffset"} {
		if f, ok := v.Type().FieldByName(name); ok && len(f.Index) == 1 && f.Type.Kind() == reflect.Int {
			all[place{int(v.FieldByName("Group").Int()), int(v.FieldByName(name).Int())}] = true
		}
	}
}

// keepPlaces takes out of the units of groups what this rank does not keep, and moves what is behind it.
func (s *staging) keepPlaces() {
	mine := placesOf(slices.Concat(s.p.Lists()...))
	ends := map[int][]int{} // of each group, where places begin, and the end
	for at := range placesOf(slices.Concat(s.whole.Lists()...)) {
		ends[at.group] = append(ends[at.group], at.offset)
	}
	saved := map[place]int{}
	for g, offsets := range ends {
		slices.Sort(offsets)
		offsets = append(offsets, s.whole.Groups[g].Bytes)
		for i, at := range offsets[:len(offsets)-1] {
			if !mine[place{g, at}] {
				saved[place{g, at}] = offsets[i+1] - at
			}
		}
	}
	s.takeOut(saved)
	for i := range s.p.Groups {
		s.p.Groups[i].Bytes = max(s.p.Groups[i].Bytes, kernel.Align) // a unit is there, if nothing is in it
	}
}

// lacks returns an empty list for each matrix that no operation of this rank reads.
func (s *staging) lacks() map[string][]panels {
	none := map[string][]panels{}
	names := func(p *nn.Program, do func(name string)) {
		for _, ops := range p.Lists() {
			for _, op := range ops {
				if mm, ok := op.(kernel.Matmul); ok {
					for _, part := range mm.Parts {
						do(part.Name)
					}
				}
			}
		}
	}
	names(s.whole, func(name string) { none[name] = []panels{} })
	names(s.p, func(name string) { delete(none, name) })
	return none
}

// canStage returns an error if the layers of a model cannot be divided.
func canStage(c *Config) error {
	if len(c.Encoder) > 0 {
		return fmt.Errorf("%s has an encoder, whose layers are not divided among ranks; its rows are: --split rows", c.Arch)
	}
	return nil
}
