// Package sched decides which requests are in the next pass of a shared model (continuous batching).
//
// A Scheduler is a pure state machine: it has no goroutine, no clock and no token ids. Its inputs are requests,
// the time and the durations of passes, its outputs lists of request numbers. The numbers of requests ascend.
//
// Generating sequences go first, with one token each. The rest of the time budget of a pass, by a cost model
// learned as passes run, goes to slices of prompts (chunked prefill): in the order of priority, then of the
// service that each flow has received, then, where that is about equal, of the remaining work less the time
// waited. What is left goes to draft tokens, as many as raise the expected tokens per second. So streams keep
// their pace during the prefill of a long prompt, a short prompt overtakes a long one, and no request starves.
//
// Memory is counted in bytes. A request is admitted when there is memory for its prompt and some tokens; beyond
// that it takes more as it grows. When memory runs out, the request of the lowest priority that was admitted last
// is preempted: its blocks go to the cache, and it waits to continue where it was.
package sched

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Config is the limits of a Scheduler.
type Config struct {
	Running   int           // sequences at a time
	Batch     int           // maximum tokens of a pass
	Whole     bool          // a prompt is evaluated in one pass, never in slices
	Memory    Memory        // memory of sequences
	Queue     int           // maximum number of waiting requests
	TargetITL time.Duration // time between two tokens of a stream; 0: 150 ms, or 1.5 times a pass of one token
	Replays   bool          // recurrent state: after a rejected draft, the accepted ones before it are evaluated again
	Branches  int           // maximum branches of drafts in a pass; 0: trunks only
	Reads     bool          // each pass reads weights from a disk
	Alone     bool          // one request, that nothing else waits for: its passes have no time limit, and the first drafts show what drafts cost
}

// Memory returns the bytes that sequences take, by their positions.
type Memory interface {
	Bytes(positions int) uint64 // held by a sequence between passes
	Growth(from, to int) uint64 // taken in addition for a pass over the positions between
	Copy() uint64               // taken in addition if the unit written next is shared (copy-on-write)
}

// A Request is what the Scheduler needs to know of a request.
type Request struct {
	ID        uint64
	Flow      string
	Weight    float64 // of the flow; 0: 1
	Priority  int
	Prompt    int           // tokens
	Spans     []Span        // of the prompt, in order: the tokens of each are in one pass
	MaxTokens int           // maximum to generate
	Most      int           // maximum positions at a time: the oldest are dropped, see Shifted; 0: no maximum
	Deadline  time.Duration // in the time of `now`; 0: none
	Leader    uint64        // a request that is computing the same prefix; 0: none
	Shared    int           // tokens of that prefix
	Held      bool          // it waits until Release
}

// A Span is some adjacent tokens of a prompt, at most as many as may be in a pass.
type Span struct{ From, To int }

// BusyError reports that the queue is full, that the request left it to a flow with less of it, or that the request
// would not begin before its deadline.
type BusyError struct {
	Queued     int
	RetryAfter time.Duration
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%d requests are waiting, room in about %v", e.Queued, e.RetryAfter.Round(time.Second))
}

// A Scheduler is not safe for concurrent use.
type Scheduler struct {
	cfg     Config
	Cost    Cost
	waiting []*job
	running []*job          // in the order of admission
	byID    map[uint64]*job // the running ones
	flows   map[string]*flow
	last    generated
	spent   time.Duration // on drafting for the next pass
	others  Load          // on the same threads
	passes  uint64        // that have run

	// Scratch of Next and Ran.
	items    []Item
	prompts  []*job
	complete []uint64
}

// job is a request that is waiting or running.
type job struct {
	Request
	flow     *flow
	round    int64         // of the flow that it is scheduled as: see lend
	since    time.Duration // time of arrival
	known    int           // tokens: the prompt and those generated
	done     int           // tokens evaluated
	gone     int           // evaluated tokens without positions: see Shifted
	drafts   []Draft       // for the next pass
	begun    bool          // it has run before
	limit    int           // tokens that can be evaluated by now: see Limit
	complete uint64        // the pass that evaluated the last of its tokens
}

// todo returns the number of tokens to evaluate before the next one is sampled.
func (j *job) todo() int { return j.known - j.done }

// at returns how many positions j has.
func (j *job) at() int { return j.done - j.gone }

// replayed is the maximum number of tokens that are evaluated again after a rejected draft.
const replayed = 32

// decoding reports whether j is generating: its next pass has one token or a few.
func (j *job) decoding() bool {
	return j.known > j.Prompt && j.todo() > 0 && j.todo() <= replayed
}

