package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// An adaptation rewrites a program so that its products include the terms of LoRA adapters. The program's
// buffers keep their numbers; new ones come after them.
type adaptation struct {
	p        *nn.Program
	adapters []*Adapter // by number; nil where there is none
	rank     int
	used     map[string]bool // matrices that were found
	twins    map[kernel.Buf]kernel.Buf
	deltas   map[kernel.BufSpec]kernel.Buf // of these rows
	reduced  map[kernel.BufSpec]kernel.Buf
}

// adapt returns the program with the adapters, or an error that names a tensor whose products cannot be
// adapted.
func adapt(p *nn.Program, adapters []*Adapter) (*nn.Program, error) {
	to := *p
	to.Bufs = slices.Clone(p.Bufs)
	a := &adaptation{
		p: &to, adapters: adapters, used: map[string]bool{}, twins: map[kernel.Buf]kernel.Buf{},
		deltas: map[kernel.BufSpec]kernel.Buf{}, reduced: map[kernel.BufSpec]kernel.Buf{},
	}
	for _, x := range adapters {
		if x != nil {
			a.rank = max(a.rank, x.Rank)
		}
	}
	var err error
	if to.Begin, err = a.list(p.Begin); err != nil {
		return nil, err
	}
	if to.Encoder, err = a.lists(p.Encoder); err != nil {
		return nil, err
	}
	if to.Layers, err = a.lists(p.Layers); err != nil {
		return nil, err
	}
	to.Outputs = slices.Clone(p.Outputs)
	for i := range to.Outputs {
		if to.Outputs[i].Ops, err = a.list(p.Outputs[i].Ops); err != nil {
			return nil, err
		}
	}
	for _, b := range a.deltas { // see arch: rows 4 KiB apart share a set of the first-level cache
		if w := &to.Bufs[b].Width; *w%1024 == 0 {
			*w += kernel.Panel
		}
	}
	for _, x := range adapters {
		if x == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(x.low)) {
			if !a.used[name] {
				return nil, fmt.Errorf("adapters of %q are not supported", name)
			}
		}
	}
	return &to, nil
}

// adapted returns the model's program, and the one with adapters, whose buffers both have. Ranks divide the second as they
// have divided the first, since they have their parts of the matrices already.
func (m *Model) adapted(adapters []*Adapter) (base, with *nn.Program, err error) {
	if slices.ContainsFunc(adapters, func(x *Adapter) bool { return x != nil && x.magnitudes }) && m.file.Remote() {
		return nil, nil, fmt.Errorf("adapters with magnitudes (DoRA) need the model's rows: %w", errRemote)
	}
	if m.ranks == nil {
		with, err = adapt(m.program, adapters)
		return m.program, with, err
	}
	if m.division.Layers {
		return nil, nil, errors.New("adapters are not supported for a model that is divided by layers; use --split rows")
	}
	for _, x := range adapters {
		if x != nil && x.magnitudes {
			return nil, nil, errors.New("adapters with magnitudes (DoRA) are not supported for a model that is divided among ranks; merge it into the model (quern merge-lora)")
		}
	}
	whole := *m.weights.undivided
	if with, err = adapt(&whole, adapters); err != nil {
		return nil, nil, err
	}
	whole.Bufs = with.Bufs
	base, with, same := m.division.splitBoth(&whole, with, m.weights)
	if !same {
		return nil, nil, errors.New("these adapters are not supported for a model that is divided among ranks: its matrices would be divided in another way")
	}
	return base, with, nil
}

// lists rewrites lists of operations.
func (a *adaptation) lists(lists [][]kernel.Op) (out [][]kernel.Op, err error) {
	for _, ops := range lists {
		if ops, err = a.list(ops); err != nil {
			return nil, err
		}
		out = append(out, ops)
	}
	return out, nil
}

// list rewrites a sequence of operations.
func (a *adaptation) list(ops []kernel.Op) ([]kernel.Op, error) {
	var out []kernel.Op
	for _, op := range ops {
		switch op := op.(type) {
		case kernel.Embed:
			out = append(out, op)
			if low := a.low(op.Table.Name); low != nil && op.By == kernel.ByToken {
				out = append(out, kernel.Adapt{
					Dst: op.Dst, Cols: op.Table.In, Reduced: a.reducedTo(kernel.BufSpec{}), ByToken: true, Add: true, Scale: op.Scale, Low: low,
				})
			}
		case kernel.Matmul:
			adapted, err := a.matmul(&out, op)
			if err != nil {
				return nil, err
			}
			out = append(out, adapted)
		default:
			out = append(out, op)
		}
	}
	return out, nil
}

// low returns each adapter's low-rank matrices for a matrix, nil if none changes it.
func (a *adaptation) low(matrix string) []kernel.LowRank {
	var list []kernel.LowRank
	for i, x := range a.adapters {
		if x == nil {
			continue
		}
		if l, ok := x.low[matrix]; ok {
			if list == nil {
				list = make([]kernel.LowRank, len(a.adapters))
			}
			list[i] = l
			a.used[matrix] = true
		}
	}
	return list
}

