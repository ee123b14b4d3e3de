package engine

import (
	"slices"
	"time"

	"github.com/quern-llm/quern/go/kvcache"
)

// slot is the number under which a running request is reported by Status.
type slot struct {
	job       *job    // nil when free
	ids       []int32 // of the one that ran last, in its namespace
	namespace string
	space     string // the part of it that its adapters are
	was       SlotStatus
}

// takeSlot assigns a slot to a request that begins to run: the requested one if it is free, else the lowest
// free one.
func (l *Loop) takeSlot(j *job) {
	pick := -1
	for i := range l.slots {
		if l.slots[i].job == nil && (pick < 0 || i == j.Request.Slot) {
			pick = i
		}
	}
	// There are as many slots as sequences that can run at a time.
	l.slots[pick].job = j
	j.slot, j.usage.Slot, j.progress.Slot = pick, pick, pick
}

func (l *Loop) freeSlot(j *job) {
	if j.slot >= 0 {
		l.slots[j.slot].was = l.slotStatus(j)
		l.slots[j.slot].was.Busy, l.slots[j.slot].was.Adapters = false, nil
		l.slots[j.slot].job = nil
		j.slot = -1
	}
}

func (l *Loop) slotStatus(j *job) SlotStatus {
	return SlotStatus{
		Busy: true, Request: j.id, Flow: j.Flow, Prompt: j.progress.Total, Cached: j.progress.Cached,
		Evaluated: j.progress.Done, Generated: j.usage.Generated, MaxTokens: j.MaxTokens, Since: j.submitted,
		Adapters: j.adapters,
	}
}

// Status returns a snapshot of the loop.
func (l *Loop) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Slots: make([]SlotStatus, len(l.slots)), Counts: l.counts}
	for i, slot := range l.slots {
		s.Slots[i] = slot.was
		if slot.job != nil {
			s.Slots[i] = l.slotStatus(slot.job)
		}
	}
	s.Queued, s.Parked = l.sched.Queued()
	for _, j := range l.jobs {
		for _, a := range j.adapters {
			if j.slot < 0 && !slices.Contains(s.Asked, a.Adapter) {
				s.Asked = append(s.Asked, a.Adapter)
			}
		}
	}
	s.KV = l.e.kvStatus()
	if d := l.e.drafts; d != nil {
		s.Drafts = &DraftStatus{File: d.e.file.Name(), Size: d.e.file.Size(), Bytes: d.e.taken.Load() + d.e.kv.Reserved(), Ctx: d.e.ctx, KV: d.seen}
	}
	s.Counts.EvictedBlocks = l.tree.Evicted()
	s.Counts.GeneratedTokens = l.generated.Load()
	s.Cost.First, s.Cost.Each = l.sched.Cost.First(), l.sched.Cost.Each()
	s.Cost.Attended, s.Cost.Read = l.sched.Cost.Positions()
	if st, ok := l.e.model.Stream(); ok {
		s.Stream = &st
	}
	s.Ranks = l.e.ranksStatus()
	return s
}

// PromptTime estimates the time of evaluating a prompt of n tokens alone.
func (l *Loop) PromptTime(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sched.Cost.Prompt(n, l.e.batch)
}

// kvStatus returns the use of the pool. The caller must be allowed to use the engine.
func (e *Engine) kvStatus() KVStatus {
	_, idle := e.tree.Bytes()
	return KVStatus{Bytes: e.kv.Limit(), Most: e.kv.Most(), Used: e.kv.Limit() - e.kv.Available(), Cached: idle,
		BlockTokens: kvcache.BlockTokens, Blocks: e.kv.Blocks(e.ctx)}
}

// seeDrafts records the use of the draft model's pool for Status, because only the loop's goroutine may
// access it. The caller holds the lock.
func (l *Loop) seeDrafts() {
	if d := l.e.drafts; d != nil {
		d.seen = d.e.kvStatus()
	}
}
