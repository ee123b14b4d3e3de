package sched

import (
	"slices"
	"sort"
	"time"
)

// An Item is one request's part of a pass: its next tokens.
type Item struct {
	ID     uint64
	Tokens int
	Draft  int // the last Draft of Tokens are draft tokens: the first of the request's drafts

	Branches []Branch // of further drafts
}

// known returns how many tokens are not drafts.
func (it *Item) known() int { return it.Tokens - it.Draft }

// All returns how many tokens the item has in the pass, branches included.
func (it *Item) All() int {
	n := it.Tokens
	for _, b := range it.Branches {
		n += it.known() + len(b.Path)
	}
	return n
}

// A Prefix is the cached prefix of a request's tokens.
type Prefix struct {
	Tokens int
	Held   uint64 // bytes of it that running sequences hold already: they need no more memory
}

// Admission is the changes before a pass.
type Admission struct {
	Expired   []uint64 // their deadline has passed: the caller ends and removes them
	Preempted []uint64 // in this order: their blocks go to the cache, and they wait
	Admitted  []uint64 // they run from now on; the caller reports with Found what was cached
}

// Admit admits requests for which there is memory: `available` is the bytes that are
// free or can be evicted, lookup returns the cached prefix of a request.
func (s *Scheduler) Admit(now time.Duration, free uint64, lookup func(id uint64) Prefix) Admission {
	var a Admission
	available := int64(free)
	for _, list := range [][]*job{s.waiting, s.running} {
		for _, j := range list {
			if j.Deadline > 0 && now >= j.Deadline {
				a.Expired = append(a.Expired, j.ID)
			}
		}
	}
	for _, id := range a.Expired {
		if j := s.find(id); j != nil {
			available += s.bytes(j.at()) // approximate: some may be shared
		}
		s.Remove(id)
	}

	// Running requests come first: each needs memory for its next token.
	for len(s.running) > 1 && s.growth() > available {
		available += s.preempt(&a, s.victim(nil))
	}
	if len(s.waiting) > 0 {
		s.lend()
		slices.SortStableFunc(s.waiting, func(x, y *job) int { return s.order(x, y, now) })
	}
	for i := 0; i < len(s.waiting); i++ {
		j := s.waiting[i]
		if j.Held || s.follows(j) {
			continue // its prefix is being fetched, or computed for another
		}
		p := lookup(j.ID)
		need := s.bytes(j.outlook()) - int64(p.Held)
		room := func() bool {
			return len(s.running) < s.cfg.Running && need <= available-s.promised()
		}
		for !room() {
			v := s.victim(j)
			if v == nil {
				break
			}
			available += s.preempt(&a, v)
		}
		// A request that runs alone may use all memory: the caller checked that it fits.
		if !room() && len(s.running) > 0 {
			return a // no other request overtakes it, or it might starve
		}
		available -= s.bytes(p.Tokens) - int64(p.Held) // its cached prefix can no longer be evicted
		s.waiting = slices.Delete(s.waiting, i, i+1)
		i--
		s.running = append(s.running, j)
		s.byID[j.ID] = j
		j.done = min(p.Tokens, j.known-1)
		a.Admitted = append(a.Admitted, j.ID)
	}
	return a
}

// Found reports how many tokens of an admitted request were cached, and how many of these have lost their
// positions.
func (s *Scheduler) Found(id uint64, tokens, gone int) {
	if j := s.find(id); j != nil {
		j.done = min(tokens, j.known-1) // the last is evaluated in any case, for its logits
		j.gone = gone
	}
}

// Limit says that only the first n tokens of a running request can be evaluated by now.
func (s *Scheduler) Limit(id uint64, n int) {
	if j := s.find(id); j != nil {
		j.limit = n
	}
}

// ready returns how many tokens of j can be evaluated by now.
func (j *job) ready() int {
	return max(min(j.todo(), j.limit-j.done), 0)
}

