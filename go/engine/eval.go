package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
)

// A Sequence is a text in the making: its tokens, and their keys and values.
type Sequence struct {
	e     *Engine
	table *kvcache.Table
	ids   []int32
}

// NewSequence returns an empty sequence. Its memory is taken as it grows, from
// what all sequences share.
func (e *Engine) NewSequence() *Sequence { return &Sequence{e: e, table: e.kv.NewTable()} }

// Len returns the number of tokens.
func (s *Sequence) Len() int { return len(s.ids) }

// Tokens returns the ids. They are the sequence's, valid until it changes.
func (s *Sequence) Tokens() []int32 { return s.ids }

// Truncate keeps the first n tokens, or, where the model cannot go on from there,
// fewer: what follows has to be evaluated again. It returns how many are left.
func (s *Sequence) Truncate(n int) int {
	n = s.table.Truncate(n)
	s.ids = s.ids[:n]
	return n
}

// Fork returns a sequence of the same tokens, which shares their memory.
func (s *Sequence) Fork() *Sequence {
	return &Sequence{e: s.e, table: s.table.Fork(), ids: append([]int32(nil), s.ids...)}
}

// Close gives the memory back and leaves the sequence empty.
func (s *Sequence) Close() {
	s.table.Free()
	s.ids = s.ids[:0]
}

// An Item is what one sequence contributes to a pass.
type Item struct {
	Seq  *Sequence
	IDs  []int32          // tokens to append
	Want func(i int) bool // whether to compute the logits after IDs[i]; nil: after the last
}

func (it Item) wants(i int) bool {
	if it.Want == nil {
		return i == len(it.IDs)-1
	}
	return it.Want(i)
}

// Eval appends ids to s, in slices of at most Batch. Unless visit is nil, it is
// called with the logits after each ids[i] for which want(i) holds, or after the
// last when want is nil; they are valid during the call. On an error s keeps the
// slices that were done.
func (e *Engine) Eval(ctx context.Context, s *Sequence, ids []int32, visit func(i int, logits []float32) error, want func(i int) bool) error {
	if err := e.fits(s, len(ids)); err != nil {
		return err
	}
	leave := e.enter()
	defer leave()
	cancel := ctx.Err
	for at := 0; at < len(ids); {
		part := ids[at:min(at+e.batch, len(ids))]
		if err := e.forward(cancel, s, part); err != nil {
			return err
		}
		if visit != nil {
			err := e.visit(e.item[:], func(_, i int) bool {
				if want == nil {
					return at+i == len(ids)-1
				}
				return want(at + i)
			}, func(_, i int, logits []float32) error { return visit(at+i, logits) })
			if err != nil {
				return err
			}
		}
		at += len(part)
	}
	return nil
}

// EvalMany appends to several sequences in one pass, of at most Batch tokens
// together, of at most as many sequences as the Config says. Unless visit is
// nil, it is called with the logits after token i of
// each item that wants them; they are valid during the call. No sequence may be
// in two items. On an error of the pass no sequence has changed.
func (e *Engine) EvalMany(ctx context.Context, items []Item, visit func(item, i int, logits []float32) error) error {
	total, seqs := 0, 0
	for k, it := range items {
		if err := e.fits(it.Seq, len(it.IDs)); err != nil {
			return err
		}
		total += len(it.IDs)
		if len(it.IDs) > 0 {
			seqs++
		}
		for _, other := range items[:k] {
			if other.Seq == it.Seq {
				return errors.New("a sequence is in two items of one pass")
			}
		}
	}
	if total > e.batch {
		return fmt.Errorf("pass of %d tokens, the batch has room for %d", total, e.batch)
	}
	if seqs > e.seqs {
		return fmt.Errorf("pass of %d sequences, the batch has room for %d", seqs, e.seqs)
	}
	leave := e.enter()
	defer leave()
	if err := e.pass(ctx.Err, items); err != nil {
		return err
	}
	if visit == nil {
		return nil
	}
	return e.visit(items, func(k, i int) bool { return items[k].wants(i) }, visit)
}

// fits returns an error when n more tokens go beyond the context.
func (e *Engine) fits(s *Sequence, n int) error {
	if s.Len()+n <= e.ctx {
		return nil
	}
	if s.Len() == 0 {
		return fmt.Errorf("%w: %d tokens in a context of %d", ErrTooLong, n, e.ctx)
	}
	return fmt.Errorf("%w: %d tokens after %d in a context of %d", ErrTooLong, n, s.Len(), e.ctx)
}

// known returns an error that wraps model.ErrToken for ids that no token has.
func (e *Engine) known(ids []int32) error {
	n := e.model.Config.NVocab
	for i, id := range ids {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("%w: token %d is %d, want 0 to %d", model.ErrToken, i, id, n-1)
		}
	}
	return nil
}

// forward is a pass over a single sequence.
func (e *Engine) forward(cancel func() error, s *Sequence, ids []int32) error {
	e.item[0] = Item{Seq: s, IDs: ids}
	return e.pass(cancel, e.item[:])
}

// pass appends the items' tokens to their sequences and runs the model over
// them, without logits. When it fails, it leaves the sequences as they were.
func (e *Engine) pass(cancel func() error, items []Item) error {
	for _, it := range items {
		if err := e.known(it.IDs); err != nil {
			return err
		}
	}
	work, err := e.fill(items)
	if err != nil || !work {
		return err
	}
	if err := e.runner.Forward(cancel); err != nil {
		undo(items)
		return err
	}
	commit(items)
	return nil
}

// fill makes room for the items' tokens and a batch of them. It tells whether
// there are any. When it fails, it leaves the sequences as they were.
func (e *Engine) fill(items []Item) (work bool, err error) {
	b := e.runner.Batch()
	b.Reset()
	for k, it := range items {
		if err := it.Seq.table.Grow(len(it.IDs)); err != nil {
			undo(items[:k])
			return false, err
		}
		if len(it.IDs) == 0 {
			continue
		}
		work = true
		b.AddSeq(it.Seq.table.Units()...)
		for i, id := range it.IDs {
			b.Add(id, int32(it.Seq.Len()+i))
		}
	}
	return work, nil
}

// undo takes back the room that was made for the items' tokens.
func undo(items []Item) {
	for _, it := range items {
		it.Seq.table.Undo()
	}
}

// commit notes that the items' tokens were evaluated.
func commit(items []Item) {
	for _, it := range items {
		it.Seq.table.Commit()
		it.Seq.ids = append(it.Seq.ids, it.IDs...)
	}
}

// visit computes the logits that are wanted of the last pass, some rows at a
// time, and shows them.
func (e *Engine) visit(items []Item, want func(item, i int) bool, show func(item, i int, logits []float32) error) error {
	type place struct{ item, i int }
	var places []place
	rows := e.rows[:0]
	flush := func() error {
		e.runner.Head(rows)
		for k, p := range places {
			if err := show(p.item, p.i, e.runner.Logits(k)); err != nil {
				return err
			}
		}
		rows, places = rows[:0], places[:0]
		return nil
	}
	row, most := int32(0), e.runner.Batch().MaxOut()
	for k, it := range items {
		for i := range it.IDs {
			if want(k, i) {
				rows, places = append(rows, row), append(places, place{k, i})
			}
			row++
			if len(rows) == most {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return flush()
}
