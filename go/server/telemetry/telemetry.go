// Package telemetry observes a server: Prometheus metrics, one log line per request, and OpenTelemetry spans. It
// measures requests where they enter the engine, so the results do not depend on the API.
//
// Prompts and answers are never recorded.
package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
)

// An Observer measures requests in a model's engine.
type Observer struct {
	metrics *ModelMetrics
	tracer  trace.Tracer
}

// NewObserver returns an Observer that counts in m and makes spans with t.
func NewObserver(m *ModelMetrics, t trace.Tracer) *Observer { return &Observer{m, t} }

// Watch observes a request to its end. It is called before the request is submitted.
func (o *Observer) Watch(r *engine.Request) {
	s := &sink{Sink: r.Sink, o: o, begun: time.Now(), ctx: r.Origin, asked: &r.Params}
	if s.ctx == nil {
		s.ctx = context.Background()
	}
	r.Sink = s
}

// Refused counts a request that was not admitted.
func (o *Observer) Refused(err error) { o.metrics.requests.WithLabelValues(outcome("", err)).Inc() }

// sink is a Sink that records times.
type sink struct {
	engine.Sink
	o           *Observer
	ctx         context.Context
	asked       *generate.Params
	begun, last time.Time
	first       time.Time
}

func (s *sink) Token(t generate.Token) bool {
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
	firstToken := 0.0
	if !s.first.IsZero() {
		firstToken = s.first.Sub(s.begun).Seconds()
	}
	op := operationFrom(s.ctx)
	m.genAI.observe(op.name, m.name, r, op.ended(s.asked, r), now.Sub(s.begun).Seconds(), firstToken)
	op.describe(trace.SpanFromContext(s.ctx), m.name, s.asked)
	s.trace(r, now)
	s.Sink.Done(r)
}

// trace creates the spans of a request's stages, once their times are known.
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
	stage("prefill", started, prefilled, attribute.Int("gen_ai.usage.input_tokens", r.PromptTokens), attribute.Int("gen_ai.usage.cache_read.input_tokens", r.CachedTokens))
	if !s.first.IsZero() {
		stage("decode", s.first, now, attribute.Int("gen_ai.usage.output_tokens", r.Generated), attribute.Int("llm.preempted", r.Preempted))
	}
}

// outcome is the label for the result of a request.
func outcome(f generate.Finish, err error) string {
	var busy *engine.BusyError
	var short *engine.MemoryError
	switch {
	case err == nil:
		return string(f)
	case errors.As(err, &busy), errors.As(err, &short):
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
