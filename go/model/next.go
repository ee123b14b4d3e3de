package model

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/arch"
)

// nextPlans are the plans of the layer that drafts; nil where there is none. See arch.Next.
type nextPlans struct{ take, keep, step, head *kernel.Plan }

func (n *nextPlans) init(p *arch.Program) (err error) {
	if p.Next == nil {
		return nil
	}
	for _, of := range []struct {
		plan **kernel.Plan
		ops  []kernel.Op
	}{{&n.take, p.Next.Take}, {&n.keep, p.Next.Keep}, {&n.step, p.Next.Step}, {&n.head, p.Next.Head}} {
		if *of.plan, err = kernel.NewPlan(p.Bufs, of.ops...); err != nil {
			return err
		}
	}
	return nil
}

func (n *nextPlans) all() (list []*kernel.Plan) {
	for _, p := range []*kernel.Plan{n.take, n.keep, n.step, n.head} {
		if p != nil {
			list = append(list, p)
		}
	}
	return list
}

// Drafts reports whether a layer of the model predicts further tokens: whether Runners have KeepNext and StepNext.
func (m *Model) Drafts() bool { return m.program.Next != nil }

// KeepNext has the layer that drafts keep what it needs of the batch that Forward ran last, given the token that follows
// each of the batch. Outputs of the batch are lost, but not its hidden states.
func (r *Runner) KeepNext(next []int32) {
	if r.ran == 0 || len(next) != r.ran {
		panic(fmt.Sprintf("model: %d tokens that follow %d", len(next), r.ran))
	}
	r.ran, r.nOut = 0, 0
	r.kept = len(next)
	r.batch.Follow(next)
	ps := &r.plans.next
	ps.take.Run(r.pool, r.bufs, r.batch, r.work.Bytes())
	ps.keep.Run(r.pool, r.bufs, r.batch, r.work.Bytes())
}

// Hidden returns the hidden state after token i of the batch that KeepNext was called for last. It is valid until the next
// StepNext or Forward.
func (r *Runner) Hidden(i int) []float32 {
	if i < 0 || i >= r.kept {
		panic(fmt.Sprintf("model: hidden state %d of %d", i, r.kept))
	}
	return r.bufs.Row(r.program.Next.Hidden, i)[:r.cfg.NEmbd]
}

// StepNext has the layer that drafts predict what follows the tokens of the batch, given the hidden states before them. It
// keeps what it needs of them at the position before theirs, which is where they are in the batch.
func (r *Runner) StepNext(hidden [][]float32) {
	n := len(r.batch.Tokens())
	if n == 0 || len(hidden) != n {
		panic(fmt.Sprintf("model: %d hidden states of %d tokens", len(hidden), n))
	}
	r.ran, r.kept = 0, 0
	rows := make([]int32, n)
	for i, h := range hidden {
		rows[i] = int32(i)
		dst := r.bufs.Row(r.program.Next.Hidden, i)
		clear(dst[copy(dst, h):])
	}
	ps := &r.plans.next
	r.batch.Look(0, n)
	ps.step.Run(r.pool, r.bufs, r.batch, r.work.Bytes())
	r.batch.SetOut(rows)
	ps.head.Run(r.pool, r.bufs, r.batch, r.work.Bytes())
	r.nNext = n
}

// Next returns row i of the last StepNext: the logits of what follows, and the hidden state to go on with. It is valid until
// the next step or pass.
func (r *Runner) Next(i int) (logits, hidden []float32) {
	if i < 0 || i >= r.nNext {
		panic(fmt.Sprintf("model: prediction %d of %d", i, r.nNext))
	}
	p := r.program.Next
	return r.bufs.Row(p.Logits, i)[:r.cfg.NVocab], r.bufs.Row(p.Out, i)[:r.cfg.NEmbd]
}
