package telemetry

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Tracing exports spans.
type Tracing struct {
	Provider   trace.TracerProvider
	Propagator propagation.TextMapPropagator
	close      func(context.Context) error
}

// NewTracing exports spans to an OTLP collector at endpoint, such as
// http://localhost:4318; empty disables it. If the collector is unreachable, spans are
// dropped and nothing else is affected.
func NewTracing(endpoint, version string) (*Tracing, error) {
	t := &Tracing{
		Provider:   noop.NewTracerProvider(),
		Propagator: propagation.TraceContext{},
		close:      func(context.Context) error { return nil },
	}
	if endpoint == "" {
		return t, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("traces to %q: no address, want one such as http://localhost:4318", endpoint)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces" // the standard OTLP path
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, fmt.Errorf("traces to %s: %w", endpoint, err)
	}
	about, err := about(context.Background(), version)
	if err != nil {
		return nil, err
	}
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	t.Provider, t.close = p, p.Shutdown
	return t, nil
}

// Tracer returns the engine's tracer.
func (t *Tracing) Tracer() trace.Tracer { return t.Provider.Tracer("github.com/quern-llm/quern") }

// Close flushes the remaining spans, with a short timeout.
func (t *Tracing) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	t.close(ctx)
}
