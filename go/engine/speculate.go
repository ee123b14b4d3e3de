package engine

import (
	"slices"
	"time"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/sched"
)

// verified returns the estimated time of a pass of streams, and a function for the additional time of so many
// drafts.
func verified(c *sched.Cost, streams sched.Shape) (plain time.Duration, verify func(drafts int) time.Duration) {
	plain = c.Estimate(streams)
	return plain, func(n int) time.Duration {
		more := streams.Add(0, n)
		more.Rows += n
		return c.Estimate(more) - plain
	}
}

// Exchange replaces the loop's cost model, with all that it has learned, and returns the previous one, so that
// separate measurements on one loop do not influence each other.
func (l *Loop) Exchange(cost sched.Cost) (was sched.Cost, err error) {
	err = l.Between(func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		was, l.sched.Cost = l.sched.Cost, cost
		return nil
	})
	return was, err
}

// draft drafts the continuation of the requests of the last pass that go on.
func (l *Loop) draft() {
	fresh, texts, own, may := l.fresh[:0], l.texts[:0], l.own[:0], false
	for _, j := range l.batch {
		if j.fresh && j.late == nil && l.isLive(j) {
			fresh = append(fresh, j)
			may = may || j.gen.Speculates() || len(j.gen.Drafts(2)) > 0
		}
		j.fresh = false
	}
	if l.fresh = fresh; !may {
		l.offered, l.spent = false, 0
		return
	}
	start, asked := platform.Clock(), false
	may = l.sched.Cost.Drafting(len(fresh))
	fresh = slices.DeleteFunc(fresh, func(j *job) bool {
		asked = asked || j.gen.Speculates()
		err := l.guard(j, func() { j.gen.Guess(may) })
		if err != nil {
			l.end(j, err)
		}
		return err != nil
	})
	for _, j := range fresh {
		if j.text != nil {
			texts = append(texts, j.text)
		}
		if j.own != nil {
			own = append(own, j.own)
		}
	}
	if len(texts)+len(own) > 0 && may {
		l.draftByModel(own, texts, fresh)
	}
	l.mu.Lock()
	l.offered = false
	for _, j := range fresh {
		if drafts := j.gen.Drafts(min(maxOut, len(l.e.logits))); len(drafts) > 0 {
			l.sched.Drafted(j.id, drafts)
			l.offered = true
		}
	}
	if asked && l.sched.Cost.Resting(len(fresh)) {
		l.counts.Rested++
	}
	spent := platform.Clock() - start
	l.counts.Drafting += spent
	if l.spent = 0; may {
		l.spent = spent
	}
	l.sched.Spent(l.spent)
	l.seeDrafts()
	l.mu.Unlock()
	l.fresh, l.texts, l.own = fresh, texts, own
}

// draftByModel runs the model's own draft layers, and then, for texts where these promise little, the draft
// model. An accepted token is worth its share of the time of a pass of all streams.
func (l *Loop) draftByModel(own []*mtpText, texts []*modelText, fresh []*job) {
	var streams sched.Shape
	for _, j := range fresh {
		streams = streams.Add(j.gen.Positions(), 1)
	}
	streams.Rows = len(fresh)
	plain, verify := verified(&l.sched.Cost, streams)
	worth := plain / time.Duration(len(fresh))
	if len(own) > 0 {
		l.e.mtp.draft(own, worth, verify, func(f func()) {
			l.mu.Lock()
			defer l.mu.Unlock()
			f()
		})
		l.propose(fresh, func(j *job) *generate.Proposal {
			if j.own == nil {
				return nil
			}
			return &j.own.Proposal
		})
	}
	if len(texts) > 0 {
		l.e.drafts.draft(texts, worth, verify)
		l.propose(fresh, func(j *job) *generate.Proposal {
			if j.text == nil {
				return nil
			}
			return &j.text.Proposal
		})
	}
}

// propose gives requests the guesses of a model, if these promise more than those that they have.
func (l *Loop) propose(fresh []*job, of func(j *job) *generate.Proposal) {
	for _, j := range fresh {
		p := of(j)
		if p == nil {
			continue
		}
		if err := l.guard(j, p.Propose); err != nil {
			l.end(j, err)
		}
	}
}

// keepNext updates the state of the model's own draft layers after a pass.
func (l *Loop) keepNext() {
	if l.e.mtp == nil {
		return
	}
	l.gens, l.keepers = l.gens[:0], l.keepers[:0]
	for _, j := range l.batch {
		l.gens, l.keepers = append(l.gens, j.gen), append(l.keepers, j.own)
	}
	l.e.mtp.keep(l.items, l.gens, l.keepers)
}
