package engine

import (
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/sched"
)

// An mtp drafts for the texts of an engine with MTP layers of its own model (multi-token prediction), or with a
// head from another file instead: see nn.Next. Its keys and values are beside those of the model's layers, in
// the same blocks, so they go wherever a sequence's state goes. They are computed after each pass, whether or not
// its texts are drafted for, since other texts may continue from there; that takes less than a hundredth of the
// pass. The state at a position also depends on the next token, so at the last position of a prefix that was
// computed for another text, it is that text's: drafts are a little worse there.
type mtp struct {
	e    *Engine
	cost sched.Cost // of the layer's steps

	// Scratch.
	next   []int32 // the token after each token of a pass
	active []*mtpText
	hidden [][]float32
	rows   []int32
}

// An mtpText is the state of a text in the draft layer.
type mtpText struct {
	generate.Proposal
	seq    *Sequence   // the sequence in the last pass
	hidden [][]float32 // after the last evaluated token, then after guesses; the latest only, unless NextSteps > 0
	at     int         // number of evaluated tokens; 0: hidden is not valid
}

// text returns the state of a text in the draft layer, nil if the layer does not draft for the text.
func (m *mtp) text(g *generate.Generation, lib *draft.Library) *mtpText {
	if m == nil || !g.DraftsFrom(m.source()) {
		return nil
	}
	return &mtpText{Proposal: generate.NewProposal(g, m.source(), lib, nil)}
}

// source returns the source of its guesses.
func (m *mtp) source() draft.Source {
	if m.e.model.Config.Head.Arch != "" {
		return draft.Head
	}
	return draft.MTP
}

// bytes returns the memory per text.
func (m *mtp) bytes() int {
	if m == nil {
		return 0
	}
	return 4 * m.e.model.NextWidth() * (1 + m.e.model.NextSteps())
}

// keep updates the layer's state after a pass, when tokens were sampled from it, and keeps the hidden states at
// which the texts that are drafted for continue; texts has nil for the others. The caller holds the device's
// turn. State after a rejected draft is computed too; its positions are overwritten later.
func (m *mtp) keep(items []Item, gens []*generate.Generation, texts []*mtpText) {
	m.next = m.next[:0]
	for k, it := range items {
		first := m.first(it, gens[k])
		for b := range 1 + len(it.Branches) {
			for i := range it.sequence(b) {
				id := int32(0) // unknown, or a medium's
				if at := first + i + 1; at < len(gens[k].Known()) {
					id = max(gens[k].Known()[at], 0)
				}
				m.next = append(m.next, id)
			}
		}
	}
	m.e.runner.KeepNext(m.next)
	row := 0
	for k, it := range items {
		if texts[k] != nil {
			texts[k].at = 0
		}
		for b := range 1 + len(it.Branches) {
			ids := it.sequence(b)
			if t := texts[k]; t != nil && b == t.Gen.Taken() {
				if last := t.Gen.Evaluated() - 1 - m.first(it, t.Gen); last >= 0 && last < len(ids) {
					t.seq, t.at = it.Seq, t.Gen.Evaluated()
					t.hold(0, m.e.runner.Hidden(row+last))
				}
			}
			row += len(ids)
		}
	}
}

// hold sets hidden state i, and drops those after it.
func (t *mtpText) hold(i int, hidden []float32) {
	if i == cap(t.hidden) {
		t.hidden = append(t.hidden[:i], nil)
	}
	t.hidden = t.hidden[:i+1]
	t.hidden[i] = append(t.hidden[i][:0], hidden...)
}

// first returns the index in the text of the first token of its item in the last pass.
func (m *mtp) first(it Item, g *generate.Generation) int {
	return it.Seq.Len() - len(it.IDs) + g.Dropped()
}

