package engine

import (
	"time"

	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/sched"
)

// most returns the best number of tokens of each of these texts to guess at once, 0 if none is worth it.
func (m *mtp) most(active []*mtpText, worth time.Duration, verify func(drafts int) time.Duration) int {
	longest := 0
	for _, t := range active {
		longest = max(longest, t.depth())
	}
	longest = min(longest, len(m.e.logits), m.e.batch-1)
	if m.cost.First() == 0 {
		return longest // the first step measures the cost
	}
	best, n := 0.0, 0
	for k := 1; k <= longest; k++ {
		gain, drafts := 0.0, 0
		for _, t := range active {
			right := 1.0
			for range min(k, t.depth()) {
				right *= t.Judge.Expected()
				gain += right
				drafts++
			}
		}
		took := m.cost.Estimate(m.blocks(active, k)) + verify(drafts)
		if wins := gain*float64(worth) - float64(took)*1.05; wins > best {
			best, n = wins, k
		}
	}
	return n
}

// blocks returns the shape of a step that guesses so many tokens of each text.
func (m *mtp) blocks(active []*mtpText, n int) (s sched.Shape) {
	for _, t := range active {
		k := min(n, t.depth())
		s = s.Add(t.seq.Len(), 1+k)
		s.Rows += k
	}
	return s
}

// block guesses up to n tokens of each text at once: masks behind the token that was sampled last stand for them.
func (m *mtp) block(active []*mtpText, n int, mask int32) {
	for len(active) > 0 {
		k := m.fitting(active, n)
		m.blockStep(active[:k], n, mask)
		active = active[k:]
	}
}

// fitting returns how many of the texts share a step: as many as fit the batch and the rows of logits.
func (m *mtp) fitting(active []*mtpText, n int) (k int) {
	tokens, rows := 0, 0
	for ; k < len(active); k++ {
		own := min(n, active[k].depth())
		if tokens, rows = tokens+1+own, rows+own; tokens > m.e.batch || rows > len(m.e.logits) {
			break
		}
	}
	return k
}

// blockStep guesses up to n tokens of each of these texts.
func (m *mtp) blockStep(active []*mtpText, n int, mask int32) {
	e, shape := m.e, m.blocks(active, n)
	_ = e.device.inTurn(func() error { // the function cannot fail
		start := platform.Clock()
		b := e.runner.Batch()
		b.Reset()
		m.rows = m.rows[:0]
		at := int32(0)
		for _, t := range active {
			b.AddSeq(t.seq.table.Units()...)
			b.Add(t.Gen.Known()[t.at], int32(t.seq.Len()))
			t.seq.place(b, t.seq.Len())
			at++
			for i := range min(n, t.depth()) {
				b.Add(mask, int32(t.seq.Len()+1+i))
				t.seq.place(b, t.seq.Len()+1+i)
				m.rows, at = append(m.rows, at), at+1
			}
		}
		e.runner.StepNext(0, nil, m.rows)
		row := 0
		for _, t := range active {
			k := min(n, t.depth())
			for i := range k {
				logits, _ := e.runner.Next(row + i)
				if t.Take(logits, e.runner.NextToken); !t.GoesOn() {
					break
				}
			}
			row += k
		}
		if !e.timeless {
			m.cost.Observe(shape, platform.Clock()-start)
		}
		return nil
	})
}
