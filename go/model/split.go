package model

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// Ranks says how a model is divided among processes that run it together.
type Ranks struct {
	Group *kernel.Ranks // of which this process is one; nil: there is no other
	// Shares is how much each rank computes in relation to the others; nil: all the same.
	Shares []int
	// Least is how many bytes of weights a product has at least for its rows to be divided if its result has to be
	// exchanged for nothing else than that; 0: LeastDivided.
	Least int
	// Layers divides the model by whole layers, which ranks compute one after another.
	Layers bool
}

// LeastDivided is what a rank reads from memory in the time of an exchange over a fast network, about 30 us at 300 GB/s.
const LeastDivided = 8 << 20

func (r Ranks) check() error {
	switch n := r.Group.Count(); {
	case r.Shares != nil && len(r.Shares) != n:
		return fmt.Errorf("%d shares of a model for %d ranks", len(r.Shares), n)
	case slices.ContainsFunc(r.Shares, func(s int) bool { return s < 1 || s > 1<<20 }):
		return fmt.Errorf("shares %d of a model, want numbers from 1 to %d", r.Shares, 1<<20)
	}
	return nil
}

// A splitting rewrites a program such that this rank computes its part of it, and gets the rest from the others where it
// is needed. Rows of matrices and heads are divided, so that every number is computed by one rank as one process would
// compute it, or by all of them. No sum is divided: the bits are the same.
//
// It goes through the operations in the order of their execution and keeps track of what this rank has of the buffers.
// An operation with a rule computes a part from parts. Before any other, or where parts do not fit, what it reads is
// exchanged. So an operation without a rule is computed by every rank, and is right. What is exchanged together is
// exchanged at once, and not before it is needed.
type splitting struct {
	Ranks
	rank, n int
	p       *nn.Program // as it is rewritten
	w       *weights
	kv      map[place]*keptCut
	whole   map[string]bool       // matrices that every rank has
	panels  map[string][][]panels // of other matrices: what each rank has
	clashes map[string]bool       // matrices of which two products take different parts, and such states
	states  map[place]stateCut    // of recurrences and convolutions
	stages  map[kernel.BufSpec]kernel.Buf
	locals  map[kernel.BufSpec]map[kernel.Buf]kernel.Buf
	step    int

	// While a list is rewritten:
	out      []kernel.Op
	portions []portion               // what this rank alone has
	terms    []kernel.Adapt          // of adapters, for the next product
	heads    map[kernel.Buf]headsCut // activations of heads, of which this rank has its own
}

// A portion is columns of a buffer, or blocks of activations, of which each rank has its part.
type portion struct {
	kernel.SharePart
	route kernel.Buf // of rows of pairs
	apart bool       // each rank's begin at the first column, and not in their place
}

func (s portion) from() int { return s.Cut[0] }
func (s portion) to() int   { return s.Cut[len(s.Cut)-1] }

// headsCut is what is in place of activations of all heads.
type headsCut struct {
	buf kernel.Buf
	cut []int // heads
}

// panels are panels of a matrix, numbered over all of N matrices.
type panels struct{ from, to int }

// split returns the program of a rank, and what it has of the matrices. w has these as a whole, or the parts that an
// earlier call has returned for other weights of the same file.
func (r Ranks) split(p *nn.Program, w *weights) (*nn.Program, map[string][]panels) {
	if r.Layers {
		return r.byLayers(p)
	}
	s := r.splitAs(p, w, nil)
	mine := map[string][]panels{}
	for name, lists := range s.panels {
		mine[name] = lists[s.rank]
	}
	return s.p, mine
}

// splitBoth returns what split makes of two programs with the same buffers, which both results have as well, and reports
// whether they take the same panels.
func (r Ranks) splitBoth(p, q *nn.Program, w *weights) (_, _ *nn.Program, same bool) {
	first := r.splitAs(p, w, nil)
	second := r.splitAs(q, w, first)
	first.p.Bufs = second.p.Bufs
	return first.p, second.p, maps.EqualFunc(first.panels, second.panels, func(a, b [][]panels) bool {
		return slices.EqualFunc(a, b, slices.Equal[[]panels])
	})
}

// splitAs rewrites a program, with the additional buffers of another that was rewritten unless that is nil.
func (r Ranks) splitAs(p *nn.Program, w *weights, before *splitting) *splitting {
	whole := map[string]bool{}
	for {
		s := &splitting{
			Ranks: r, rank: r.Group.Rank(), n: r.Group.Count(), w: w, whole: whole,
			panels: map[string][][]panels{}, clashes: map[string]bool{}, states: map[place]stateCut{},
			stages: map[kernel.BufSpec]kernel.Buf{}, locals: map[kernel.BufSpec]map[kernel.Buf]kernel.Buf{},
		}
		from := *p
		if before != nil {
			from.Bufs = before.p.Bufs
			s.stages = maps.Clone(before.stages)
			for spec, of := range before.locals {
				s.locals[spec] = maps.Clone(of)
			}
		}
		if s.Least == 0 {
			s.Least = LeastDivided
		}
		s.program(&from)
		if len(s.clashes) == 0 {
			return s
		}
		maps.Copy(whole, s.clashes)
	}
}

