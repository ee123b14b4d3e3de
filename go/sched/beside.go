package sched

import "time"

// A Load is what a Scheduler needs of threads that it shares with others, which have their passes by turns: the
// time between two tokens of a stream is the sum of one pass of each.
type Load struct {
	Target  time.Duration // the shortest time between two tokens of a stream that passes are planned for; 0: no streams
	Streams time.Duration // of passes with a token of each stream
	Prompts int           // schedulers with prompts beside
}

// Plus returns the load of two together.
func (l Load) Plus(o Load) Load {
	if l.Target == 0 || o.Target > 0 && o.Target < l.Target {
		l.Target = o.Target
	}
	return Load{l.Target, l.Streams + o.Streams, l.Prompts + o.Prompts}
}

// sliced reports whether passes keep to a target. A pass that evaluates whole texts, or that waits for a disk, leaves
// the threads to others meanwhile.
func (s *Scheduler) sliced() bool { return !s.cfg.Whole && !s.cfg.Reads }

// Load returns the load of a pass that is planned. A prompt that ends in it becomes a stream.
func (s *Scheduler) Load(plan []Item) (l Load) {
	if !s.sliced() {
		return l
	}
	var streams Shape
	for _, it := range plan {
		j := s.find(it.ID)
		if j == nil {
			continue
		}
		if j.decoding() || it.Tokens == j.todo() {
			streams = streams.Add(j.at(), 1)
		}
		if !j.decoding() {
			l.Prompts = 1
		}
	}
	if streams.Tokens > 0 {
		l.Target, l.Streams = s.Target(), s.Cost.Estimate(streams)
	}
	return l
}

// Beside says what the others on the threads need.
func (s *Scheduler) Beside(others Load) { s.others = others }

// share returns the maximum time of a pass with prompts, of which its own streams take `own`; 0: it has none. What
// is left of the target of the fastest stream on the threads is divided among schedulers with prompts.
func (s *Scheduler) share(own time.Duration) time.Duration {
	if s.cfg.Alone {
		return longest
	}
	all := s.others
	if own > 0 {
		all = all.Plus(Load{Target: s.Target(), Streams: own})
	}
	if all.Target == 0 || own == 0 && !s.sliced() {
		limit := max(maxIdlePass, time.Duration(planMargin*float64(s.Target())))
		if s.cfg.Reads {
			limit = max(limit, maxReadingPass*s.Cost.First())
		}
		return limit
	}
	left := time.Duration(planMargin*float64(all.Target)) - all.Streams
	return own + max(left, 0)/time.Duration(1+all.Prompts)
}
