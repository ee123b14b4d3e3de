package main

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// A spread is the statistics of durations, in milliseconds.
type spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// spreadOf sorts v. Percentiles are samples, by nearest rank.
func spreadOf(v []time.Duration) spread {
	if len(v) == 0 {
		return spread{}
	}
	slices.Sort(v)
	at := func(percent float64) float64 {
		return millis(v[max(int(math.Ceil(percent/100*float64(len(v)))), 1)-1])
	}
	return spread{N: len(v), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// A group is a subset of the requests. Failed ones are counted only in the total.
type group struct {
	Name     string `json:"name"`
	Requests int    `json:"requests"`
	TTFT     spread `json:"ttft"`
	ITL      spread `json:"itl"`
	E2E      spread `json:"e2e"`
}

// A flow is the throughput of a time span.
type flow struct {
	Seconds  float64 `json:"seconds"`
	Requests float64 `json:"requests_per_s"` // successful ones
	Prompt   float64 `json:"prompt_tokens_per_s"`
	Cached   float64 `json:"cached_tokens_per_s"` // of them
	Output   float64 `json:"output_tokens_per_s"`
}

// A tally is how many requests had an outcome.
type tally struct {
	Outcome string `json:"outcome"`
	N       int    `json:"n"`
	Error   bool   `json:"error"`            // unexpected
	Sample  string `json:"sample,omitempty"` // of the message
}

// A summary is all statistics of a run.
type summary struct {
	Type      string  `json:"type"`
	Groups    []group `json:"groups"`
	Whole     flow    `json:"whole"` // from the start to the last answer
	Busy      flow    `json:"busy"`  // while requests were running
	Outcomes  []tally `json:"outcomes"`
	Errors    int     `json:"errors"`
	Held      int     `json:"held"`    // by the concurrency limit
	LateMax   float64 `json:"late_ms"` // at most, of those not held
	Uncounted int     `json:"uncounted"`

	PeakRSS     uint64   `json:"peak_rss_bytes,omitempty"` // of the server and its children
	StopSeconds float64  `json:"stop_s,omitempty"`         // from SIGTERM to its end
	Verify      *verdict `json:"verify,omitempty"`
}

// summarize computes the statistics.
func summarize(results []*result) summary {
	s := summary{Type: "summary", Groups: groups(results)}
	tallies := map[string]*tally{}
	var prompt, cached, output, good int
	var last time.Duration
	for _, r := range results {
		t := tallies[r.outcome()]
		if t == nil {
			t = &tally{Outcome: r.outcome()}
			tallies[t.Outcome] = t
			if r.failure != nil {
				t.Sample = r.failure.detail
			}
		}
		t.N++
		if r.unexpected() {
			t.Error = true
			s.Errors++
		}
		if r.held {
			s.Held++
		} else {
			s.LateMax = max(s.LateMax, millis(r.late()))
		}
		if r.good() {
			good++
		}
		p, c, o, counted := r.tokens()
		if o > 0 && !counted {
			s.Uncounted++
		}
		prompt, cached, output = prompt+p, cached+c, output+o
		last = max(last, r.since(r.end))
	}
	for _, t := range tallies {
		s.Outcomes = append(s.Outcomes, *t)
	}
	slices.SortFunc(s.Outcomes, func(a, b tally) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Outcome, b.Outcome))
	})
	in := func(d time.Duration) flow {
		if d <= 0 {
			return flow{}
		}
		per := func(n int) float64 { return float64(n) / d.Seconds() }
		return flow{d.Seconds(), per(good), per(prompt), per(cached), per(output)}
	}
	s.Whole, s.Busy = in(last), in(busy(results))
	return s
}

// groups groups requests by class, and the short ones, as the reference, also by turn,
// prefix and key where they differ in that.
func groups(results []*result) []group {
	var out []group
	var shorts []*result
	for _, c := range []class{short, intruder, cancelled, bad} {
		of := filter(results, func(r *result) bool { return r.class == c })
		if c == short {
			shorts = of
		}
		if len(of) > 0 {
			out = append(out, newGroup(string(c), of))
		}
	}
	split := func(has func(*result) bool, yes, no string) {
		with := filter(shorts, has)
		if len(with) > 0 && len(with) < len(shorts) {
			out = append(out, newGroup("short, "+yes, with),
				newGroup("short, "+no, filter(shorts, func(r *result) bool { return !has(r) })))
		}
	}
	split(func(r *result) bool { return r.turn == 0 }, "first turn", "later turns")
	split(func(r *result) bool { return r.prefix }, "shared prefix", "no shared prefix")
	keys := map[string]bool{}
	for _, r := range shorts {
		keys[r.key.name] = true
	}
	if len(keys) > 1 {
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			out = append(out, newGroup("short, key "+name, filter(shorts, func(r *result) bool { return r.key.name == name })))
		}
	}
	return out
}

func filter(results []*result, has func(*result) bool) []*result {
	var out []*result
	for _, r := range results {
		if has(r) {
			out = append(out, r)
		}
	}
	return out
}

func newGroup(name string, of []*result) group {
	var ttft, itl, e2e []time.Duration
	for _, r := range of {
		if r.failure != nil || r.aborted {
			continue
		}
		if v, ok := r.ttft(); ok {
			ttft = append(ttft, v)
		}
		itl = append(itl, r.itl()...)
		if r.good() && r.class != cancelled || r.refused { // those that ended before their cancellation were short
			e2e = append(e2e, r.e2e())
		}
	}
	return group{name, len(of), spreadOf(ttft), spreadOf(itl), spreadOf(e2e)}
}

// busy is how long at least one request was running.
func busy(results []*result) time.Duration {
	bySent := slices.SortedFunc(slices.Values(results), func(a, b *result) int { return a.sent.Compare(b.sent) })
	var sum time.Duration
	var until time.Time
	for _, r := range bySent {
		from := r.sent
		if from.Before(until) {
			from = until
		}
		if r.end.After(from) {
			sum += r.end.Sub(from)
			until = r.end
		}
	}
	return sum
}