// program rewrites a program.
func (s *splitting) program(p *nn.Program) {
	to := *p
	s.p = &to
	to.Bufs, to.Groups, to.Outputs = slices.Clone(p.Bufs), slices.Clone(p.Groups), slices.Clone(p.Outputs)
	s.divideKV(p)
	for _, o := range p.Outputs {
		if o.Given {
			s.keepWhole(o.Ops)
		}
	}

	s.begin(nil)
	to.Begin = s.list(p.Begin)
	begun := s.portions
	to.Encoder, to.Layers = nil, nil
	for i, ops := range p.Encoder {
		ops = s.list(ops)
		if i == len(p.Encoder)-1 {
			ops = append(ops, s.rest(p, nil)...)
		}
		to.Encoder = append(to.Encoder, ops)
	}
	s.begin(begun)
	var after [][]kernel.Op
	for _, o := range p.Outputs {
		after = append(after, o.Ops) // what outputs of given rows read is rank 0's as well
	}
	if p.Next != nil {
		after = append(after, p.Next.Take)
	}
	for i, ops := range p.Layers {
		ops = s.list(ops)
		if i == len(p.Layers)-1 {
			ops = append(ops, s.rest(p, after)...)
		}
		to.Layers = append(to.Layers, ops)
	}
	made := s.portions
	for i, o := range p.Outputs {
		if o.Given {
			to.Outputs[i].Ops = slices.Clone(o.Ops)
			continue
		}
		s.begin(made)
		to.Outputs[i].Ops = append(s.list(o.Ops), s.collect(o.Buf)...)
	}
	if p.Next != nil {
		next := *p.Next
		to.Next = &next
		alone := func(ops []kernel.Op) []kernel.Op {
			s.begin(nil)
			return append(s.list(ops), s.all()...)
		}
		s.begin(made)
		next.Take = append(s.list(p.Next.Take), s.all()...)
		if len(p.Next.Keep) > 0 {
			s.begin(nil)
			next.Keep = s.list(p.Next.Keep)
		}
		next.Steps = nil
		for _, step := range p.Next.Steps {
			next.Steps = append(next.Steps, nn.NextStep{Step: alone(step.Step), Head: alone(step.Head)})
		}
	}
	s.moveKV()
}

// keepWhole has every rank keep the matrices of operations. An output of given rows is computed by rank 0 alone: the
// others do not have the rows.
func (s *splitting) keepWhole(ops []kernel.Op) {
	for _, op := range ops {
		if mm, ok := op.(kernel.Matmul); ok {
			for _, p := range mm.Parts {
				s.whole[p.Name] = true
			}
		}
	}
}

func (s *splitting) begin(portions []portion) {
	s.portions, s.heads = slices.Clone(portions), map[kernel.Buf]headsCut{}
}

// list rewrites operations.
func (s *splitting) list(ops []kernel.Op) []kernel.Op {
	s.out = nil
	for i, op := range ops {
		s.op(ops, i, op)
	}
	return s.out
}

// rest exchanges what is read of what layers have left: by the lists that come after them, and by whoever aligns sound with
// text.
func (s *splitting) rest(p *nn.Program, lists [][]kernel.Op) []kernel.Op {
	s.out = nil
	s.exchange(kernel.Everyone, func(x portion) bool {
		if a := p.Aligned; a != nil && (x.Dst == a.Keys || x.Dst == a.Queries) {
			return true
		}
		return slices.ContainsFunc(lists, func(ops []kernel.Op) bool { return readsFirst(ops, x.Dst) })
	})
	return s.out
}

// readsFirst reports whether operations may read a buffer before they have written it.
func readsFirst(ops []kernel.Op, b kernel.Buf) bool {
	for _, op := range ops {
		if !mentions(op, b) {
			continue
		}
		mm, ok := op.(kernel.Matmul)
		return !ok || mm.Epilogue == kernel.Add || slices.Contains(slices.Collect(maps.Values(mm.Act)), b)
	}
	return false
}

// collect gives rank 0 the whole of a buffer.
func (s *splitting) collect(b kernel.Buf) []kernel.Op {
	s.out = nil
	s.exchange(0, func(x portion) bool { return x.Dst == b })
	return s.out
}

// all exchanges everything.
func (s *splitting) all() []kernel.Op {
	s.out = nil
	s.exchange(kernel.Everyone, func(portion) bool { return true })
	return s.out
}

// exchange appends operations that exchange some of the portions, those of the same rows at once.
func (s *splitting) exchange(to int, which func(portion) bool) {
	var now []portion
	s.portions = slices.DeleteFunc(s.portions, func(x portion) bool {
		if which(x) {
			now = append(now, x)
			return true
		}
		return false
	})
	for len(now) > 0 {
		spec := rowsOnly(s.p.Bufs[now[0].Dst])
		op := kernel.Share{Ranks: s.Group, Rows: spec.Rows, Route: now[0].route, To: to, Step: s.step}
		s.step++
		now = slices.DeleteFunc(now, func(x portion) bool {
			if rowsOnly(s.p.Bufs[x.Dst]) != spec || x.route != op.Route || len(op.Parts) == kernel.MaxShareParts {
				return false
			}
			op.Parts = append(op.Parts, x.SharePart)
			return true
		})
		op.Stage = s.stage(spec, op.StageWidth())
		s.out = append(s.out, op)
	}
}

