package engine

import (
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
)

// RanksStatus is what the ranks of a divided model have done.
type RanksStatus struct {
	Loads     []kernel.RankLoad // of each rank
	Exchanges int64
}

// loads returns what each rank has done so far.
func (r *Ranks) loads() []kernel.RankLoad {
	all := make([]kernel.RankLoad, r.Group.Count())
	for i := range all {
		all[i] = r.Group.Load(i)
	}
	return all
}

// ranksStatus returns what the ranks have done, nil if the model is not divided.
func (e *Engine) ranksStatus() *RanksStatus {
	r := e.config.Ranks
	if r == nil {
		return nil
	}
	return &RanksStatus{Loads: r.loads(), Exchanges: r.Group.Shares()}
}

const (
	slowAfter = time.Minute     // that others have waited for a rank
	slowBusy  = 5 * time.Second // of passes in that time, at least
)

// A slowWatch looks once a minute for a rank that others wait for.
type slowWatch struct {
	loads  func() []kernel.RankLoad
	shares []int
	layers bool
	slow   func(model.Slow) // may be nil

	since time.Time
	had   []kernel.RankLoad // then
	said  bool              // of the minute before
}

// look calls slow if ranks waited for one of them in the last minute, and not in the one before.
func (w *slowWatch) look(now time.Time) {
	if w.had != nil && now.Sub(w.since) < slowAfter {
		return
	}
	has := w.loads()
	did := make([]kernel.RankLoad, len(has))
	for i := range w.had {
		did[i].Computed, did[i].Waited = has[i].Computed-w.had[i].Computed, has[i].Waited-w.had[i].Waited
	}
	slow, found := model.Slowest(did, w.shares, w.layers)
	w.since, w.had = now, has
	if busy := did[0].Computed + did[0].Waited; busy < slowBusy {
		return
	}
	if found && !w.said && w.slow != nil {
		w.slow(slow)
	}
	w.said = found
}
