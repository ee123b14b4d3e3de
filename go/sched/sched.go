// Package sched decides who is in the next pass of a model that many share.
//
// A Scheduler is a pure state machine: it has no goroutine, no clock and no
// tokens. It is told of requests, of time and of what passes took, and answers
// with lists of numbers. Requests are known by their numbers, which only grow.
//
// Sequences that generate go first, one token each and, as far as there is time,
// guesses at those that follow. What is left of the time
// that a pass may take, by a model of cost that is learned as passes run, goes to
// prompts: slices of them, in the order of priority, of what each flow has had
// of the machine, and where that is about the same of what is left to do, less what
// they have waited. So streams keep their pace while a long prompt comes in, a short
// prompt overtakes a long one, and nobody waits for ever.
//
// Memory is bytes. A request is admitted when there is room for its prompt
// and some tokens; what it generates beyond that takes more as it grows. When
// there is none left, the last admitted of the lowest priority is preempted: it
// gives what it holds to the cache and waits again, to go on where it was.
package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Config is what a Scheduler has to share out.
type Config struct {
	Running   int           // sequences at a time
	Batch     int           // tokens of a pass at most
	Memory    Memory        // what sequences take
	Queue     int           // requests that may wait
	TargetITL time.Duration // time between two tokens of a stream; 0: 150 ms, or half as much again as a pass of one token
}

// Memory says in bytes what sequences take, by their positions.
type Memory interface {
	Bytes(positions int) uint64 // that a sequence holds between passes
	Growth(from, to int) uint64 // that it takes more for a pass over the positions between
	Copy() uint64               // that it takes more where it shares what it writes next
}

// A Request is what the Scheduler has to know of one.
type Request struct {
	ID        uint64
	Flow      string
	Weight    float64 // of the flow; 0: 1
	Priority  int
	Prompt    int           // tokens
	MaxTokens int           // to generate at most
	Deadline  time.Duration // in the time of `now`; 0: none
	Leader    uint64        // a request that is computing the same beginning; 0: none
	Shared    int           // tokens of that beginning
}

// BusyError is a request that the queue has no room for, or that would not begin
// before its deadline.
type BusyError struct {
	Queued     int
	RetryAfter time.Duration
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%d requests are waiting, room in about %v", e.Queued, e.RetryAfter.Round(time.Second))
}

// A Scheduler is for one goroutine.
type Scheduler struct {
	cfg     Config
	Cost    Cost
	waiting []*job
	running []*job // in the order of their admission
	flows   map[string]*flow
}

// job is a request on its way.
type job struct {
	Request
	flow  *flow
	round int64         // of the flow it counts as, see lend
	since time.Duration // when it came
	known int           // tokens: the prompt and what was generated
	done  int           // of which are evaluated
	draft int           // guesses at what follows
	begun bool          // it has run before
}

// todo is the number of tokens to evaluate before the next one is sampled.
func (j *job) todo() int { return j.known - j.done }

// decoding tells whether j generates: its next pass is a token.
func (j *job) decoding() bool { return j.known > j.Prompt && j.todo() == 1 }

func (j *job) generated() int { return max(j.known-j.Prompt, 0) }

// New returns a Scheduler without requests.
func New(c Config) *Scheduler {
	return &Scheduler{cfg: c, flows: map[string]*flow{}}
}

// Add queues a request. It returns a *BusyError when there is no room for it.
func (s *Scheduler) Add(r Request, now time.Duration) error {
	wait := s.backlog()
	if len(s.waiting) >= s.cfg.Queue && len(s.waiting)+len(s.running) >= s.cfg.Running ||
		r.Deadline > 0 && len(s.waiting) > 0 && now+wait > r.Deadline {
		return &BusyError{Queued: len(s.waiting), RetryAfter: s.retryAfter(wait)}
	}
	j := &job{Request: r, flow: s.join(r.Flow, r.Weight), since: now, known: r.Prompt}
	s.waiting = append(s.waiting, j)
	return nil
}

// Remove takes a request out: it has ended, for whatever reason. It tells
// whether it was there.
func (s *Scheduler) Remove(id uint64) bool {
	for _, list := range []*[]*job{&s.waiting, &s.running} {
		if i := slices.IndexFunc(*list, func(j *job) bool { return j.ID == id }); i >= 0 {
			s.leave((*list)[i].flow)
			*list = slices.Delete(*list, i, i+1)
			return true
		}
	}
	return false
}

// Queued returns how many requests wait, and how many of those have begun.
func (s *Scheduler) Queued() (all, begun int) {
	for _, j := range s.waiting {
		if j.begun {
			begun++
		}
	}
	return len(s.waiting), begun
}

// order is which of two requests that want to evaluate a prompt comes first.
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

// expected is how many tokens more a request is taken to generate where nobody
// knows: a reply of a few paragraphs.
const expected = 256

// outlook is the number of positions that room is kept for.
func (j *job) outlook() int {
	return j.Prompt + min(j.MaxTokens, max(expected, j.generated()))
}

// backlog estimates the time until all that wait have begun.
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

// work estimates the time that j will still take of the machine.
func (s *Scheduler) work(j *job) time.Duration {
	tokens := max(min(j.MaxTokens, expected)-j.generated(), 0)
	pass := s.Cost.Estimate(Shape{Tokens: s.cfg.Running})
	return time.Duration(j.todo())*s.Cost.Each() + time.Duration(tokens)*pass/time.Duration(s.cfg.Running)
}

// retryAfter is the time in which one request more should have ended.
func (s *Scheduler) retryAfter(backlog time.Duration) time.Duration {
	return max(backlog/time.Duration(len(s.waiting)+len(s.running)+1), time.Second)
}
