package telemetry

import (
	"flag"
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kernel"
)

var update = flag.Bool("update", false, "write testdata/metrics.txt anew")

// number gives each number that v holds a value of its own, from n on.
func number(v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type() != reflect.TypeFor[time.Time]() {
				number(v.Field(i), n)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			number(v.Index(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		number(v.Elem(), n)
	case reflect.Int64:
		*n++
		if v.SetInt(int64(*n)); v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(int64(*n) * int64(time.Millisecond))
		}
	case reflect.Int, reflect.Int32:
		*n++
		v.SetInt(int64(*n))
	case reflect.Uint64, reflect.Uint32:
		*n++
		v.SetUint(uint64(*n))
	case reflect.Float64:
		*n++
		v.SetFloat(float64(*n))
	}
}

var (
	machines = regexp.MustCompile(`\b(go_|process_|promhttp_|quern_cpu_|quern_build_info|quern_memory_|quern_disk_cache)`)
	timed    = regexp.MustCompile(`^(vllm:lora_requests_info\S*|\w+_sum\{\S*) \S+`)
	bucket   = regexp.MustCompile(`^(\w+_bucket)\{.*\b(le="[^"]+").*\n`)
)

// The names, labels and buckets of metrics are what dashboards and alerts elsewhere are made for: a change of the page is
// a change for them. Each number of the state has a value of its own there.
func TestPage(t *testing.T) {
	m, _ := full(t)
	n := 100
	var s engine.Status
	number(reflect.ValueOf(&s).Elem(), &n)
	s.KV.Bytes += 1000
	s.Ranks.Loads = make([]kernel.RankLoad, 2)
	for i := range s.Ranks.Loads {
		number(reflect.ValueOf(&s.Ranks.Loads[i]).Elem(), &n)
	}
	m.Model("c").Read(func() engine.Status { return s })
	m.http.WithLabelValues("/v1/x", "POST", "200").Inc()
	seen := map[string]bool{}
	var lines strings.Builder
	for line := range strings.Lines(page(t, m)) {
		if machines.MatchString(line) {
			continue
		}
		line = timed.ReplaceAllString(line, "$1")
		if b := bucket.FindStringSubmatch(line); b != nil { // of each metric once, without what is in it
			line = b[1] + " " + b[2] + "\n"
		}
		if !seen[line] {
			lines.WriteString(line)
		}
		seen[line] = true
	}
	page := lines.String()
	const path = "testdata/metrics.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if page != string(want) {
		t.Errorf("the page of metrics is not as in %s; -update writes it\n%s", path, page)
	}
}

// Each count of the disk cache has its own name.
func TestPageOfTheDiskCache(t *testing.T) {
	var s diskcache.Status
	n := 0
	number(reflect.ValueOf(&s).Elem(), &n)
	r := prometheus.NewRegistry()
	r.MustRegister(collector(func(out chan<- prometheus.Metric) { collectDisk(out, s) }))
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range all {
		for _, m := range f.Metric {
			name := strings.TrimPrefix(f.GetName(), "quern_disk_cache_")
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	want := map[string]float64{"bytes": float64(s.Bytes), "limit_bytes": float64(s.Limit), "pages_total read": float64(s.Read),
		"pages_total written": float64(s.Written), "pages_total removed": float64(s.Removed), "pages_total damaged": float64(s.Damaged),
		"errors_total": float64(s.Errors)}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A span says how many tokens were wanted at most, if that was said.
func TestSpanOfARequest(t *testing.T) {
	for _, most := range []int{-1, 0, 5} {
		spans := tracetest.NewSpanRecorder()
		_, span := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("").Start(t.Context(), "request")
		new(operation).describe(span, "m", &generate.Params{MaxTokens: most})
		span.End()
		got := -1
		for _, a := range spans.Ended()[0].Attributes() {
			if a.Key == "gen_ai.request.max_tokens" {
				got = int(a.Value.AsInt64())
			}
		}
		if got != most {
			t.Errorf("%d tokens are %d", most, got)
		}
	}
}
