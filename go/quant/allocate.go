package quant

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// allocated are the types among which an Allocation chooses, where they fit a tensor's rows and are smaller than what it is.
var allocated = []gguf.Type{
	gguf.IQ1_S, gguf.IQ1_M, gguf.IQ2_XXS, gguf.IQ2_XS, gguf.IQ2_S, gguf.Q2_K, gguf.IQ3_XXS, gguf.IQ3_S, gguf.Q3_K,
	gguf.IQ4_XS, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.Q8_0,
}

// trellis are the types among which it chooses where options say so: few programs read them.
var trellis = []gguf.Type{gguf.IQ1_KT, gguf.IQ2_KT, gguf.IQ3_KT, gguf.IQ4_KT}

// An Allocation gives bits to tensors where they lower the loss most. The loss is taken to be the sum over tensors of
// Weight times Error, as it is for errors that are small and independent.
type Allocation struct {
	Tensors []Allocated // in the order in which they are written
}

// An Allocated is a tensor with the types that it may have.
type Allocated struct {
	Types  []Sized // by size, each larger than the one before with a smaller error
	Weight float64 // what an error as large as the tensor itself adds to the loss; supposed, until it was measured
	chosen int     // of Types
}

// A Sized is a choice, what it takes and what it spoils.
type Sized struct {
	Choice
	Bytes uint64
	// Error is the squared error of what the tensor's matrices make of what they are multiplied by, over the square of
	// that: sums over the weights, each times the importance of its column.
	Error float64
}

// NewAllocation encodes the tensors of a job's file as each type that they may have, to see what that spoils. Of a large
// tensor it takes rows from all over. Tensors that no mix quantizes, or that options name, have no choice.
func NewAllocation(ctx context.Context, j *Job, o Options) (*Allocation, error) {
	a, types := &Allocation{}, allocated
	if o.Trellis {
		types = slices.Concat(allocated, trellis)
	}
	for _, t := range types {
		// A mix of one type finds which tensors are taken, and what fits their rows.
		o.Pure = true
		choices, err := Choose(j.From, Mix{Base: t}, o)
		if err != nil {
			return nil, err
		}
		if a.Tensors == nil {
			a.Tensors = make([]Allocated, len(choices))
		}
		for i, c := range choices {
			if c.Wanted == t {
				c.Wanted = c.To
			}
			if x := &a.Tensors[i]; !slices.ContainsFunc(x.Types, func(s Sized) bool { return s.To == c.To }) {
				x.Types = append(x.Types, Sized{Choice: c})
			}
		}
	}
	last, weight := lastMatrix(j.From)
	for i := range a.Tensors {
		x := &a.Tensors[i]
		x.Weight = 1
		if x.Types[0].Name == last {
			x.Weight = weight
		}
		if err := x.prepare(j); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", x.Types[0].Name, err)
		}
		if len(x.Types) > 1 {
			if err := j.measure(ctx, x.Types); err != nil {
				return nil, fmt.Errorf("tensor %s: %w", x.Types[0].Name, err)
			}
			x.prune()
		}
		if j.Done != nil {
			j.read += uint64(len(x.Types[0].Data))
			j.Done(j.read)
		}
	}
	j.read = 0
	a.reset()
	return a, nil
}

// lastMatrix returns the matrix of which logits come, and what its errors are taken to count beside those of others: it makes
// all of them, and a layer's matrices one of the parts of which the hidden state is the sum, two to a layer.
func lastMatrix(f *gguf.File) (name string, weight float64) {
	weight = 1
	if arch, err := f.Str("general.architecture"); err == nil {
		if n, err := f.Uint(arch + ".block_count"); err == nil {
			weight = float64(max(n, 1))
		}
	}
	if name = "output.weight"; !slices.ContainsFunc(f.Tensors, func(t gguf.Tensor) bool { return t.Name == name }) {
		name = "token_embd.weight"
	}
	return name, weight
}

