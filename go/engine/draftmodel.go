package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/sched"
)

// A draftModel drafts for the texts of an engine with a smaller model on the same device. All these texts share
// its passes. It is used by one goroutine, the engine's.
type draftModel struct {
	e    *Engine
	cost sched.Cost // of the draft model's passes

	mine, theirs generate.Vocabulary // vocabularies of the model and of the draft model; nil: they are the same

	failed func(error)   // called with the error when drafting pauses
	off    time.Time     // end of the pause
	pause  time.Duration // length of the last pause, 0 after a successful pass
	seen   KVStatus      // of the draft model's pool, under the lock of the Loop

	// The current pass.
	items []Item
	owner []*modelText
}

// A modelText is the state of a text in the draft model.
type modelText struct {
	generate.Proposal           // lost if there is no memory for the text, or the draft model lacks one of its tokens
	space             string    // name space in the prefix cache
	seq               *Sequence // evaluated tokens; nil: none yet
	work              *Sequence // seq, or a fork of it, extended by the guesses of this round
}

// textBytes returns the maximum memory of a text of n tokens in the draft model, without keys and values: the ids,
// those of a fork, and those in the other vocabulary.
func (m *draftModel) textBytes(n int) int {
	if m == nil {
		return 0
	}
	return 3 * mem.Appended(4*min(n, m.e.ctx))
}

// DraftWith lets another engine, on the same device, draft for the texts of e whose Params have draft.Model among
// their sources. From then on d belongs to e's goroutine; the caller closes it after e. If d fails, texts
// continue without it for a while, and failed, unless nil, is called with the error on that goroutine.
func (e *Engine) DraftWith(d *Engine, failed func(error)) error {
	switch {
	case d.device != e.device:
		return errors.New("a draft model on another device")
	case d.model.Config.OnePass():
		return errors.New("a draft model that reads whole texts cannot continue one")
	}
	e.drafts = &draftModel{e: d, failed: failed}
	return nil
}

// DraftByText is DraftWith for an engine with another vocabulary: texts are converted from one vocabulary to the
// other. Both vocabularies are used by any goroutine.
func (e *Engine) DraftByText(d *Engine, mine, theirs generate.Vocabulary, failed func(error)) error {
	err := e.DraftWith(d, failed)
	if err == nil {
		e.drafts.mine, e.drafts.theirs = mine, theirs
	}
	return err
}

// text returns the state of a text in the draft model, nil if it does not draft for the text.
func (m *draftModel) text(g *generate.Generation, lib *draft.Library, space string) *modelText {
	if m == nil || !g.DraftsFrom(draft.Model) || g.Shift.Limit > 0 {
		return nil
	}
	var translation *generate.Translation
	if m.theirs != nil {
		translation = generate.NewTranslation(m.mine, m.theirs, m.e.kv.Layout().Recurrent())
	}
	return &modelText{Proposal: generate.NewProposal(g, draft.Model, lib, translation), space: space}
}

// close adds the state of the text to the draft model's prefix cache, for texts that continue it, and releases
// it.
func (t *modelText) close() {
	if t == nil || t.seq == nil {
		return
	}
	t.seq.Truncate(kvcache.Common(t.seq.ids, t.Known()))
	t.seq.e.tree.Keep(t.space, t.seq.table, t.seq.ids, kvcache.How{End: true})
	t.seq.Close()
	t.seq = nil
}

// drop releases the state of the text.
func (t *modelText) drop() {
	if t.seq != nil {
		t.seq.Close()
		t.seq = nil
	}
}

// draft runs the draft model; each text then proposes its guesses. worth is the time that an accepted token
// saves, verify the additional time of a pass with so many drafts. If the draft model fails, there are no
// guesses, now and for a while.
func (m *draftModel) draft(texts []*modelText, worth time.Duration, verify func(drafts int) time.Duration) {
	for _, t := range texts {
		t.Begin()
	}
	if time.Now().Before(m.off) {
		return
	}
	err := m.guess(texts, worth, verify)
	for _, t := range texts {
		if t.work != nil && t.work != t.seq {
			t.work.Close()
		}
		if t.work = nil; err != nil || t.Lost {
			t.drop()
		}
		if err != nil {
			t.Drop()
		}
	}
	if err != nil {
		m.fail(err)
	}
}

