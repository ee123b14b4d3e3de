package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Request asks a Loop to generate. The loop reads it until Done, and never
// writes to it or to its slices: requests may share those.
type Request struct {
	Params
	NoCache   bool   // begins from nothing, and leaves nothing for others
	Namespace string // of the cache: requests of one share what they computed, and with no other
	Slot      int    // a number for it among those that run, where that one is free; -1: any

	Flow     string    // flows share the machine fairly
	Weight   float64   // of the flow among others; 0: 1
	Priority int       // higher ones go first, and may have lower ones wait
	Deadline time.Time // after it the request ends with ErrDeadline; zero: never

	// Origin has the trace that the request is part of, for those who watch. Its
	// end is nothing to the loop: whoever is gone cancels.
	Origin context.Context
	Sink   Sink
}

// A Sink takes what a request yields. The loop calls it from one goroutine at a
// time, in order, and waits for it: a Sink never blocks. Slices that it is given
// are its to keep. A panic in it ends the request with a *PanicError.
type Sink interface {
	// Progress comes while the prompt is evaluated, the first time before anything
	// is.
	Progress(p Progress)
	// Token hands over the next token. False ends the request as Stopped: the
	// token was the last, or not wanted any more. One that stops is the last anyhow.
	Token(t Token) bool
	// Done comes once, and last. Nothing comes before a failed Submit.
	Done(r Result)
}

// Progress is how far the evaluation of a prompt has come.
type Progress struct {
	Total  int // tokens of the prompt
	Cached int // of which were in the cache
	Done   int // of which are evaluated, the cached ones with them
	Slot   int // under which the request runs
}

// A Result is how a request ended.
type Result struct {
	Finish Finish // empty when it failed
	Err    error  // context.Canceled, ErrDeadline, ErrClosing, a *PanicError or a fault of the engine
	Usage
}

// Usage is what a request took.
type Usage struct {
	PromptTokens int
	CachedTokens int // of the prompt, found in the cache
	Generated    int // tokens handed over
	Slot         int
	Queued       time.Duration // from Submit to its first pass
	Prefill      time.Duration // from its first pass to its first token
	Decode       time.Duration // from the first token to the last
	Preempted    int           // times it had to make room
}

// Reasons for which a request is turned away or ended.
var (
	ErrDeadline = errors.New("the deadline has passed")
	ErrClosing  = errors.New("the server is shutting down")
)

// A TooLongError is a request that can never fit. It wraps ErrTooLong.
type TooLongError struct{ Prompt, Ctx int }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the prompt has %d tokens and the context is %d, want at least one less", e.Prompt, e.Ctx)
}

func (e *TooLongError) Unwrap() error { return ErrTooLong }

// A BusyError is a request for which the queue has no room, or whose deadline
// would pass in it.
type BusyError struct {
	Queued     int           // requests that wait
	RetryAfter time.Duration // until there should be room
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%d requests are waiting, try again in %.0f s", e.Queued, max(e.RetryAfter.Seconds(), 1))
}