func (j *job) generated() int { return max(j.known-j.Prompt, 0) }

// New returns a Scheduler without requests.
func New(c Config) *Scheduler {
	return &Scheduler{cfg: c, byID: map[uint64]*job{}, flows: map[string]*flow{}}
}

// Add queues a request. It returns a *BusyError when the deadline cannot be met, or when the queue is full and the
// request's flow has its share of it. When the flow has less, the newest request of the flow with the most makes
// room: it is removed, and the caller ends it with Busy.
func (s *Scheduler) Add(r Request, now time.Duration) (dropped uint64, err error) {
	if r.Deadline > 0 && len(s.waiting) > 0 && now+s.wait(r) > r.Deadline {
		return 0, s.Busy()
	}
	if len(s.waiting) >= s.cfg.Queue && len(s.waiting)+len(s.running) >= s.cfg.Running {
		if dropped = s.excess(r); dropped == 0 {
			return 0, s.Busy()
		}
		s.Remove(dropped)
	}
	j := &job{Request: r, flow: s.join(r.Flow, r.Weight), since: now, known: r.Prompt, limit: math.MaxInt}
	s.waiting = append(s.waiting, j)
	return dropped, nil
}

// Busy returns the error of a request that there is no room for.
func (s *Scheduler) Busy() *BusyError {
	return &BusyError{Queued: len(s.waiting), RetryAfter: s.retryAfter(s.backlog())}
}

// Remove removes a request that has ended, for whatever reason. It reports whether it
// was there.
func (s *Scheduler) Remove(id uint64) bool {
	for _, list := range []*[]*job{&s.waiting, &s.running} {
		if i := slices.IndexFunc(*list, func(j *job) bool { return j.ID == id }); i >= 0 {
			s.leave((*list)[i].flow)
			*list = slices.Delete(*list, i, i+1)
			delete(s.byID, id)
			return true
		}
	}
	return false
}

// Release lets a request that is held be admitted.
func (s *Scheduler) Release(id uint64) {
	for _, j := range s.waiting {
		if j.ID == id {
			j.Held = false
		}
	}
}

// Prefill estimates the time to evaluate the tokens of a sequence from one position to
// another in passes of their own.
func (s *Scheduler) Prefill(from, to int) (t time.Duration) {
	for from < to {
		n := min(to-from, s.cfg.Batch)
		t += s.Cost.Estimate(Shape{}.Add(from, n))
		from += n
	}
	return t
}

// Queued returns how many requests wait, and how many of those were preempted.
func (s *Scheduler) Queued() (all, begun int) {
	for _, j := range s.waiting {
		if j.begun {
			begun++
		}
	}
	return len(s.waiting), begun
}

// order compares two requests with prompts to evaluate: which comes first.
func (s *Scheduler) order(a, b *job, now time.Duration) int {
	if c := cmp.Compare(b.Priority, a.Priority); c != 0 {
		return c
	}
	if c := cmp.Compare(a.round, b.round); c != 0 {
		return c
	}
	left := func(j *job) time.Duration { return time.Duration(j.todo())*s.Cost.Each() - (now - j.since) }
	if c := cmp.Compare(left(a), left(b)); c != 0 {
		return c
	}
	return cmp.Compare(a.ID, b.ID)
}

// expected is the assumed number of tokens still to be generated where it is unknown: a
// reply of a few paragraphs.
const expected = 256

// outlook is the number of positions for which memory is kept.
func (j *job) outlook() int {
	n := j.Prompt + min(j.MaxTokens, max(expected, j.generated()))
	if j.Most > 0 {
		n = min(n, j.Most)
	}
	return n
}

// backlog estimates the time until all waiting requests have begun.
func (s *Scheduler) backlog() time.Duration {
	var t time.Duration
	for _, j := range s.waiting {
		t += s.work(j)
	}
	for _, j := range s.running {
		t += s.work(j)
	}
	return t
}

// work estimates the machine time that j still needs.
func (s *Scheduler) work(j *job) time.Duration {
	tokens := max(min(j.MaxTokens, expected)-j.generated(), 0)
	pass := s.Cost.Estimate(Shape{Tokens: s.cfg.Running})
	return time.Duration(j.todo())*s.Cost.Each() + time.Duration(tokens)*pass/time.Duration(s.cfg.Running)
}

// retryAfter is the estimated time until one more request has ended.
func (s *Scheduler) retryAfter(backlog time.Duration) time.Duration {
	return max(backlog/time.Duration(len(s.waiting)+len(s.running)+1), time.Second)
}