// Left returns how much time between two tokens of streams there is for work that is counted among the prompts beside.
func (s *Scheduler) Left() time.Duration {
	var streams Shape
	prompts := 0
	for _, j := range s.running {
		if j.decoding() {
			streams = streams.Add(j.at(), 1)
		} else if j.ready() > 0 {
			prompts = 1
		}
	}
	own := time.Duration(0)
	if streams.Tokens > 0 {
		own = max(s.Cost.Estimate(streams), 1)
	}
	was := s.others
	s.others.Prompts = max(s.others.Prompts-1, 0) + prompts
	left := s.share(own) - own
	s.others = was
	return left
}

// Shifted records that a request has lost the positions of n evaluated tokens.
func (s *Scheduler) Shifted(id uint64, n int) {
	if j := s.find(id); j != nil {
		j.gone += n
	}
}

// leader returns the request that is computing j's prefix, and whether it runs; nil
// when j need not wait.
func (s *Scheduler) leader(j *job) (l *job, running bool) {
	if j.Leader == 0 {
		return nil, false
	}
	is := func(l *job) bool { return l.ID == j.Leader && l.done < j.Shared && l.Priority >= j.Priority }
	if i := slices.IndexFunc(s.running, is); i >= 0 {
		return s.running[i], true
	}
	if i := slices.IndexFunc(s.waiting, is); i >= 0 {
		return s.waiting[i], false
	}
	return nil, false
}

// follows reports whether j waits for another request to compute its prefix. It does not
// wait for a leader that is waiting itself because its flow has had more service.
func (s *Scheduler) follows(j *job) bool {
	l, running := s.leader(j)
	return l != nil && (running || l.flow.round() <= j.flow.round())
}

// lend schedules each running request as if of the flow with the least service among
// its own and those of its followers, which would otherwise have to compute the same.
// (As with priority inheritance.)
func (s *Scheduler) lend() {
	for _, j := range s.running {
		j.round = j.flow.round()
	}
	for _, j := range s.waiting {
		j.round = j.flow.round()
		if l, running := s.leader(j); running {
			l.round = min(l.round, j.round)
		}
	}
}

// victim returns the request to preempt: of those of the lowest priority, the one
// admitted last. With a rival, only a request of lower priority than the rival's.
func (s *Scheduler) victim(rival *job) *job {
	var v *job
	for _, j := range s.running {
		if rival != nil && j.Priority >= rival.Priority {
			continue
		}
		if v == nil || j.Priority <= v.Priority {
			v = j
		}
	}
	return v
}

// preempt moves v back to the queue, and returns the bytes that become available.
func (s *Scheduler) preempt(a *Admission, v *job) int64 {
	s.running = slices.DeleteFunc(s.running, func(j *job) bool { return j == v })
	delete(s.byID, v.ID)
	bytes := s.bytes(v.at())
	v.done, v.gone, v.drafts, v.begun = 0, 0, nil, true
	s.waiting = append(s.waiting, v)
	a.Preempted = append(a.Preempted, v.ID)
	a.Admitted = slices.DeleteFunc(a.Admitted, func(id uint64) bool { return id == v.ID })
	return bytes
}

// Yield moves a running request back to the queue: there was no memory for it after all.
func (s *Scheduler) Yield(id uint64) {
	if j := s.find(id); j != nil {
		s.preempt(&Admission{}, j)
	}
}

// Defer moves a request that was just admitted back to the queue, as if it had not been.
func (s *Scheduler) Defer(id uint64) {
	if j := s.find(id); j != nil {
		begun := j.begun
		s.preempt(&Admission{}, j)
		j.begun = begun
	}
}

// promised is the bytes that running requests have been admitted for and not yet taken.
func (s *Scheduler) promised() int64 {
	n := int64(0)
	for _, j := range s.running {
		n += max(s.bytes(j.outlook())-s.bytes(j.at()), 0) + int64(s.cfg.Memory.Copy())
	}
	return n
}

// growth is the bytes that the next token of each needs.
func (s *Scheduler) growth() int64 {
	n := int64(0)
	for _, j := range s.running {
		next := 1
		if j.decoding() {
			next = j.todo()
		}
		n += s.grows(j, next)
	}
	return n
}

