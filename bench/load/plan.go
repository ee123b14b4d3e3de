package main

import (
	"iter"
	"math/rand/v2"
	"time"
)

// A class is the purpose of a request.
type class string

const (
	short     class = "short"
	intruder  class = "intruder"  // a long prompt
	cancelled class = "cancelled" // by the client, unless it ends before
	bad       class = "bad"       // a malformed body
)

// An arrival is a request that is sent at a fixed time regardless of those before it,
// or a conversation whose first turn is.
type arrival struct {
	id          int
	at          time.Duration // since the start
	class       class
	key         int  // index in the config's keys, -1: none
	prefix      bool // begins with the shared prefix
	turns       []turn
	cancelAfter time.Duration // of requests to be cancelled
	malformed   int           // index of the body, of malformed requests
}

type turn struct {
	words     string
	maxTokens int
	think     time.Duration // since the answer to the turn before
}

// Streams of random numbers: arrival i draws from stream i, so that it does not depend
// on those before it.
const (
	streamTimes  = ^uint64(0)
	streamPrefix = streamTimes - 1
	streamVerify = streamTimes - 2
)

// plan yields all arrivals, in order. It is a function of the config alone.
func (c *config) plan(w words) iter.Seq[arrival] {
	return func(yield func(arrival) bool) {
		next, stop := iter.Pull(c.times())
		defer stop()
		at, _ := next()
		intrusion := c.intruder.every
		for id := 0; c.requests == 0 || id < c.requests; id++ {
			a := arrival{id: id, at: at, class: short, key: -1}
			if c.intruder.every > 0 && intrusion <= at {
				a.at, a.class = intrusion, intruder
				intrusion += c.intruder.every
			} else {
				at, _ = next()
			}
			if c.duration > 0 && a.at >= c.duration {
				return
			}
			c.fill(&a, w)
			if !yield(a) {
				return
			}
		}
	}
}

// times yields the times of requests, except intruders, without end.
func (c *config) times() iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		r := rand.New(rand.NewPCG(c.seed, streamTimes))
		at := 0.0 // seconds
		for i := 0; ; i++ {
			switch burst := c.arrivals.burst; {
			case burst == 0:
				at += r.ExpFloat64() / c.rate
			default:
				at = float64(i/burst*burst) / c.rate
			}
			if !yield(time.Duration(at * float64(time.Second))) {
				return
			}
		}
	}
}

// fill draws everything but the time.
func (c *config) fill(a *arrival, w words) {
	r := rand.New(rand.NewPCG(c.seed, uint64(a.id)))
	a.key = c.keys.draw(r)
	kind := r.Float64()
	switch {
	case a.class == intruder:
		a.turns = []turn{{words: w.text(r, c.intruder.words), maxTokens: c.maxTokens.draw(r)}}
		return
	case kind < c.badShare:
		a.class, a.malformed = bad, r.IntN(len(malformed))
		return
	case kind < c.badShare+c.cancelShare:
		a.class = cancelled
		a.cancelAfter = time.Duration(c.cancelAfter.draw(r)) * time.Millisecond
	}
	a.prefix = c.prefixWords > 0 && r.Float64() < c.prefixShare
	n := 1
	if a.class == short {
		n = c.turns.draw(r)
	}
	for range n {
		a.turns = append(a.turns, turn{
			words:     w.text(r, c.promptWords.draw(r)),
			maxTokens: c.maxTokens.draw(r),
			think:     time.Duration(c.think.draw(r)) * time.Millisecond,
		})
	}
}

// draw selects a key by the shares, -1 if there are none.
func (k apiKeys) draw(r *rand.Rand) int {
	sum := 0.0
	for _, key := range k {
		sum += key.share
	}
	v := r.Float64() * sum
	for i, key := range k {
		if v -= key.share; v < 0 {
			return i
		}
	}
	return len(k) - 1
}
