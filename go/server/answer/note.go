package answer

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/reply"
)

// Log fields of requests. They contain no text of prompts and answers.

// ModelKey is the key of the name of the model that a request is for, in its gin context: a string.
const ModelKey = "asked-model"

// outcomes are how sequences end, in the log's words. Of a request that is the latest of this list that one of its
// sequences has.
var outcomes = []string{"stop", "length", "context", "deadline", "shutdown", "cancelled", "error"}

// outcome is how a sequence ended.
func (e *Ending) outcome() string {
	switch {
	case e.err == nil && e.Stop == StopLimit && e.truncated:
		return "context"
	case e.err == nil && e.Stop == StopLimit:
		return "length"
	case e.err == nil:
		return "stop"
	case errors.Is(e.err, context.Canceled):
		return "cancelled"
	case errors.Is(e.err, engine.ErrClosing):
		return "shutdown"
	case errors.Is(e.err, engine.ErrDeadline):
		return "deadline"
	}
	return "error"
}

// A tally is what the sequences of a request did that have ended.
type tally struct {
	outcome    int           // index in outcomes
	queue      time.Duration // the longest wait
	firstToken time.Duration // from the request to the first token of all; 0: there was none
	decode     time.Duration // the longest
	later      int           // tokens after the first of each sequence
}

func (t *tally) add(u engine.Usage, end *Ending) {
	t.outcome = max(t.outcome, slices.Index(outcomes, end.outcome()))
	t.queue, t.decode = max(t.queue, u.Queued), max(t.decode, u.Decode)
	if u.Generated == 0 {
		return
	}
	t.later += u.Generated - 1
	if first := u.Queued + u.Prefill; t.firstToken == 0 || first < t.firstToken {
		t.firstToken = first
	}
}

// note returns the log fields of a generation.
func (g *Generation) note() map[string]any {
	t := &g.tally
	fields := map[string]any{
		"completion": g.ID, "model": g.Name, "outcome": outcomes[t.outcome], "prompt_tokens": g.Used.Prompt,
		"cached_tokens": g.Used.Cached, "completion_tokens": g.Used.Generated, "queue_ms": millis(t.queue),
	}
	if t.firstToken > 0 {
		fields["ttft_ms"] = millis(t.firstToken)
	}
	if t.later > 0 && t.decode > 0 {
		fields["tokens_per_s"] = float64(int(float64(t.later)/t.decode.Seconds()*100)) / 100
	}
	return fields
}

// millis are milliseconds with the digits that a reader wants.
func millis(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// cancelTime is how long a request whose client is gone waits for the counts of its sequences. They end after a pass.
const cancelTime = 2 * time.Second

// abandon cancels the sequences, of which some have not ended, and counts what they did.
func (g *Generation) abandon(left int) {
	g.Cancel()
	limit := time.NewTimer(cancelTime)
	defer limit.Stop()
	for left > 0 {
		select {
		case <-limit.C:
			return
		case <-g.box.ready:
		}
		events := g.box.fetch()
		g.spend(events)
		for _, e := range events {
			if e.End != nil {
				g.ended(e)
				left--
			}
		}
	}
}

// Note adds fields to the log line of the request.
func (req *Request) Note(fields map[string]any) { req.host.Note(req.HTTP, fields) }

// noteError leaves the reason of an error for the log. Details of internal errors have a line of their own.
func (req *Request) noteError(e *reply.Error) {
	if e.Status != http.StatusInternalServerError && e.Status != reply.StatusCancelled {
		req.host.Note(req.HTTP, map[string]any{"error": e.Logged()})
	}
}

// tellProgress logs how far a long prompt is, at times.
func (req *Request) tellProgress(g *Generation) func(Event) {
	var told time.Duration
	return func(e Event) {
		p := e.Progress
		if p.took-told < req.host.Progress || p.Done >= p.Total {
			return
		}
		told = p.took
		req.host.Log.Info().Str("request", req.HTTP.Writer.Header().Get("X-Request-Id")).Str("completion", g.ID).Str("model",
			g.Name).
			Int("done_tokens", p.Done).Int("prompt_tokens", p.Total).Int("cached_tokens", p.Cached).Int64("took_ms",
			p.took.Milliseconds()).
			Msg("reading the prompt")
	}
}
