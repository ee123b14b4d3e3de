package telemetry

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
)

// What is scraped is pushed too, under the conventions' names and attributes, and only where
// the environment says so.
func TestPush(t *testing.T) {
	got := make(chan *metrics.ExportMetricsServiceRequest, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		message := &metrics.ExportMetricsServiceRequest{}
		if err := proto.Unmarshal(b, message); err != nil || r.URL.Path != "/v1/metrics" || r.Header.Get("A") != "b" {
			t.Errorf("%s: %v, header %q", r.URL.Path, err, r.Header.Get("A"))
		}
		got <- message
	}))
	defer s.Close()
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_METRICS_EXPORTER", "OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		t.Setenv(name, "")
	}
	count := func(p *Push) {
		m := NewMetrics(MetricsConfig{Meter: p.Meter, State: two}).Model("a/b")
		ctx := context.WithValue(context.Background(), operationKey{}, &operation{name: "chat"})
		r := &engine.Request{Sink: discard{}, Origin: ctx, Params: generate.Params{Prompt: make([]int32, 9)}}
		NewObserver(m, noop.NewTracerProvider().Tracer("")).Watch(r)
		r.Sink.Token(generate.Token{})
		r.Sink.Done(engine.Result{Finish: generate.MaxedOut, Usage: engine.Usage{PromptTokens: 9, Generated: 3, Decode: time.Second / 5}})
		p.Close()
	}
	push := func() *Push {
		t.Helper()
		p, err := NewPush("v1")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	count(push())
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "a=b")
	t.Setenv("OTEL_SERVICE_NAME", "mill")
	for _, off := range [][2]string{
		{"OTEL_METRICS_EXPORTER", "none"}, {"OTEL_METRICS_EXPORTER", "prometheus,console"}, {"OTEL_SDK_DISABLED", "TRUE"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
	} {
		t.Setenv(off[0], off[1])
		p := push()
		if said := p.Off != ""; said != (off[1] == "grpc") || said && !strings.HasPrefix(p.Off, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc: ") {
			t.Errorf("%s=%s: %q", off[0], off[1], p.Off)
		}
		count(p)
		t.Setenv(off[0], "")
	}
	t.Setenv("OTEL_METRICS_EXPORTER", "console, otlp")
	if len(got) != 0 {
		t.Error("pushed where it is off")
	}
	count(push())
	message := <-got
	if about := message.ResourceMetrics[0].Resource.String(); !strings.Contains(about, `"mill"`) || !strings.Contains(about, `"v1"`) {
		t.Errorf("the resource is %s", about)
	}
	sums := map[string]float64{}
	for _, m := range message.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		for _, point := range m.GetHistogram().DataPoints {
			name := m.Name + " " + m.Unit
			for _, a := range point.Attributes {
				if a.Key == "gen_ai.token.type" {
					name += " " + a.Value.GetStringValue()
				}
				if a.Value.GetStringValue() == "" { // such as the error of a request that had none
					t.Errorf("%s: %v is empty", name, a)
				}
				if a.Key == "gen_ai.operation.name" && a.Value.GetStringValue() != "chat" || a.Key == "gen_ai.request.model" && a.Value.GetStringValue() != "a/b" {
					t.Errorf("%s: %v", name, a)
				}
			}
			if point.Count != 1 || len(point.Attributes) < 4 || len(point.ExplicitBounds) < 10 {
				t.Errorf("%s: %v", name, point)
			}
			sums[name] = point.GetSum()
		}
	}
	for name, want := range map[string]float64{
		"gen_ai.client.token.usage {token} input": 9, "gen_ai.client.token.usage {token} output": 3, "gen_ai.server.time_per_output_token s": .1,
		"gen_ai.server.request.duration s": -1, "gen_ai.server.time_to_first_token s": -1, // some time
	} {
		if v, ok := sums[name]; !ok || want >= 0 && v != want {
			t.Errorf("%s is %v, want %v; there are %v", name, v, want, sums)
		}
	}
	const name = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
	for _, bad := range []string{"localhost:4318", "http://", "ftp://localhost:4318", "//localhost", "http://[::1", "https://\x7f"} {
		t.Setenv(name, bad)
		if _, err := NewPush("v1"); err == nil || !strings.Contains(err.Error(), name+"="+bad) {
			t.Errorf("%s=%s: %v", name, bad, err)
		}
	}
}