func (s *Scheduler) bytes(positions int) int64 { return int64(s.cfg.Memory.Bytes(positions)) }

// grows is the bytes that n more tokens of j need.
func (s *Scheduler) grows(j *job, n int) int64 {
	return int64(s.cfg.Memory.Growth(j.at(), j.at()+n))
}

// find returns a running request, or nil.
func (s *Scheduler) find(id uint64) *job { return s.byID[id] }

// planMargin is the share of the target that passes are planned for: actual times spread
// around the predicted ones. With 0.85 one gap in a hundred was 5 % over
// (four streams of a 1B and prompts of 4300 tokens, two virtual cores).
const planMargin = 0.8

// maxIdlePass is the maximum time of a pass that no stream waits for: requests that arrive
// meanwhile wait for its end, and longer passes are hardly faster per token.
const maxIdlePass = 400 * time.Millisecond

// maxReadingPass is the maximum time, in passes of one token, of a pass that no stream waits for where passes read
// weights from a disk: the longer the passes, the fewer bytes are read in all.
const maxReadingPass = 16

// Target returns the time between two tokens of a stream that passes are planned for.
func (s *Scheduler) Target() time.Duration {
	if s.cfg.TargetITL > 0 {
		return s.cfg.TargetITL
	}
	return max(150*time.Millisecond, s.Cost.First()*3/2)
}

// A pass always has a few prompt tokens, so that prompts make progress; of a short
// prompt, enough that its answer begins within three passes.
const (
	minPromptTokens      = 4
	shortPromptTokens    = 32
	minShortPromptTokens = (shortPromptTokens + 2) / 3
)

// Next returns the next pass, empty when no request runs. It is valid until the next call. `available` is the bytes
// that are free or can be evicted.
func (s *Scheduler) Next(now time.Duration, free uint64) []Item {
	s.judge()
	available := int64(free)
	items, prompts := s.items[:0], s.prompts[:0]
	var shape Shape
	behind := 0 // generating sequences that are not in the pass yet
	for _, j := range s.running {
		if j.decoding() {
			behind++
		}
	}
	for _, j := range s.running {
		if !j.decoding() {
			continue
		}
		behind--
		left := s.cfg.Batch - shape.Tokens
		n := j.ready()
		if !s.cfg.Whole {
			n = j.together(min(n, max(left-behind, 1)), left) // in slices, where others would be left out
		}
		if n > 0 && n <= left {
			items = append(items, Item{ID: j.ID, Tokens: n})
			shape = j.shape(shape, n, 0)
			available -= s.grows(j, n)
		}
	}
	streams, generating := len(items), shape
	own := time.Duration(0)
	if streams > 0 {
		own = max(s.Cost.Estimate(shape), 1)
	}
	limit := s.share(own)
	for _, j := range s.running {
		if !j.decoding() && j.ready() > 0 {
			prompts = append(prompts, j)
		}
	}
	if len(prompts) > 1 {
		s.lend()
		slices.SortFunc(prompts, func(x, y *job) int { return s.order(x, y, now) })
	}
	given := 0
	for _, j := range prompts {
		n := s.room(j, min(j.ready(), s.cfg.Batch-shape.Tokens), available)
		if s.cfg.Whole && (n < j.todo() || given > 0 && s.Cost.Estimate(shape.Add(j.at(), n)) > limit) {
			continue // a shorter one may fit
		}
		floor := minPromptTokens - given
		if given == 0 && j.todo() <= shortPromptTokens {
			floor = minShortPromptTokens
		}
		if !s.cfg.Whole && n > max(floor, 0) && s.Cost.Estimate(shape.Add(j.at(), n)) > limit {
			n = s.shrink(shape, j, n, limit, floor)
		}
		if len(j.Spans) > 0 && n < j.todo() {
			n = s.whole(shape, j, n, limit, available, given == 0)
		}
		if n <= 0 {
			break // later ones would take the memory that it waits for
		}
		items = append(items, Item{ID: j.ID, Tokens: n})
		shape = j.shape(shape, n, 0)
		available -= s.grows(j, n)
		given += n
		if n < j.ready() {
			break
		}
	}
	s.items, s.prompts = items, prompts
	s.speculate(items[:streams], shape, generating, available)
	return items
}