// prepare completes the types of a tensor: those that it can have, and the best of all.
func (x *Allocated) prepare(j *Job) error {
	of := x.Types[0].Choice
	if len(x.Types) > 1 { // else it has no choice
		top := of.Type
		if top == gguf.F32 {
			top = gguf.F16
		}
		limit := RowBytes(top, int(of.Dims[0]))
		importance, err := j.Importance.of(of.Tensor)
		if err != nil {
			return err
		}
		x.Types = slices.DeleteFunc(x.Types, func(s Sized) bool {
			return RowBytes(s.To, int(s.Dims[0])) >= limit || importance == nil && needsImportance(&s.Choice, Mix{})
		})
		of.To, of.Wanted = top, top
		x.Types = append(x.Types, Sized{Choice: of})
	}
	for i := range x.Types {
		s := &x.Types[i]
		if len(x.Types) > 1 && s.To != s.Type {
			if err := j.check(&s.Choice); err != nil {
				return err
			}
		}
		size, err := s.To.Size(s.Dims)
		if err != nil {
			return err
		}
		s.Bytes = size
	}
	return nil
}

// prune sorts the types and leaves out those of which another is smaller and no worse.
func (x *Allocated) prune() {
	slices.SortStableFunc(x.Types, func(a, b Sized) int {
		return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Error, b.Error))
	})
	best := x.Types[:1]
	for _, s := range x.Types[1:] {
		if s.Error < best[len(best)-1].Error {
			best = append(best, s)
		}
	}
	x.Types = best
}

func (a *Allocation) reset() {
	for i := range a.Tensors {
		a.Tensors[i].chosen = 0
	}
}

// Bounds returns the bytes of the smallest and of the largest choice.
func (a *Allocation) Bounds() (least, most uint64) {
	for _, x := range a.Tensors {
		least += x.Types[0].Bytes
		most += x.Types[len(x.Types)-1].Bytes
	}
	return least, most
}

// Elems returns the number of weights.
func (a *Allocation) Elems() (n uint64) {
	for _, x := range a.Tensors {
		n += x.Types[0].Elems()
	}
	return n
}

// A step is a larger type for a tensor.
type step struct {
	tensor, to int
	gain       float64 // loss that a byte takes away
}

// next returns the step of tensor i that takes away most for a byte, among those of at most room bytes.
func (a *Allocation) next(i int, room uint64) (best step, ok bool) {
	x := &a.Tensors[i]
	now := x.Types[x.chosen]
	for to := x.chosen + 1; to < len(x.Types) && x.Types[to].Bytes-now.Bytes <= room; to++ {
		gain := x.Weight * (now.Error - x.Types[to].Error) / float64(x.Types[to].Bytes-now.Bytes)
		if !ok || gain > best.gain {
			best, ok = step{i, to, gain}, true
		}
	}
	return best, ok
}

// Fill chooses types of at most the given bytes in total, at least what Bounds says. From the smallest of all it takes the
// step that is worth most to the byte while one fits: steps along the convex hull of each tensor's sizes and losses are worth
// less and less, so that all tensors end at one price of a byte, which is the optimum but for what remains at the end.
func (a *Allocation) Fill(budget uint64) []Choice {
	a.reset()
	least, _ := a.Bounds()
	for room := budget - min(least, budget); ; {
		var best step
		found := false
		for i := range a.Tensors {
			if s, ok := a.next(i, room); ok && (!found || s.gain > best.gain) {
				best, found = s, true
			}
		}
		if !found {
			break
		}
		x := &a.Tensors[best.tensor]
		room -= x.Types[best.to].Bytes - x.Types[x.chosen].Bytes
		x.chosen = best.to
	}
	choices := make([]Choice, len(a.Tensors))
	for i, x := range a.Tensors {
		choices[i] = x.Types[x.chosen].Choice
	}
	return choices
}

// Chosen returns what was chosen last for the i-th tensor, and its error.
func (a *Allocation) Chosen(i int) Sized { return a.Tensors[i].Types[a.Tensors[i].chosen] }

// MixOf returns the mix whose type most weights have, which is what a file's metadata says of it.
func MixOf(choices []Choice) Mix {
	weights := map[gguf.Type]uint64{}
	for _, c := range choices {
		weights[c.To] += c.Elems()
	}
	best := mixes[0]
	for _, m := range mixes {
		if weights[m.Base] > weights[best.Base] && !strings.HasSuffix(m.Name, "_MOE") {
			best = m
		}
	}
	return best
}