// stage returns the buffer that exchanges of such rows lie in, with at least so many columns.
func (s *splitting) stage(rows kernel.BufSpec, width int) kernel.Buf {
	b, ok := s.stages[rows]
	if !ok {
		b = kernel.Buf(len(s.p.Bufs))
		spec := rows
		spec.Kind = kernel.Floats
		s.p.Bufs = append(s.p.Bufs, spec)
		s.stages[rows] = b
	}
	s.p.Bufs[b].Width = max(s.p.Bufs[b].Width, width)
	return b
}

// need has columns from .. to of a buffer, or blocks, exchanged unless all ranks have them.
func (s *splitting) need(b kernel.Buf, from, to int) {
	s.exchange(kernel.Everyone, func(x portion) bool { return x.Dst == b && x.from() < to && from < x.to() })
}

// needs has everything exchanged that an operation mentions, at once.
func (s *splitting) needs(op kernel.Op) {
	s.exchange(kernel.Everyone, func(x portion) bool { return mentions(op, x.Dst) })
}

// at returns where this rank finds its part of what is cut here: where it computed that, apart or not, or, after an
// exchange if it has to be, in its place.
func (s *splitting) at(b kernel.Buf, cut []int) (col int, apart bool) {
	if x := s.find(b, cut[0], cut[s.n]); x != nil && slices.Equal(x.Cut, cut) {
		return x.Own, x.apart
	}
	s.need(b, cut[0], cut[s.n])
	return cut[s.rank], false
}

// inPlace has each rank's part of columns in its place, unless all ranks have them all.
func (s *splitting) inPlace(b kernel.Buf, cut []int) {
	if x := s.find(b, cut[0], cut[s.n]); x == nil || !slices.Equal(x.Cut, cut) || x.apart {
		s.need(b, cut[0], cut[s.n])
	}
}

// find returns the portion that is these columns, or nil.
func (s *splitting) find(b kernel.Buf, from, to int) *portion {
	for i := range s.portions {
		if x := &s.portions[i]; x.Dst == b && x.from() == from && x.to() == to {
			return x
		}
	}
	return nil
}

// written records that columns, or blocks, are written: what was in them is no longer exchanged. What reaches further is,
// before.
func (s *splitting) written(b kernel.Buf, from, to int) {
	s.exchange(kernel.Everyone, func(x portion) bool {
		return x.Dst == b && x.from() < to && from < x.to() && (x.from() < from || to < x.to())
	})
	s.portions = slices.DeleteFunc(s.portions, func(x portion) bool { return x.Dst == b && from <= x.from() && x.to() <= to })
	delete(s.heads, b)
}

// has records that each rank has its part of what is cut here, in its place or apart.
func (s *splitting) has(b kernel.Buf, route kernel.Buf, cut []int, apart bool) {
	if s.p.Bufs[b].Rows != kernel.PairRows {
		route = kernel.NoBuf
	}
	x := portion{kernel.SharePart{Dst: b, Kind: s.p.Bufs[b].Kind, Fine: s.p.Bufs[b].Fine, Cut: cut, Own: cut[s.rank]}, route, apart}
	if apart {
		x.Own = cut[0]
	}
	if same := s.find(b, x.from(), x.to()); same != nil {
		*same = x
		return
	}
	s.portions = append(s.portions, x)
}

// share returns how much a rank computes, of shares.
func (s *splitting) share(rank int) int {
	if s.Shares == nil {
		return 1
	}
	return s.Shares[rank]
}

// shares returns how much all ranks compute.
func (s *splitting) shares() (sum int) {
	for r := range s.n {
		sum += s.share(r)
	}
	return sum
}

// divide returns where n things are divided among the ranks, nil if some rank would have none.
func (s *splitting) divide(n int) []int {
	cut, done, sum := []int{0}, 0, s.shares()
	for r := range s.n {
		done += s.share(r)
		cut = append(cut, n*done/sum)
		if cut[r] >= cut[r+1] {
			return nil
		}
	}
	return cut
}

// units is divide of columns from .. to in whole units.
func (s *splitting) units(from, to, unit int) []int {
	cut := s.divide((to - from + unit - 1) / unit)
	return scaled(cut, from, unit, to)
}

// scaled returns from + unit times each of a cut, at most `to`.
func scaled(cut []int, from, unit, to int) []int {
	if cut == nil {
		return nil
	}
	all := make([]int, len(cut))
	for i, c := range cut {
		all[i] = min(from+c*unit, to)
	}
	return all
}

// multiples reports whether all of a cut but its end is multiples of unit from its beginning.
func multiples(cut []int, unit int) bool {
	for _, c := range cut[:len(cut)-1] {
		if (c-cut[0])%unit != 0 {
			return false
		}
	}
	return true
}