// The pause after a failure starts at leastPause, and doubles if the next attempt fails too, up to mostPause.
const leastPause, mostPause = time.Minute, time.Hour

// fail starts a pause.
func (m *draftModel) fail(why error) {
	m.pause = min(max(2*m.pause, leastPause), mostPause)
	m.off = time.Now().Add(m.pause)
	if m.failed != nil {
		m.failed(why)
	}
}

// guess runs the draft model. A panic becomes an error, since it is not the fault of a request.
func (m *draftModel) guess(texts []*modelText, worth time.Duration, verify func(drafts int) time.Duration) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the draft model panicked: %v\n%s", v, debug.Stack())
		}
	}()
	var active []*modelText
	room := m.e.batch // of the first pass; later ones have one token per text
	for _, t := range texts {
		if !t.Lost {
			t.Read(m.e.ctx)
		}
		if t.Lost {
			continue
		}
		n := len(t.Known())
		if n == 0 || n+draft.MaxGuesses >= m.e.ctx || t.Promised() || t.Gen.Draftable(1) == 0 {
			continue
		}
		if t.attach(m.e); t.seq.Len() == n { // nothing new to evaluate, and recurrent state cannot be rolled back
			continue
		}
		if ok, err := m.catchUp(t, worth); err != nil {
			return err
		} else if !ok {
			continue
		}
		if lag := n - t.seq.Len(); lag <= room && len(active) < m.e.seqs {
			active, room = append(active, t), room-lag
		} // else it waits until the others have less to catch up
	}
	for n := 0; len(active) > 0 && m.pays(active, n, worth, verify); n += len(active) {
		if err := m.step(active); err != nil {
			return err
		}
		next := active[:0]
		for _, t := range active {
			if t.GoesOn() {
				next = append(next, t)
			}
		}
		active = next
	}
	for _, t := range texts {
		t.Translate()
	}
	return nil
}

// attach finds the draft model's state for the longest prefix of the text.
func (t *modelText) attach(e *Engine) {
	if t.seq == nil {
		known := t.Known()
		t.seq = &Sequence{e: e, table: e.tree.Find(t.space, known[:len(known)-1])}
		t.seq.ids = append(t.seq.ids, known[:t.seq.table.Len()]...)
		return
	}
	shared, most := kvcache.Common(t.seq.ids, t.Known()), len(t.Known())-1
	if !t.Translates() || !e.kv.Layout().Recurrent() {
		shared = min(shared, most)
	}
	t.seq.Truncate(shared)
}

// soon returns how many tokens the draft model may have to catch up with in the pass that drafts.
func (m *draftModel) soon() int { return min(48, m.e.batch) }

// catchUp evaluates a part of the text that the draft model lacks, if that pays, and reports whether the rest
// fits in the pass that drafts.
func (m *draftModel) catchUp(t *modelText, worth time.Duration) (bool, error) {
	known := t.Known()
	lag := len(known) - t.seq.Len()
	if lag <= m.soon() {
		return true, nil
	}
	left := expectedTokens
	if t.Gen.MaxTokens >= 0 {
		left = min(left, t.Gen.MaxTokens-t.Gen.Generated())
	}
	// A generated token saves `worth` as often as a guess is right, less the time of the guess.
	saves := t.Judge.Expected()*float64(worth) - float64(m.cost.Estimate(sched.ShapeOf(len(known), 1)))
	shape := sched.ShapeOf(t.seq.Len(), min(lag, m.e.batch))
	if all := m.cost.Estimate(shape) * time.Duration(lag) / time.Duration(shape.Tokens); float64(all) > float64(left)*saves/2 {
		return false, nil
	}
	n := min(lag-1, m.e.batch)
	for n > m.soon() && m.cost.Estimate(sched.ShapeOf(t.seq.Len(), n)) > 2*worth {
		n /= 2 // in slices: others wait for their tokens
	}
	m.items, m.owner = append(m.items[:0], Item{Seq: t.seq, IDs: known[t.seq.Len() : t.seq.Len()+n]}), append(m.owner[:0], t)
	if err := m.pass(); err != nil || t.Lost {
		return false, err
	}
	return len(known)-t.seq.Len() <= m.soon(), nil
}