// matmul appends to out the operation that computes the adapters' term, and returns the product that adds it.
func (a *adaptation) matmul(out *[]kernel.Op, op kernel.Matmul) (kernel.Op, error) {
	width := 0
	for i, p := range op.Parts {
		low := a.low(p.Name)
		if low == nil {
			continue
		}
		if op.Rows == kernel.HeadRows {
			return nil, fmt.Errorf("adapters of %q are not supported: it is multiplied head by head", p.Name)
		}
		act, err := a.floats(*out, op.Act)
		if err != nil {
			return nil, fmt.Errorf("adapters of %q are not supported: %w", p.Name, err)
		}
		if op.Deltas == nil {
			op.Deltas = slices.Repeat([]int{-1}, len(op.Parts))
		}
		rows := rowsOnly(a.p.Bufs[act])
		op.Deltas[i] = width
		width += kernel.Pad(p.Out)
		gain := 0
		if slices.ContainsFunc(low, func(l kernel.LowRank) bool { return l.Gain != nil }) {
			if op.Gains == nil {
				op.Gains = make([]int, len(op.Parts))
			}
			gain = width
			op.Gains[i] = gain
			width += kernel.Pad(p.Out)
		}
		op.Delta = a.delta(rows, width)
		*out = append(*out, kernel.Adapt{
			Dst: op.Delta, Col: op.Deltas[i], Cols: p.Out, Act: act, Reduced: a.reducedTo(rows), Rows: op.Rows, Route: op.Route,
			Scale: 1, Low: low, Gain: gain,
		})
	}
	return op, nil
}

// rowsOnly returns a buffer spec with the same rows and nothing else.
func rowsOnly(s kernel.BufSpec) kernel.BufSpec {
	return kernel.BufSpec{Rows: s.Rows, NExpert: s.NExpert, NUsed: s.NUsed}
}

// delta returns the buffer for the adapters' term of such rows, with at least so many columns.
func (a *adaptation) delta(rows kernel.BufSpec, width int) kernel.Buf {
	spec := rows
	spec.Kind = kernel.Floats
	return a.buf(a.deltas, rows, spec, width)
}

// reducedTo returns the buffer for A x of such rows.
func (a *adaptation) reducedTo(rows kernel.BufSpec) kernel.Buf {
	spec := rows
	spec.Kind = kernel.ActF32
	return a.buf(a.reduced, rows, spec, kernel.Pad(a.rank))
}

func (a *adaptation) buf(of map[kernel.BufSpec]kernel.Buf, rows, spec kernel.BufSpec, width int) kernel.Buf {
	b, ok := of[rows]
	if !ok {
		b = a.add(spec)
		of[rows] = b
	}
	a.p.Bufs[b].Width = max(a.p.Bufs[b].Width, width)
	return b
}

func (a *adaptation) add(spec kernel.BufSpec) kernel.Buf {
	a.p.Bufs = append(a.p.Bufs, spec)
	return kernel.Buf(len(a.p.Bufs) - 1)
}

// floats returns the activations act as floats, and makes the operation that computes them write floats too.
func (a *adaptation) floats(made []kernel.Op, act kernel.Act) (kernel.Buf, error) {
	if b, ok := act[kernel.ActF32]; ok {
		return b, nil
	}
	for _, kind := range slices.Sorted(maps.Keys(act)) {
		for i := len(made) - 1; i >= 0; i-- {
			if b, ok, err := a.alsoFloats(made, i, kind, act[kind]); ok || err != nil {
				return b, err
			}
		}
	}
	return 0, fmt.Errorf("nothing here makes its input")
}

// alsoFloats makes operation i write floats in addition to the activations b, if it writes those.
func (a *adaptation) alsoFloats(made []kernel.Op, i int, kind kernel.BufKind, b kernel.Buf) (twin kernel.Buf, ok bool, err error) {
	writes := func(act kernel.Act) bool { w, ok := act[kind]; return ok && w == b }
	also := func(act kernel.Act) kernel.Act {
		if twin, ok = act[kernel.ActF32]; !ok {
			act = maps.Clone(act)
			twin = a.twin(b)
			act[kernel.ActF32] = twin
		}
		return act
	}
	switch op := made[i].(type) {
	case kernel.Norm:
		if writes(op.Act) {
			op.Act = also(op.Act)
			made[i] = op
			return twin, true, nil
		}
	case kernel.ToAct:
		if writes(op.Act) {
			op.Act = also(op.Act)
			made[i] = op
			return twin, true, nil
		}
	case kernel.MoeGather:
		if writes(op.Dst) {
			src, err := a.floats(made[:i], op.Src)
			if err != nil {
				return 0, false, err
			}
			op.Dst, op.Src = also(op.Dst), maps.Clone(op.Src)
			op.Src[kernel.ActF32] = src
			made[i] = op
			return twin, true, nil
		}
	}
	return 0, false, nil
}

// twin returns the buffer for the floats of activations.
func (a *adaptation) twin(b kernel.Buf) kernel.Buf {
	t, ok := a.twins[b]
	if !ok {
		spec := a.p.Bufs[b]
		spec.Kind, spec.Fine = kernel.ActF32, false
		t = a.add(spec)
		a.twins[b] = t
	}
	return t
}