// shape returns the shape of a pass with n tokens of j added, of which the last are drafts. There is a row of
// logits after the last known token and after each draft.
func (j *job) shape(pass Shape, n, drafts int) Shape {
	pass = pass.Add(j.at(), n)
	if n-drafts == j.todo() {
		pass.Rows += 1 + drafts
	}
	return pass
}

// shrink returns the largest slice below n that fits the limit, or `floor`.
func (s *Scheduler) shrink(shape Shape, j *job, n int, limit time.Duration, floor int) int {
	lo, hi := max(floor, 0), n-1
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if s.Cost.Estimate(shape.Add(j.at(), mid)) <= limit {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// together returns n, or how many of the next tokens are before the span that the n-th is inside of, or with that span, if
// they are none and so many fit; else 0.
func (j *job) together(n, most int) int {
	for _, span := range j.Spans {
		switch end := j.done + n; {
		case end <= span.From || end >= span.To:
		case j.done < span.From:
			return span.From - j.done
		case span.To-j.done <= most:
			return span.To - j.done
		default:
			return 0
		}
	}
	return n
}

// whole returns how many of the next n tokens of j make no part of a span. The first prompt of a pass has a span in any case,
// others one within the limit.
func (s *Scheduler) whole(shape Shape, j *job, n int, limit time.Duration, available int64, first bool) int {
	most := s.room(j, min(j.todo(), s.cfg.Batch-shape.Tokens), available)
	k := j.together(n, most)
	if k > n && !first && s.Cost.Estimate(shape.Add(j.at(), k)) > limit {
		return 0
	}
	return k
}

// room is how many of n positions j can take, with so many bytes available.
func (s *Scheduler) room(j *job, n int, available int64) int {
	return sort.Search(n, func(k int) bool { return s.grows(j, k+1) > max(available, 0) })
}

// Shape returns the shape of a pass.
func (s *Scheduler) Shape(items []Item) Shape {
	var shape Shape
	for _, it := range items {
		if j := s.find(it.ID); j != nil {
			shape = j.shape(shape, it.Tokens, it.Draft)
			for _, b := range it.Branches {
				shape = shape.Add(j.at(), it.known()+len(b.Path))
				shape.Rows += b.New
				shape.Branches++
			}
		}
	}
	return shape
}

// Ran records that a pass was run and how long it took. For each item whose tokens are
// now all evaluated, a token can be sampled: the caller then calls Sampled, or removes
// the request. The list is valid until the next call.
func (s *Scheduler) Ran(items []Item, took time.Duration) (complete []uint64) {
	complete = s.complete[:0]
	s.passes++
	s.Cost.Observe(s.Shape(items), took)
	s.ran(items, took)
	for _, it := range items {
		j := s.find(it.ID)
		if j == nil {
			continue
		}
		j.done += it.known()
		j.drafts = nil
		s.charge(j.flow, it.All(), len(items))
		if j.todo() == 0 {
			complete = append(complete, j.ID)
			j.complete = s.passes
		}
	}
	s.complete, s.last.ended = complete, len(complete)
	return complete
}

// Sampled records that a request has some more tokens, of which all but one were
// accepted drafts: `evaluated` of its tokens need no further pass. Until it is called, the request is in no pass.
func (s *Scheduler) Sampled(id uint64, tokens, evaluated int) {
	if j := s.find(id); j != nil {
		j.known += tokens
		j.done = evaluated
		if j.complete == s.passes { // else it was sampled later, and counts as one that has ended
			s.last.Tokens += tokens
			s.last.ended--
		}
	}
}

// Drafted records the drafts of a request for its next pass. The slice is read until that pass has run.
func (s *Scheduler) Drafted(id uint64, drafts []Draft) {
	if j := s.find(id); j != nil {
		j.drafts = drafts
	}
}