// expectedTokens is the assumed number of tokens still to be generated.
const expectedTokens = 256

// pays reports whether one more guess at each of these texts, after n guesses in all, saves more time than it
// takes.
func (m *draftModel) pays(active []*modelText, n int, worth time.Duration, verify func(int) time.Duration) bool {
	if m.cost.First() == 0 {
		return true // the first step measures the cost
	}
	var shape sched.Shape
	gain := 0.0
	for _, t := range active {
		gain += t.Gain()
		fresh := 1
		if len(t.Found()) == 0 {
			fresh = len(t.Known()) - t.seq.Len()
		}
		shape = shape.Add(t.seq.Len()+len(t.Found()), fresh)
	}
	shape.Rows = len(active)
	took := m.cost.Estimate(shape) + verify(n+len(active)) - verify(n)
	return gain*float64(worth) > float64(took)*1.05
}

// step guesses one more token of each text.
func (m *draftModel) step(active []*modelText) error {
	m.items, m.owner = m.items[:0], m.owner[:0]
	for _, t := range active {
		it := Item{Seq: t.work, Rows: 1}
		if len(t.Found()) == 0 {
			it.Seq, it.IDs = t.seq, t.Known()[t.seq.Len():]
		} else {
			it.IDs = []int32{t.Found()[len(t.Found())-1].ID}
		}
		m.items, m.owner = append(m.items, it), append(m.owner, t)
	}
	return m.pass()
}

// pass runs the items. A text with tokens that the draft model does not have is lost. If memory is short, the
// longest text is lost too, until the others fit.
func (m *draftModel) pass() error {
	for i := len(m.items) - 1; i >= 0; i-- {
		if known(m.items[i].IDs, m.e.model.Config.NVocab) != nil {
			m.lose(i)
		}
	}
	for len(m.items) > 0 {
		err := m.try()
		if !errors.Is(err, kvcache.ErrFull) {
			return err
		}
		longest := 0
		for i, it := range m.items {
			if it.Seq.Len() > m.items[longest].Seq.Len() {
				longest = i
			}
		}
		m.lose(longest)
	}
	return nil
}

// lose removes an item, and ends drafting for its text.
func (m *draftModel) lose(i int) {
	t := m.owner[i]
	if t.Lost = true; t.work != t.seq && t.work != nil {
		t.work.Close()
	}
	t.work = nil
	t.drop()
	m.items, m.owner = slices.Delete(m.items, i, i+1), slices.Delete(m.owner, i, i+1)
}

// try runs the items.
func (m *draftModel) try() error {
	shape := sched.Shape{}
	for _, it := range m.items {
		shape = shape.Add(it.Seq.Len(), len(it.IDs))
		shape.Rows += it.Rows
	}
	return m.e.device.inTurn(func() error {
		start := platform.Clock()
		if err := m.e.pass(canceler{ctx: context.Background()}, m.items); err != nil {
			return err
		}
		err := m.e.heads(m.items, func(parts []part) error {
			for _, p := range parts {
				for _, row := range p.rows {
					m.take(m.owner[p.item], row)
				}
			}
			return nil
		})
		if !m.e.timeless {
			m.cost.Observe(shape, platform.Clock()-start)
		}
		if err == nil {
			m.pause = 0
		}
		return err
	})
}

// take adds the likeliest token as the next guess. Logits without one end drafting for the text.
func (m *draftModel) take(t *modelText, logits []float32) {
	if !t.Translates() {
		logits = logits[:min(len(logits), t.Gen.Vocab)] // either vocabulary may be padded
	}
	first := len(t.Found()) == 0
	if t.Take(logits, func(i int32) int32 { return i }); !first || t.Lost {
		return
	}
	if t.work = t.seq; m.e.kv.Layout().Recurrent() {
		t.seq.table.Settle()
		t.work = t.seq.Fork()
	}
}
