package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/guard"
)

type discard struct{}

func (discard) Progress(engine.Progress)  {}
func (discard) Token(generate.Token) bool { return true }
func (discard) Done(engine.Result)        {}
func page(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if began, err := strconv.ParseInt(w.Header().Get("Process-Start-Time-Unix"), 10, 64); err != nil || time.Since(time.Unix(began, 0)) > time.Hour {
		t.Errorf("it began at %q", w.Header().Get("Process-Start-Time-Unix"))
	}
	return w.Body.String()
}

// full returns metrics that have counted something of everything.
func full(t *testing.T) (*Metrics, *ModelMetrics) {
	t.Helper()
	m := NewMetrics(MetricsConfig{VLLM: true, State: two})
	budget := mem.NewBudget(1000, "a test")
	device, err := engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(device.Close)
	res, err := budget.Reserve("packed weights", 600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(res.Release)
	disk, err := diskcache.Open(diskcache.Config{Dir: t.TempDir(), Limit: 5000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { disk.Close() })
	m.Read(device, disk, "v1")
	one, pirate := m.Model("a/b"), &engine.Adapter{Name: "pirate"}
	one.Read(func() engine.Status {
		return engine.Status{
			Slots:  []engine.SlotStatus{{Busy: true, Evaluated: 100, Generated: 5, Adapters: []engine.ScaledAdapter{{Adapter: pirate}, {Adapter: &engine.Adapter{Name: "a"}}}}, {Adapters: []engine.ScaledAdapter{{Adapter: pirate}}}},
			Queued: 3, Parked: 1, Asked: []*engine.Adapter{{Name: "b"}},
			KV:     engine.KVStatus{Bytes: 10, Used: 4, Cached: 5, BlockTokens: 64, Blocks: 3},
			Counts: engine.Counts{Passes: 4, SlotPasses: 6, PromptTokens: 200, PromptTime: 2 * time.Second, GeneratedTokens: 50, GeneratedTime: time.Second, CachedTokens: 7, RestoredTokens: 6},
		}
	})
	one.Pass(engine.PassInfo{Took: 20 * time.Millisecond, Sequences: 2, PromptTokens: 30, DecodeTokens: 1})
	o := NewObserver(one, noop.NewTracerProvider().Tracer(""))
	op := &operation{name: "chat"}
	r := &engine.Request{Sink: discard{}, Origin: context.WithValue(context.Background(), operationKey{}, op)}
	r.Prompt = make([]int32, 9)
	again := *r // another answer to the same prompt
	o.Watch(r)
	o.Watch(&again)
	again.Sink.Done(engine.Result{Err: context.Canceled, Usage: engine.Usage{PromptTokens: 9}})
	r.Sink.Token(generate.Token{})
	r.Sink.Token(generate.Token{})
	r.Sink.Done(engine.Result{Finish: generate.MaxedOut, Usage: engine.Usage{PromptTokens: 9, Generated: 2, Queued: time.Second, Decode: time.Second / 5}})
	o.Refused(&engine.BusyError{})
	return m, one
}

func TestMetrics(t *testing.T) {
	m, _ := full(t)
	got := page(t, m)
	const who = `gen_ai_operation_name="chat",gen_ai_provider_name="quern",gen_ai_request_model="a/b",gen_ai_response_model="a/b"`
	for _, want := range []string{
		`llamacpp:prompt_tokens_total{model="a/b"} 200`, `llamacpp:prompt_tokens_seconds{model="a/b"} 100`, `llamacpp:predicted_tokens_seconds{model="a/b"} 50`,
		`llamacpp:requests_processing{model="a/b"} 1`, `llamacpp:requests_deferred{model="a/b"} 3`, `llamacpp:n_busy_slots_per_decode{model="a/b"} 1.5`,
		`llamacpp:n_tokens_max{model="a/b"} 105`, `llamacpp:prompt_tokens_cached_total{model="a/b"} 7`, `quern_kv_bytes{model="a/b",state="used"} 4`,
		`quern_kv_bytes{model="a/b",state="cached"} 5`, `quern_kv_bytes{model="a/b",state="free"} 1`, `quern_memory_bytes{purpose="packed weights"} 600`,
		"quern_memory_limit_bytes 1000", "quern_memory_pressure 0", "quern_threads 1", `quern_prompt_cached_tokens_total{model="a/b"} 7`, `quern_time_to_first_token_seconds_count{model="a/b"} 1`,
		`quern_inter_token_latency_seconds_count{model="a/b"} 1`, `quern_request_queue_seconds_bucket{model="a/b",le="1"} 2`, `quern_request_queue_seconds_bucket{model="a/b",le="0.5"} 1`,
		`quern_requests_total{model="a/b",outcome="length"} 1`, `quern_requests_total{model="a/b",outcome="rejected"} 1`, `quern_pass_tokens_sum{model="a/b"} 31`,
		"quern_disk_cache_limit_bytes 5000", `quern_disk_cache_pages_total{event="written"} 0`, `quern_prompt_restored_tokens_total{model="a/b"} 6`,
		"quern_cpu_steal_seconds_total", "process_resident_memory_bytes", `quern_model_leases{model="a/b"} 2`,
		`gen_ai_server_request_duration_seconds_count{error_type="",` + who + `} 1`, `gen_ai_server_request_duration_seconds_count{error_type="cancelled",` + who + `} 1`,
		`gen_ai_server_time_to_first_token_seconds_count{` + who + `} 1`, `gen_ai_server_time_per_output_token_seconds_bucket{` + who + `,le="0.2"} 1`,
		`gen_ai_server_time_per_output_token_seconds_bucket{` + who + `,le="0.15"} 0`,
		`gen_ai_client_token_usage_sum{` + strings.Replace(who, `,gen_ai_request_model="a/b",gen_ai_response_model="a/b"`, `,gen_ai_request_model="a/b",gen_ai_response_model="a/b",gen_ai_token_type="input"`, 1) + `} 9`,
		`vllm:num_requests_running{engine="0",model_name="a/b"} 1`, `vllm:num_requests_waiting{engine="0",model_name="a/b"} 3`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="a/b"} 0.4`, `vllm:gpu_cache_usage_perc{engine="0",model_name="a/b"} 0.4`, `vllm:cache_config_info{block_size="64",enable_prefix_caching="True",engine="0",model_name="a/b",num_gpu_blocks="3"} 1`,
		`vllm:lora_requests_info{engine="0",max_lora="64",model_name="a/b",running_lora_adapters="a,pirate",waiting_lora_adapters="b"} `,
	} {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("no %q in\n%s", want, got)
			return
		}
	}
}

// Energy is counted where it can be read.
func TestEnergyMetric(t *testing.T) {
	const dir = "sys/class/powercap/intel-rapl:0/"
	files := fstest.MapFS{dir + "name": {Data: []byte("package-0")}, dir + "energy_uj": {Data: []byte("1000000")}}
	for _, file := range []string{"proc/cpuinfo", "proc/meminfo"} {
		b, err := os.ReadFile("/" + file)
		if err != nil {
			t.Fatal(err)
		}
		files[file] = &fstest.MapFile{Data: b}
	}
	machine, err := machine.ReadFS(files, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	meter, err := machine.EnergyMeter()
	if err != nil {
		t.Fatal(err)
	}
	device, err := engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(1000, "a test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(device.Close)
	m := NewMetrics(MetricsConfig{State: two, Energy: meter})
	m.Read(device, nil, "v1")
	files[dir+"energy_uj"].Data = []byte("3500000")
	if got := page(t, m); !strings.Contains(got, "\nquern_energy_joules_total{part=\"package\"} 2.5\n") || !strings.Contains(got, "\nquern_energy_joules_total{part=\"dram\"} 0\n") {
		t.Error(got)
	}
	delete(files, dir+"energy_uj")
	if got := page(t, m); strings.Contains(got, "quern_energy") {
		t.Error(got)
	}
}

// A server of one model has llama-server's metrics as they are there.
func TestMetricsOfOneModel(t *testing.T) {
	m := NewMetrics(MetricsConfig{OneModel: true, State: two})
	m.Model("a").Read(func() engine.Status { return engine.Status{Queued: 3} })
	if got := page(t, m); !strings.Contains(got, "\nllamacpp:requests_deferred 3\n") || !strings.Contains(got, "\nquern_requests_parked{model=\"a\"} 0\n") || strings.Contains(got, "vllm:") {
		t.Error(got)
	}
}

// The longest sequence there was stays, as a counter has to.
func TestLongest(t *testing.T) {
	m, one := full(t)
	for _, n := range []int{50, 300, 200} {
		one.ran(n)
	}
	if got := page(t, m); !strings.Contains(got, "\nllamacpp:n_tokens_max{model=\"a/b\"} 300\n") || !strings.Contains(got, "\n# TYPE llamacpp:n_tokens_max counter\n") {
		t.Errorf("got\n%s", got)
	}
}

// The dashboard and the alerts ask for nothing that there is not.
func TestDashboard(t *testing.T) {
	m, _ := full(t)
	m.http.WithLabelValues("/", "GET", "200").Inc()
	there := page(t, m)
	for _, file := range []string{"dashboard.json", "alerts.yaml"} {
		b, err := os.ReadFile("../../../docs/operations/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(b) {
			t.Errorf("%s is not JSON", file)
		}
		names := regexp.MustCompile(`\b(?:quern|llamacpp:|process)_?[a-z_]+`).FindAllString(string(b), -1)
		if len(names) < 8 {
			t.Errorf("%s asks for %d metrics", file, len(names))
		}
		for _, name := range names {
			if name != "quern" && !strings.Contains(there, "\n"+name) {
				t.Errorf("%s asks for %s", file, name)
			}
		}
	}
}

func TestTraces(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	p := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	ctx, parent := p.Tracer("").Start(context.Background(), "request")
	o := NewObserver(NewMetrics(MetricsConfig{State: two}).Model("m"), p.Tracer(""))
	r := &engine.Request{Sink: discard{}, Origin: ctx}
	o.Watch(r)
	r.Sink.Progress(engine.Progress{})
	time.Sleep(2 * time.Millisecond)
	r.Sink.Token(generate.Token{})
	time.Sleep(time.Millisecond)
	r.Sink.Done(engine.Result{Err: engine.ErrDeadline, Usage: engine.Usage{PromptTokens: 9, Generated: 1, Queued: time.Millisecond, Prefill: time.Millisecond}})
	parent.End()
	var names []string
	for i, s := range spans.Ended() {
		names = append(names, s.Name())
		if i > 0 && s.Name() != "request" && s.StartTime().Before(spans.Ended()[i-1].EndTime()) {
			t.Errorf("%s began before %s ended", s.Name(), spans.Ended()[i-1].Name())
		}
		if s.SpanContext().TraceID() != parent.SpanContext().TraceID() {
			t.Errorf("%s is of another trace", s.Name())
		}
	}
	if got := strings.Join(names, " "); got != "queue prefill decode request" {
		t.Errorf("spans %q", got)
	}
	attributes := fmt.Sprint(spans.Ended()[3].Attributes())
	for _, want := range []string{"gen_ai.operation.name", "gen_ai.request.model", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.response.finish_reasons"} {
		if !strings.Contains(attributes, want) {
			t.Errorf("the request has no %s: %s", want, attributes)
		}
	}
	if s := spans.Ended()[2].Status(); s.Description != engine.ErrDeadline.Error() {
		t.Errorf("status %+v", s)
	}
}

// The collector that nobody runs costs nothing; a wrong address is refused.
// A request that never ran has waited, and no more.
func TestTraceOfOneThatNeverRan(t *testing.T) {
	for _, tt := range []struct {
		used engine.Usage
		want string
	}{
		{engine.Usage{}, "queue"}, {engine.Usage{Queued: time.Nanosecond}, "queue prefill"},
		{engine.Usage{Prefill: time.Nanosecond}, "prefill"}, {engine.Usage{Generated: 1}, "prefill"},
	} {
		spans := tracetest.NewSpanRecorder()
		p := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
		ctx, _ := p.Tracer("").Start(context.Background(), "request")
		r := &engine.Request{Sink: discard{}, Origin: ctx}
		NewObserver(NewMetrics(MetricsConfig{State: two}).Model("m"), p.Tracer("")).Watch(r)
		time.Sleep(time.Millisecond)
		r.Sink.Done(engine.Result{Err: engine.ErrDeadline, Usage: tt.used})
		var names []string
		for _, s := range spans.Ended() {
			names = append(names, s.Name())
			if failed := s.Status().Code == codes.Error; failed != (s.Name() != "queue" || tt.want == "queue") {
				t.Errorf("%+v: %s has the status %v", tt.used, s.Name(), s.Status())
			}
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.used, got, tt.want)
		}
	}
}

// How a request ended is said in the same words everywhere.
func TestOutcomes(t *testing.T) {
	for want, err := range map[string]error{
		"length": nil, "rejected": &engine.MemoryError{}, "deadline": engine.ErrDeadline, "closing": engine.ErrClosing,
		"cancelled": context.Canceled, "too_long": &engine.TooLongError{}, "error": io.EOF,
	} {
		if got := outcome(generate.MaxedOut, err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}

func TestTracing(t *testing.T) {
	off, err := NewTracing("", "v1")
	if err != nil {
		t.Fatal(err)
	}
	off.Close()
	for _, bad := range []string{"localhost:4318", "ftp://x", "http://", "%"} {
		if _, err := NewTracing(bad, "v1"); err == nil || !strings.Contains(err.Error(), "http://localhost:4318") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	got := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + string(b)
	}))
	defer s.Close()
	on, err := NewTracing(s.URL, "v1")
	if err != nil {
		t.Fatal(err)
	}
	_, span := on.Tracer().Start(context.Background(), "a-span")
	span.End()
	on.Close()
	if b := <-got; !strings.HasPrefix(b, "/v1/traces") || !strings.Contains(b, "a-span") || !strings.Contains(b, "quern") {
		t.Errorf("%q", b)
	}
}

func TestLog(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	var out bytes.Buffer
	log := NewLog(&out, LogConfig{Level: zerolog.InfoLevel, Times: true})
	m := NewMetrics(MetricsConfig{State: two})
	g := gin.New()
	g.Use(guard.Identify(), m.Requests(log), guard.Recover(log))
	g.GET("/ok", func(c *gin.Context) {
		Note(c, map[string]any{"tokens": 5})
		Note(c, map[string]any{"error": "for a reason"})
		c.String(200, "hello")
	})
	g.GET("/unsupported", func(c *gin.Context) { c.Status(501) })
	g.GET("/health", func(c *gin.Context) { c.Status(200) })
	g.GET("/panic", func(*gin.Context) { panic("x") })
	for _, path := range []string{"/ok", "/health", "/panic", "/none", "/unsupported"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-Request-Id", "id"+path[1:])
		g.ServeHTTP(httptest.NewRecorder(), r)
	}
	lines := map[string]map[string]any{}
	for line := range strings.Lines(out.String()) {
		v := map[string]any{}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		if v["message"] == "request" {
			lines[v["path"].(string)] = v
		}
	}
	if l := lines["/ok"]; l["status"] != 200.0 || l["bytes"] != 5.0 || l["tokens"] != 5.0 || l["error"] != "for a reason" || l["took_ms"] == nil || l["client"] == "" || l["request"] != "idok" || l["level"] != "info" {
		t.Errorf("%v", l)
	}
	if l := lines["/unsupported"]; l["status"] != 501.0 || l["level"] != "info" {
		t.Errorf("%v", l)
	}
	if l := lines["/panic"]; l["status"] != 500.0 || l["level"] != "error" {
		t.Errorf("%v", l)
	}
	if lines["/health"] != nil {
		t.Error("a probe is in the log")
	}
	if got := page(t, m); !strings.Contains(got, `quern_http_requests_total{method="GET",route="none",status="404"} 1`) {
		t.Error(got)
	}
}

// On a terminal a request is told in the order in which one reads.
func TestLogForPeople(t *testing.T) {
	var out strings.Builder
	log := NewLog(&out, LogConfig{Level: zerolog.InfoLevel, Format: Always})
	m := NewMetrics(MetricsConfig{State: two})
	g := gin.New()
	g.Use(guard.Identify(), m.Requests(log))
	g.POST("/v1/x", func(c *gin.Context) {
		Note(c, map[string]any{"model": "m", "prompt_tokens": 6, "completion_tokens": 5, "outcome": "length", "queue_ms": 0.5})
		c.Status(200)
	})
	g.POST("/v1/y", func(c *gin.Context) {
		Note(c, map[string]any{"error": "n: 5, want \x1b[2J less"})
		c.Status(400)
	})
	for _, path := range []string{"/v1/x", "/v1/y", "/%1b%5b2J"} {
		r := httptest.NewRequest("POST", path, nil)
		r.Header.Set("X-Request-Id", "id")
		g.ServeHTTP(httptest.NewRecorder(), r)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{
		`^INF POST /v1/x 200 \d+\.\d ms 6\+5 tokens, length model=m client=192\.0\.2\.1 queue_ms=0\.5 bytes=0 request=id$`,
		`^INF POST /v1/y 400 \d+\.\d ms: "n: 5, want \\x1b\[2J less" client=192\.0\.2\.1 bytes=0 request=id$`,
		`^INF POST "/\\x1b\[2J" 404 \d+\.\d ms client=`,
	} {
		if !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("got %q, want %s", lines[i], want)
		}
	}
	for ms, want := range map[float64]string{0.04: "0.0 ms", 2.94: "2.9 ms", 999.9: "999.9 ms", 1000: "1.0 s", 1500: "1.5 s", 59_900: "59.9 s", 60_000: "1m0s", 169_000: "2m49s"} {
		if got := readable(ms); got != want {
			t.Errorf("%v ms are %s, want %s", ms, got, want)
		}
	}
}

func TestOperations(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completions": "chat", "/v1/messages": "chat", "/v1/responses": "chat", "/completion": "text_completion",
		"/v1/completions": "text_completion", "/infill": "text_completion", "/v1/embeddings": "embeddings",
	} {
		if got := operationOf(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// two is the state of a model that two requests use.
func two(string) ModelState { return ModelState{"loaded", 7, 2} }

// The counts of a model go on where another instance of it is loaded, even before the old one is gone.
func TestInstances(t *testing.T) {
	m := NewMetrics(MetricsConfig{State: two})
	of := func(n uint64) func() engine.Status {
		return func() engine.Status { return engine.Status{Queued: int(n), Counts: engine.Counts{Passes: n}} }
	}
	one := m.Model("a")
	check := func(passes, queued int) {
		t.Helper()
		got := page(t, m)
		for _, want := range []string{fmt.Sprintf(`llamacpp:n_decode_total{model="a"} %d`, passes), fmt.Sprintf(`llamacpp:requests_deferred{model="a"} %d`, queued)} {
			if !strings.Contains(got, "\n"+want+"\n") {
				t.Errorf("no %q", want)
			}
		}
	}
	check(0, 0)
	first := one.Read(of(1))
	second := one.Read(of(10))
	check(11, 10)
	first()
	check(11, 10)
	second()
	check(11, 0)
	third := one.Read(of(100))
	check(111, 100)
	third()
	check(111, 0)
}
