package engine

import (
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/mem"
)

// Beside its KV blocks a running request needs memory that grows with its text: ids, what drafts come from, what
// samplers know of the text. Each slot has enough of it for a short text. A longer one reserves the rest before it runs
// for the first time, as much as it can come to need, so that it never lacks memory later, and keeps it to its end.

// requestsPurpose is the budget purpose of the memory of running requests besides KV blocks.
const requestsPurpose = "requests"

// slotBytes returns the memory of a slot: what does not depend on the text, and enough for a short text.
func (l *Loop) slotBytes() int {
	if l.e.model.Config.BothWays {
		return l.shortText()
	}
	return generate.Bytes(l.e.model.Config.NVocab, min(maxOut, len(l.e.logits))) + l.e.mtp.bytes() + l.shortText()
}

// shortText returns the memory of a slot for a text: with the usual samplers, of 10,000 tokens.
func (l *Loop) shortText() int { return min(512<<10, 100*l.e.ctx) }

// textBytes returns the maximum memory that a request's text needs. A text that is shifted counts as one of the whole
// context.
func (l *Loop) textBytes(j *job) int {
	n := l.e.ctx
	if j.gen.MaxTokens >= 0 {
		n = min(n, len(j.Prompt)+min(j.gen.MaxTokens, n))
	}
	return mem.Appended(4*n) + j.gen.TextBytes(l.e.model.Config.NVocab, n) + l.e.drafts.textBytes(n) // the ids of its sequence first
}

// accommodate returns those of the admitted requests that have memory for their texts. The others wait, in order, until
// some that run have ended; where none runs, the first ends with a *MemoryError.
func (l *Loop) accommodate(admitted []uint64) (ready []uint64) {
	var first *job // of those that wait
	var lack error
	for _, id := range admitted {
		j := l.jobs[id]
		if more := l.lacking(j); more > 0 {
			if first == nil {
				lack = l.held.Resize(l.held.Bytes() + more)
			}
			if lack != nil {
				if first == nil {
					first = j
				}
				l.sched.Defer(id)
				continue
			}
			j.room = more
		}
		ready = append(ready, id)
	}
	if first != nil && len(ready) == 0 && !l.runs() {
		limit, reason := l.e.device.budget.Limit()
		first.end(&MemoryError{limit, reason, RetryPressure, l.lacking(first), l.e.device.budget.Free(), "its tokens and samplers"})
		l.nudge()
	}
	return ready
}

// lacking returns how much more memory than a slot's the text of a request needs, if it has not reserved that yet.
func (l *Loop) lacking(j *job) uint64 {
	if j.room > 0 || l.given != nil { // the caller's own text is alone
		return 0
	}
	return uint64(max(l.textBytes(j)-l.shortText(), 0))
}

// vacate releases what a request has reserved for its text.
func (l *Loop) vacate(j *job) {
	if j.room > 0 {
		_ = l.held.Resize(l.held.Bytes() - j.room) // shrinking cannot fail
		j.room = 0
	}
}

// runs reports whether a request runs.
func (l *Loop) runs() bool {
	for _, j := range l.jobs {
		if j.seq != nil {
			return true
		}
	}
	return false
}
