package main

import (
	"encoding/json"
	"net/http"
	"time"
)

// A result is the outcome of one request. Durations count from the start of the run.
type result struct {
	answer
	id, turn int
	class    class
	key      apiKey
	prefix   bool
	body     []byte
	start    time.Time // of the run
	intended time.Duration
	held     bool // by the concurrency limit
	refused  bool // a malformed body was refused, as expected
	allowed  bool // a failure, with a status of --allow-status
}

func (r *result) since(t time.Time) time.Duration { return t.Sub(r.start) }

// good reports whether the answer is complete.
func (r *result) good() bool {
	return r.status == http.StatusOK && !r.done.IsZero() && r.failure == nil
}

// ttft counts from the intended time of sending, which avoids coordinated omission: if
// server or client stalls, requests that should have been sent meanwhile have waited,
// too.
func (r *result) ttft() (time.Duration, bool) {
	if len(r.pieces) > 0 {
		return r.since(r.pieces[0]) - r.intended, true
	}
	return r.e2e(), r.good() // an empty answer is complete
}

func (r *result) e2e() time.Duration { return r.since(r.end) - r.intended }

// late is the delay from the intended to the actual time of sending.
func (r *result) late() time.Duration { return r.since(r.sent) - r.intended }

// itl are the gaps between pieces of text (inter-token latencies).
func (r *result) itl() []time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(r.pieces); i++ {
		gaps = append(gaps, r.pieces[i].Sub(r.pieces[i-1]))
	}
	return gaps
}

// tokens returns the server's counts, or the number of pieces if it sent none.
func (r *result) tokens() (prompt, cached, output int, counted bool) {
	if r.usage == nil {
		return 0, 0, len(r.pieces), false
	}
	if r.usage.Details != nil {
		cached = r.usage.Details.Cached
	}
	return r.usage.Prompt, cached, r.usage.Completion, true
}

// outcome is the category of the request in the report.
func (r *result) outcome() string {
	switch {
	case r.aborted:
		return "not ended"
	case r.cancelled:
		return "cancelled"
	case r.refused:
		return "bad body, refused"
	case r.failure != nil:
		return r.failure.kind
	}
	return r.finish
}

// unexpected reports a failure that --allow-status does not cover.
func (r *result) unexpected() bool { return r.failure != nil && !r.allowed }

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// MarshalJSON writes times in milliseconds, times of day relative to the start.
func (r *result) MarshalJSON() ([]byte, error) {
	line := map[string]any{
		"type": "request", "id": r.id, "turn": r.turn, "class": r.class, "outcome": r.outcome(), "status": r.status,
		"intended_ms": millis(r.intended), "sent_ms": millis(r.since(r.sent)), "e2e_ms": millis(r.e2e()),
		"shared_prefix": r.prefix, "held": r.held, "finish_reason": r.finish,
	}
	if r.key.name != "" {
		line["key"] = r.key.name
	}
	if ttft, ok := r.ttft(); ok {
		line["ttft_ms"] = millis(ttft)
	}
	itl := []float64{}
	for _, gap := range r.itl() {
		itl = append(itl, millis(gap))
	}
	line["itl_ms"] = itl
	prompt, cached, output, counted := r.tokens()
	line["output_tokens"], line["counted"] = output, counted
	if counted {
		line["prompt_tokens"], line["cached_tokens"] = prompt, cached
	}
	if r.failure != nil {
		line["error"] = r.failure.detail
	}
	return json.Marshal(line)
}
