package telemetry

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// A Push sends the metrics of OpenTelemetry's conventions to a collector, at intervals and at the end.
type Push struct {
	Meter metric.Meter
	Off   string // why nothing is pushed although the environment names an endpoint; else empty
	close func(context.Context) error
}

// NewPush pushes metrics over OTLP if OpenTelemetry's environment variables name an endpoint, else nothing. The
// exporter reads the other variables: headers, timeout, compression, certificates, interval.
func NewPush(version string) (*Push, error) {
	p := &Push{Meter: noop.Meter{}, close: func(context.Context) error { return nil }}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || !exportsOTLP() {
		return p, nil
	}
	name := otlpVariable("ENDPOINT")
	if name == "" {
		return p, nil
	}
	if u, err := url.Parse(os.Getenv(name)); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s=%s: no address, want one such as http://localhost:4318", name, os.Getenv(name))
	}
	if protocol := otlpVariable("PROTOCOL"); protocol != "" && os.Getenv(protocol) != "http/protobuf" {
		p.Off = fmt.Sprintf("%s=%s: not supported, want http/protobuf", protocol, os.Getenv(protocol))
		return p, nil // platforms set it for all programs
	}
	ctx := context.Background()
	about, err := about(ctx, version)
	if err != nil {
		return nil, err
	}
	exporter, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", name, os.Getenv(name), err)
	}
	provider := sdk.NewMeterProvider(sdk.WithReader(sdk.NewPeriodicReader(exporter)), sdk.WithResource(about))
	p.Meter, p.close = provider.Meter("github.com/quern-llm/quern"), provider.Shutdown
	return p, nil
}

// exportsOTLP reports whether OTLP is among the exporters that the environment names, or none is named.
func exportsOTLP() bool {
	names := os.Getenv("OTEL_METRICS_EXPORTER")
	return names == "" || slices.ContainsFunc(strings.Split(names, ","), func(name string) bool { return strings.TrimSpace(name) == "otlp" })
}

// otlpVariable returns the variable that applies to metrics: their own, or the one for all signals; empty if neither is
// set.
func otlpVariable(what string) string {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_METRICS_" + what, "OTEL_EXPORTER_OTLP_" + what} {
		if strings.TrimSpace(os.Getenv(name)) != "" {
			return name
		}
	}
	return ""
}

// about describes this program to collectors. The environment may override its name.
func about(ctx context.Context, version string) (*resource.Resource, error) {
	r, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "quern"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return r, nil
}

// Close sends the rest, with a short timeout.
func (p *Push) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	p.close(ctx)
}
