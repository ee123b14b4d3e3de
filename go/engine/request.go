package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/mem"
)

// A Request asks a Loop to generate. The loop reads it until Done and never writes to it or to its slices, so
// requests may share them.
type Request struct {
	generate.Params
	Frames    [][]float32     // what the encoder of a model of speech hears, a row for each token of its source; outside of Go's heap
	Media     []Medium        // pictures and sounds in the prompt, in order
	Reader    Reader          // of the prompt; nil: none
	Second    int             // where the second text of a pair begins in the prompt; 0: it is one text
	NoCache   bool            // neither uses the prefix cache nor adds to it
	Namespace string          // of the prefix cache, which is shared only within a namespace
	Owner     string          // whose text it is: drafts come from recent texts of the same owner, in the namespace, and of no other
	Adapters  []ScaledAdapter // whose corrections apply; a scale of 0 is as none
	Slot      int             // preferred slot, used if it is free; -1: any

	Flow     string    // requests of one client; flows share the machine fairly
	Weight   float64   // of the flow; 0: 1
	Priority int       // higher ones go first, and may preempt lower ones
	Deadline time.Time // the request then ends with ErrDeadline; zero: none

	// Origin carries the request's trace, for observers. The loop ignores its cancellation: use Ticket.Cancel
	// when the client has disconnected.
	Origin context.Context
	Sink   Sink
}

// A Sink receives the results of a request. The loop calls it in order, from one goroutine at a time, and
// waits for each call, so a Sink must never block. It may keep the slices that it receives. A panic in it
// ends the request with a *PanicError.
type Sink interface {
	// Progress is called while the prompt is evaluated, the first time before evaluation begins.
	Progress(p Progress)
	// Token delivers the next token. If it returns false, the request ends as Stopped. A stop token is always
	// the last.
	Token(t generate.Token) bool
	// Done is called exactly once, as the last call. No method is called if Submit fails.
	Done(r Result)
}

// Progress is the progress of evaluating a prompt.
type Progress struct {
	Total  int // tokens of the prompt
	Cached int // of which were in the cache
	Done   int // of which are evaluated, including the cached ones
	Slot   int // in which the request runs
}

// A Result is how a request ended.
type Result struct {
	Finish generate.Finish // empty when it failed
	Err    error           // context.Canceled, ErrDeadline, ErrClosing, a *BusyError, a *PanicError or a fault of the engine
	Usage
}

// Usage is the tokens and times of a request.
type Usage struct {
	PromptTokens int
	CachedTokens int // of the prompt, found in the cache
	Generated    int // tokens delivered
	Slot         int
	Queued       time.Duration // from Submit to its first pass
	Prefill      time.Duration // from its first pass to its first token
	Decode       time.Duration // from the first token to the last
	Preempted    int           // how often it was preempted
	Shifts       int           // how often its context was shifted
	Passes       int           // that evaluated tokens after the first one
	Drafted      draft.Counts
}

// Reasons for which a request is refused or ended.
var (
	ErrDeadline = errors.New("the deadline has passed")
	ErrClosing  = errors.New("the server is shutting down")
	ErrBothWays = errors.New("reads a text in both directions, to make a vector of it, and cannot continue one")
)

// A TooLongError reports a request that can never fit. It wraps ErrTooLong.
type TooLongError struct {
	Prompt, Ctx int
	Least       bool // Prompt is not the number of tokens, but one that they exceed or equal
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the prompt has %s tokens and the context is %d, want at least one less", e.Count(), e.Ctx)
}

// Count returns the number of tokens in words.
func (e *TooLongError) Count() string {
	if e.Least {
		return fmt.Sprintf("at least %d", e.Prompt)
	}
	return fmt.Sprint(e.Prompt)
}

func (e *TooLongError) Unwrap() error { return ErrTooLong }

// A BusyError reports that the queue is full and the request's flow has its share of it, or that the request's deadline
// would pass while it waits.
type BusyError struct {
	Queued     int           // waiting requests
	RetryAfter time.Duration // estimated time until a request can be queued
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%d requests are waiting, try again in %.0f s", e.Queued, max(e.RetryAfter.Seconds(), 1))
}

// A MemoryError reports that a request is refused because memory is short.
type MemoryError struct {
	Limit      uint64 // of the device
	Reason     string // what set it
	RetryAfter time.Duration
	Need, Have uint64 // of What; 0: nothing is taken on, whatever it needs
	What       string
}

func (e *MemoryError) Error() string {
	if e.Need > 0 {
		return fmt.Sprintf("memory is short: the request needs %s for %s, and %s can be had of a limit of %s (%s); send a shorter one, or try again in %.0f s",
			mem.FormatBytes(e.Need), e.What, mem.FormatBytes(e.Have), mem.FormatBytes(e.Limit), e.Reason, e.RetryAfter.Seconds())
	}
	return fmt.Sprintf("memory is short: %s are all there is (%s), and requests that run have it; try again in %.0f s",
		mem.FormatBytes(e.Limit), e.Reason, e.RetryAfter.Seconds())
}
