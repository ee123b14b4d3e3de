package engine

import (
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/sched"
)

// An mtp drafts for the texts of an engine with a layer of its own model, which predicts a token further on (multi-token
// prediction), or with a head of another file in its place: see arch.Next. Its keys and values are beside those of the model's layers, in the same blocks, so they go
// wherever a text's state goes. They are kept after each pass, whether or not its texts are drafted for, which takes less than a
// hundredth of the pass: other texts may go on from there. What it keeps of a position follows from the token after
// that as well, so of a prefix that another text was computed for, that of the last position is the other's: drafts are a
// little worse there.
type mtp struct {
	e    *Engine
	cost sched.Cost // of its steps

	// Scratch.
	next   []int32 // tokens that follow those of a pass
	active []*mtpText
	hidden [][]float32
	rows   []int32
}

// An mtpText is a text as the layer has it.
type mtpText struct {
	proposal
	seq    *Sequence   // of the last pass
	hidden [][]float32 // after the last token that is evaluated, and, where each guess has a layer of its own, after those before the last; else only the last
	at     int         // how many tokens these were; 0: nothing is known of them
}

// text returns a text for the layer, nil where it is not asked for.
func (m *mtp) text(g *Generation, lib *draft.Library) *mtpText {
	if m == nil || g.drafter == nil || g.Draft.Record != nil || !g.Draft.Sources.Has(m.source()) {
		return nil
	}
	return &mtpText{proposal: proposal{gen: g, source: m.source(), judge: lib.Judge(m.source())}}
}

// source is what its guesses are called.
func (m *mtp) source() draft.Source {
	if m.e.model.Config.Head.Arch != "" {
		return draft.Head
	}
	return draft.MTP
}

// bytes returns the memory that a text takes.
func (m *mtp) bytes() int {
	if m == nil {
		return 0
	}
	return 4 * m.e.model.NextWidth() * (1 + m.e.model.NextSteps())
}

// keep has the layer keep what it needs of the last pass, when tokens were sampled from it, and notes where the texts that are
// drafted for go on: texts has nil for the others. The caller holds the device's turn. What follows a rejected draft is kept
// as well; its positions are written again.
func (m *mtp) keep(items []Item, gens []*Generation, texts []*mtpText) {
	m.next = m.next[:0]
	for k, it := range items {
		first := m.first(it, gens[k])
		for b := range 1 + len(it.Branches) {
			for i := range it.sequence(b) {
				id := int32(0) // of which nothing is known
				if at := first + i + 1; at < len(gens[k].ids) {
					id = gens[k].ids[at]
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
			if t := texts[k]; t != nil && b == t.gen.taken {
				if last := t.gen.done - 1 - m.first(it, t.gen); last >= 0 && last < len(ids) {
					t.seq, t.at = it.Seq, t.gen.done
					t.hold(0, m.e.runner.Hidden(row+last))
				}
			}
			row += len(ids)
		}
	}
}

// hold makes a hidden state the i-th and the last.
func (t *mtpText) hold(i int, hidden []float32) {
	if i == cap(t.hidden) {
		t.hidden = append(t.hidden[:i], nil)
	}
	t.hidden = t.hidden[:i+1]
	t.hidden[i] = append(t.hidden[i][:0], hidden...)
}

// first returns which token of a text was the first of its item in the last pass.
func (m *mtp) first(it Item, g *Generation) int { return it.Seq.Len() - len(it.IDs) + g.dropped }

// draft has the layer guess how texts go on, for each to propose. A token that is accepted is worth some time, and verify is what a
// pass takes longer for so many drafts. locked runs what changes the pool of keys and values.
func (m *mtp) draft(texts []*mtpText, worth time.Duration, verify func(drafts int) time.Duration, locked func(func())) {
	active := m.active[:0]
	block, mask := m.e.model.NextBlock()
	room, first, most := min(len(m.e.logits), m.e.batch/max(m.e.model.NextSteps(), 1), m.e.seqs), 0, 0
	if block > 0 {
		first = 1
	}
	for _, t := range texts {
		t.begin()
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
	// The positions of guesses are those of the drafts to come: whoever verifies them takes the same memory again.
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
			if t.goesOn() && len(t.found) < t.depth() {
				next = append(next, t)
			}
		}
		active = next
	}
}

// depth returns how many tokens of the text may be guessed.
func (t *mtpText) depth() int {
	g := t.gen
	if t.lost || t.at == 0 || t.at != g.done || g.done != len(g.ids)-1 || t.promised() {
		return 0
	}
	at, layout := t.seq.Len(), t.seq.e.kv.Layout()
	if at == 0 || layout.Room(at-1, 2) < 2 { // blocks age before the next token
		return 0
	}
	n := g.draftable(min(g.Draft.Max, draft.MaxGuesses, t.seq.e.ctx-at))
	if steps := t.seq.e.model.NextSteps(); steps > 0 {
		n = min(n, steps)
	}
	if block, _ := t.seq.e.model.NextBlock(); block > 0 { // before whose guesses is the token that was sampled last
		n = min(n, block-1, t.seq.e.ctx-at-1)
		return max(layout.Room(at, n+1)-1, 0)
	}
	return layout.Room(at, n)
}

// pays reports whether one more token of each of these texts, after n in all, takes less time than it saves.
func (m *mtp) pays(active []*mtpText, n int, worth time.Duration, verify func(int) time.Duration) bool {
	if len(active) == 0 || m.cost.First() == 0 {
		return len(active) > 0 // one try tells what it costs
	}
	gain := 0.0
	for _, t := range active {
		gain += t.reach * t.judge.Expected()
	}
	took := m.cost.Estimate(m.shape(active)) + verify(n+len(active)) - verify(n)
	return gain*float64(worth) > float64(took)*1.05
}

// shape is that of a step.
func (m *mtp) shape(active []*mtpText) (s sched.Shape) {
	for _, t := range active {
		first := t.first()
		s = s.Add(t.seq.Len()-1+first, len(t.found)+1-first)
	}
	return s
}

// first returns which of the tokens behind the text, the one sampled last and then the guesses, the next step begins with. A layer that
// guesses one of several tokens has seen none of them.
func (t *mtpText) first() int {
	if t.seq.e.model.NextSteps() > 0 {
		return 0
	}
	return len(t.found)
}

// step guesses one more token of each text: the first after the token that was sampled last, then after its own guess.
func (m *mtp) step(active []*mtpText) {
	e, shape := m.e, m.shape(active)
	_ = e.device.inTurn(func() error { // what is run cannot fail
		start, layer := time.Now(), 0
		b := e.runner.Batch()
		b.Reset()
		m.hidden, m.rows = m.hidden[:0], m.rows[:0]
		for _, t := range active {
			b.AddSeq(t.seq.table.Units()...)
			for n := t.first(); n <= len(t.found); n++ {
				id := t.gen.ids[t.at]
				if n > 0 {
					id = t.found[n-1].ID
				}
				at := t.seq.Len() - 1
				if !e.model.NextStays() {
					at += n
				}
				b.Add(id, int32(at))
			}
			m.hidden = append(m.hidden, t.hidden...)
			m.rows = append(m.rows, int32(len(m.hidden)-1))
			if e.model.NextSteps() > 0 {
				layer = len(t.found) // as of all others
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
			t.take(logits, e.runner.NextToken)
		}
		if !e.timeless {
			m.cost.Observe(shape, time.Since(start))
		}
		return nil
	})
}