// draft runs the layer; each text then proposes its guesses. worth is the time that an accepted token saves,
// verify the additional time of a pass with so many drafts. locked runs what changes the KV pool.
func (m *mtp) draft(texts []*mtpText, worth time.Duration, verify func(drafts int) time.Duration, locked func(func())) {
	active := m.active[:0]
	block, mask := m.e.model.NextBlock()
	room, first, most := min(len(m.e.logits), m.e.batch/max(m.e.model.NextSteps(), 1), m.e.seqs), 0, 0
	if block > 0 {
		first = 1
	}
	for _, t := range texts {
		t.Begin()
		if t.depth() > 0 && len(active) < room {
			active = append(active, t)
		}
	}
	if m.active = active; block > 0 {
		if most = m.most(active, worth, verify); most == 0 {
			return
		}
	} else if !m.pays(active, 0, worth, verify) {
		return
	}
	// The guesses take positions that the drafts of the next pass take again: they are released below.
	grown := active[:0]
	locked(func() {
		for _, t := range active {
			if t.seq.table.Grow(t.depth()+first) == nil {
				grown = append(grown, t)
			}
		}
	})
	defer locked(func() {
		for _, t := range grown {
			t.seq.table.Undo()
			t.at = 0
		}
	})
	active = append([]*mtpText(nil), grown...)
	if block > 0 {
		m.block(active, most, mask)
		return
	}
	for n := 0; len(active) > 0 && m.pays(active, n, worth, verify); n += len(active) {
		m.step(active)
		next := active[:0]
		for _, t := range active {
			if t.GoesOn() && len(t.Found()) < t.depth() {
				next = append(next, t)
			}
		}
		active = next
	}
}

// depth returns how many tokens of the text may be guessed.
func (t *mtpText) depth() int {
	g := t.Gen
	if t.Lost || t.at == 0 || t.at != g.Evaluated() || g.Evaluated() != len(g.Known())-1 || t.Promised() {
		return 0
	}
	at, layout := t.seq.Len(), t.seq.e.kv.Layout()
	if layout.Room(at-1, 2) < 2 { // blocks age before the next pass
		return 0
	}
	n := g.Draftable(min(g.Draft.Max, draft.MaxGuesses, t.seq.e.ctx-at))
	if steps := t.seq.e.model.NextSteps(); steps > 0 {
		n = min(n, steps)
	}
	if block, _ := t.seq.e.model.NextBlock(); block > 0 { // the block begins with the token sampled last
		n = min(n, block-1, t.seq.e.ctx-at-1)
		return max(layout.Room(at, n+1)-1, 0)
	}
	return layout.Room(at, n)
}

// pays reports whether one more guess at each of these texts, after n guesses in all, saves more time than it
// takes.
func (m *mtp) pays(active []*mtpText, n int, worth time.Duration, verify func(int) time.Duration) bool {
	if len(active) == 0 || m.cost.First() == 0 {
		return len(active) > 0 // the first step measures the cost
	}
	gain := 0.0
	for _, t := range active {
		gain += t.Gain()
	}
	took := m.cost.Estimate(m.shape(active)) + verify(n+len(active)) - verify(n)
	return gain*float64(worth) > float64(took)*1.05
}

// shape returns the shape of a step.
func (m *mtp) shape(active []*mtpText) (s sched.Shape) {
	for _, t := range active {
		first := t.first()
		s = s.Add(t.seq.Len()-1+first, len(t.Found())+1-first)
	}
	return s
}

// first returns the first token of the next step, of those after the evaluated text: 0 is the token sampled last,
// then follow the guesses. If each guess has a layer of its own, the next layer has seen none of them, and begins
// at 0.
func (t *mtpText) first() int {
	if t.seq.e.model.NextSteps() > 0 {
		return 0
	}
	return len(t.Found())
}

// step guesses one more token of each text: at first from the token that was sampled last, then from its own last
// guess.
func (m *mtp) step(active []*mtpText) {
	e, shape := m.e, m.shape(active)
	_ = e.device.inTurn(func() error { // the function cannot fail
		start, layer := platform.Clock(), 0
		b := e.runner.Batch()
		b.Reset()
		m.hidden, m.rows = m.hidden[:0], m.rows[:0]
		for _, t := range active {
			b.AddSeq(t.seq.table.Units()...)
			for n := t.first(); n <= len(t.Found()); n++ {
				id := t.Gen.Known()[t.at]
				if n > 0 {
					id = t.Found()[n-1].ID
				}
				at := t.seq.Len() - 1
				if !e.model.NextStays() {
					at += n
				}
				b.Add(id, int32(at))
				t.seq.place(b, at)
			}
			m.hidden = append(m.hidden, t.hidden...)
			m.rows = append(m.rows, int32(len(m.hidden)-1))
			if e.model.NextSteps() > 0 {
				layer = len(t.Found()) // the same for all texts
			}
		}
		e.runner.StepNext(layer, m.hidden, m.rows)
		for i, t := range active {
			logits, hidden := e.runner.Next(i)
			if e.model.NextSteps() > 0 {
				t.hold(len(t.hidden), hidden)
			} else {
				t.hold(0, hidden)
			}
			t.Take(logits, e.runner.NextToken)
		}
		if !e.timeless {
			m.cost.Observe(shape, platform.Clock()-start)
		}
		return nil
	})
}
