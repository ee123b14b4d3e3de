package model

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// nextPlans are the plans of the draft layer (MTP layer or head); nil if there is none. See nn.Next.
type nextPlans struct {
	take, keep   *kernel.Plan
	steps, heads []*kernel.Plan
}

func (n *nextPlans) init(p *nn.Program) (err error) {
	if p.Next == nil {
		return nil
	}
	if n.take, err = kernel.NewPlan(p.Bufs, p.Next.Take...); err != nil {
		return err
	}
	if len(p.Next.Keep) > 0 {
		if n.keep, err = kernel.NewPlan(p.Bufs, p.Next.Keep...); err != nil {
			return err
		}
	}
	for _, of := range p.Next.Steps {
		step, err := kernel.NewPlan(p.Bufs, of.Step...)
		if err != nil {
			return err
		}
		n.steps = append(n.steps, step)
		head, err := kernel.NewPlan(p.Bufs, of.Head...)
		if err != nil {
			return err
		}
		n.heads = append(n.heads, head)
	}
	return nil
}

func (n *nextPlans) all() (list []*kernel.Plan) {
	for _, p := range slices.Concat([]*kernel.Plan{n.take, n.keep}, n.steps, n.heads) {
		if p != nil {
			list = append(list, p)
		}
	}
	return list
}

// Drafts reports whether the model has an MTP layer or a draft head: whether Runners support KeepNext and
// StepNext.
func (m *Model) Drafts() bool { return m.program.Next != nil }

// NextWidth is the width of the hidden states that the draft layer takes.
func (m *Model) NextWidth() int { return m.program.Next.Width }

// NextSteps is how many tokens the draft layer can predict in sequence, each by a step of its own; 0: any
// number, by the same step.
func (m *Model) NextSteps() int {
	if n := len(m.program.Next.Steps); n > 1 {
		return n
	}
	return 0
}

// KeepNext updates the draft layer's state for the batch of the last Forward, given the token that follows
// each token of the batch. Outputs of the batch are lost, but not its hidden states.
func (r *Runner) KeepNext(next []int32) {
	if r.ran == 0 || len(next) != r.ran {
		panic(fmt.Sprintf("model: %d tokens that follow %d", len(next), r.ran))
	}
	r.ran, r.nOut = 0, 0
	r.kept = len(next)
	r.batch.Follow(next)
	if r.lead != nil {
		r.lead.keep(next)
	}
	r.begin()
	ps := &r.plans.next
	ps.take.Run(r.pool, r.bufs, r.batch, r.work.Bytes())
	if ps.keep != nil {
		ps.keep.Run(r.pool, r.bufs, r.batch, r.work.Bytes())
	}
}

// Hidden returns the hidden state after token i of the batch of the last KeepNext. It is valid until the next
// StepNext or Forward.
func (r *Runner) Hidden(i int) []float32 {
	if i < 0 || i >= r.kept {
		panic(fmt.Sprintf("model: hidden state %d of %d", i, r.kept))
	}
	return r.bufs.Row(r.program.Next.Hidden, i)[:r.program.Next.Width]
}

// NextStays reports whether all tokens are predicted at the position of the first.
func (m *Model) NextStays() bool { return m.program.Next.Still }

// NextBlock returns, for a head that predicts a block of tokens at once, the block's size and the mask token
// that stands for all but its first token; 0: tokens are predicted one at a time.
func (m *Model) NextBlock() (n int, mask int32) { return m.program.Next.Block, m.program.Next.Mask }

// StepNext runs step k of the draft layer: it predicts what follows these rows of the batch, given the hidden
// states before all tokens of the batch. The state of a token is stored at the position before its own, which
// is its position in the batch. For a block no hidden states are given, its tokens are at their own
// positions, and these rows themselves are predicted.
func (r *Runner) StepNext(k int, hidden [][]float32, rows []int32) {
	n := len(r.batch.Tokens())
	if n == 0 || len(hidden) != n && r.program.Next.Block == 0 {
		panic(fmt.Sprintf("model: %d hidden states of %d tokens", len(hidden), n))
	}
	if r.lead != nil {
		r.lead.step(k, hidden, rows, r.batch, r.brings)
	}
	r.begin()
	r.ran, r.kept = 0, 0
	for i, h := range hidden {
		dst := r.bufs.Row(r.program.Next.Hidden, i)
		clear(dst[copy(dst, h):])
	}
	ps := &r.plans.next
	r.batch.Look(0, n)
	ps.steps[k].Run(r.pool, r.bufs, r.batch, r.work.Bytes())
	r.batch.SetOut(rows)
	ps.heads[k].Run(r.pool, r.bufs, r.batch, r.work.Bytes())
	r.nNext = len(rows)
}

// Next returns row i of the last StepNext: the logits of the prediction, indexed as NextToken says, and the
// hidden state for the next step. It is valid until the next step or pass.
func (r *Runner) Next(i int) (logits, hidden []float32) {
	if i < 0 || i >= r.nNext {
		panic(fmt.Sprintf("model: prediction %d of %d", i, r.nNext))
	}
	p := r.program.Next
	n := p.NVocab
	if p.IDs == nil {
		n = min(n, r.cfg.NVocab) // a head's vocabulary may be padded
	}
	return r.bufs.Row(p.Logits, i)[:n], r.bufs.Row(p.Out, i)[:p.Width]
}

// NextToken returns the token of logit i in a row of Next.
func (r *Runner) NextToken(i int32) int32 {
	if ids := r.program.Next.IDs; ids != nil {
		return ids[i]
	}
	return i
}
