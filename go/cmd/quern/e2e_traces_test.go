package main

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/quern-llm/quern/go/demo"
)

// A collector is told of a request: its span, and what it took.
func TestServeTellsACollector(t *testing.T) {
	var mu sync.Mutex
	spans, seen := map[string]string{}, map[string]bool{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var from io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if from, err = gzip.NewReader(from); err != nil {
				t.Error(err)
				return
			}
		}
		b, err := io.ReadAll(from)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		switch r.URL.Path {
		case "/v1/traces":
			var m traces.ExportTraceServiceRequest
			if err := proto.Unmarshal(b, &m); err != nil {
				t.Error(err)
			}
			for _, of := range m.ResourceSpans {
				for _, scope := range of.ScopeSpans {
					for _, span := range scope.Spans {
						for _, a := range span.Attributes {
							spans[span.Name+" "+a.Key] = a.Value.GetStringValue()
						}
					}
				}
			}
		case "/v1/metrics":
			var m metrics.ExportMetricsServiceRequest
			if err := proto.Unmarshal(b, &m); err != nil {
				t.Error(err)
			}
			for _, of := range m.ResourceMetrics {
				for _, scope := range of.ScopeMetrics {
					for _, one := range scope.Metrics {
						seen[one.Name] = true
					}
				}
			}
		}
	}))
	t.Cleanup(collector.Close)
	s := serveWith(t, []string{"OTEL_METRICS_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_METRIC_EXPORT_INTERVAL=100"},
		demo.Name, "--host", "127.0.0.1", "--port", "0", "--trace-endpoint", collector.URL)
	r, err := http.Post(s.address()+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":4}`))
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r, err)
	}
	r.Body.Close()
	const span = "POST /v1/chat/completions "
	want := map[string]string{span + "gen_ai.operation.name": "chat", span + "gen_ai.request.model": "demo", span + "server.address": "127.0.0.1"}
	histograms := []string{"gen_ai.server.request.duration", "gen_ai.server.time_to_first_token", "gen_ai.server.time_per_output_token", "gen_ai.client.token.usage"}
	if !s.eventually(func() bool {
		mu.Lock()
		defer mu.Unlock()
		for key, value := range want {
			if spans[key] != value {
				return false
			}
		}
		return !slices.ContainsFunc(histograms, func(name string) bool { return !seen[name] })
	}) {
		mu.Lock()
		defer mu.Unlock()
		t.Errorf("the collector has %v and %v, want %v and %v", spans, seen, want, histograms)
	}
}
