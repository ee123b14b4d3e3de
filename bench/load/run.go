package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// A runner sends the planned requests at their times.
type runner struct {
	c      *config
	client *client
	model  string
	words  words
	took   func(*result) // called with each result, one at a time

	prefix string
	start  time.Time
	mu     sync.Mutex
}

// run sends all requests of the plan and waits for the answers. When ctx ends, it
// disconnects from those that are running.
func (r *runner) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, r.c.cap)
	r.prefix = r.c.prefix(r.words)
	r.start = time.Now()
	for a := range r.c.plan(r.words) {
		if !sleepUntil(ctx, r.start.Add(a.at)) {
			return
		}
		held := false
		select {
		case free <- struct{}{}:
		default:
			held = true
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		wg.Go(func() {
			defer func() { <-free }()
			if a.class == bad {
				r.sendBad(ctx, a, held)
			} else {
				r.converse(ctx, a, held)
			}
		})
	}
}

// send sends one request of an arrival and waits for its outcome.
func (r *runner) send(ctx context.Context, a arrival, body []byte) *result {
	res := &result{id: a.id, class: a.class, intended: a.at, prefix: a.prefix, body: body, start: r.start}
	if a.key >= 0 {
		res.key = r.c.keys[a.key]
	}
	res.answer = r.client.ask(ctx, body, res.key.key, a.cancelAfter)
	return res
}

// converse sends the request of an arrival, and after each answer the next turn.
func (r *runner) converse(ctx context.Context, a arrival, held bool) {
	d := r.c.begin(a, r.model, r.prefix)
	at := a.at
	for i, turn := range a.turns {
		if i > 0 {
			at += turn.think
			if !sleepUntil(ctx, r.start.Add(at)) {
				return
			}
		}
		d.say("user", turn.words)
		res := r.send(ctx, a, d.body(turn.maxTokens))
		res.turn, res.intended, res.held = i, at, held && i == 0
		res.allowed = res.failure != nil && res.status != http.StatusOK && r.c.allowed(res.status)
		d.say("assistant", res.text) // before record drops the texts
		r.record(res)
		if !res.good() {
			return
		}
		at = res.since(res.end)
	}
}

// sendBad sends a malformed body, which a server must refuse.
func (r *runner) sendBad(ctx context.Context, a arrival, held bool) {
	body := malformed[a.malformed]
	res := r.send(ctx, a, []byte(body))
	res.held = held
	switch {
	case res.status >= 400 && res.status < 500:
		res.failure, res.refused = nil, true
	case res.status != 0 && !res.aborted:
		res.failure = &failure{"bad body not refused", fmt.Sprintf("status %d for %.40q", res.status, body)}
	}
	r.record(res)
}

func (r *runner) record(res *result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took(res)
}

// sleepUntil reports whether t came before the end of ctx.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
