// Package telemetry shows what a server does: metrics for Prometheus, one line of
// log for each request, and spans for OpenTelemetry. It sees requests where they
// enter the engine, so that what it measures is the same whichever API they came by.
//
// No prompt and no answer goes into any of it.
package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/quern-llm/quern/go/engine"
)

// Observer measures requests on their way through a model's engine.
type Observer struct {
	metrics *ModelMetrics
	tracer  trace.Tracer
}

// NewObserver returns an Observer that counts in m and makes spans with t.
func NewObserver(m *ModelMetrics, t trace.Tracer) *Observer { return &Observer{m, t} }

// Watch has the Observer see what becomes of a request. It is called before the
// request is submitted.
func (o *Observer) Watch(r *engine.Request) {
	s := &sink{Sink: r.Sink, o: o, begun: time.Now(), ctx: r.Origin}
	if s.ctx == nil {
		s.ctx = context.Background()
	}
	r.Sink = s
}

// Refused counts a request that was not taken in.
func (o *Observer) Refused(err error) { o.metrics.requests.WithLabelValues(outcome("", err)).Inc() }

// sink is a Sink with a clock.
type sink struct {
	engine.Sink
	o           *Observer
	ctx         context.Context
	begun, last time.Time
	first       time.Time
}

func (s *sink) Token(t engine.Token) bool {
	now := time.Now()
	if s.first.IsZero() {
		s.first = now
		s.o.metrics.firstToken.Observe(now.Sub(s.begun).Seconds())
	} else {
		s.o.metrics.gap.Observe(now.Sub(s.last).Seconds())
	}
	s.last = now
	return s.Sink.Token(t)
}

func (s *sink) Done(r engine.Result) {
	m, now := s.o.metrics, time.Now()
	m.requests.WithLabelValues(outcome(r.Finish, r.Err)).Inc()
	m.queue.Observe(r.Queued.Seconds())
	m.prefill.Observe(r.Prefill.Seconds())
	m.decode.Observe(r.Decode.Seconds())
	m.whole.Observe(now.Sub(s.begun).Seconds())
	m.promptTokens.Observe(float64(r.PromptTokens))
	m.outputTokens.Observe(float64(r.Generated))
	m.ran(r.PromptTokens + r.Generated)
	s.trace(r, now)
	s.Sink.Done(r)
}

// trace makes the spans of a request's stages, now that it is known when they
// began and ended.
func (s *sink) trace(r engine.Result, now time.Time) {
	if !trace.SpanFromContext(s.ctx).IsRecording() {
		return
	}
	stage := func(name string, from, to time.Time, a ...attribute.KeyValue) {
		if to.After(from) {
			_, span := s.o.tracer.Start(s.ctx, name, trace.WithTimestamp(from), trace.WithAttributes(a...))
			if r.Err != nil && to.Equal(now) {
				span.SetStatus(codes.Error, r.Err.Error())
			}
			span.End(trace.WithTimestamp(to))
		}
	}
	started := s.begun.Add(r.Queued)
	if r.Queued == 0 && r.Prefill == 0 && r.Generated == 0 { // it never ran
		stage("queue", s.begun, now)
		return
	}
	prefilled := now
	if !s.first.IsZero() {
		prefilled = s.first
	}
	stage("queue", s.begun, started)
	stage("prefill", started, prefilled, attribute.Int("llm.prompt_tokens", r.PromptTokens), attribute.Int("llm.cached_tokens", r.CachedTokens))
	if !s.first.IsZero() {
		stage("decode", s.first, now, attribute.Int("llm.generated_tokens", r.Generated), attribute.Int("llm.preempted", r.Preempted))
	}
}

// outcome names how a request ended, for a label.
func outcome(f engine.Finish, err error) string {
	var busy *engine.BusyError
	switch {
	case err == nil:
		return string(f)
	case errors.As(err, &busy):
		return "rejected"
	case errors.Is(err, engine.ErrDeadline):
		return "deadline"
	case errors.Is(err, engine.ErrClosing):
		return "closing"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, engine.ErrTooLong):
		return "too_long"
	}
	return "error"
}
