package telemetry

import (
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/machine"
)

// Metrics are exported to Prometheus. Those that llama-server also has keep its names
// and meanings, so that dashboards made for it work.
type Metrics struct {
	registry *prometheus.Registry
	begun    time.Time

	http *prometheus.CounterVec
	// Labelled by model.
	requests                                       *prometheus.CounterVec
	firstToken, gap, queue, prefill, decode, whole *prometheus.HistogramVec
	promptTokens, outputTokens                     *prometheus.HistogramVec
	passTime, passSequences, passTokens            *prometheus.HistogramVec
	genAI                                          genAI
	c                                              MetricsConfig
}

// A MetricsConfig says which metrics there are.
type MetricsConfig struct {
	VLLM     bool         // vLLM's gauges too
	OneModel bool         // llama-server's metrics have no labels, as those of one model have none there
	Meter    metric.Meter // where OpenTelemetry's are counted too; nil: nowhere
}

// modelLabel is the label of metrics that are counted per model.
const modelLabel = "model"

// ModelMetrics are the metrics of one model.
type ModelMetrics struct {
	name                                           string
	registry                                       *prometheus.Registry
	requests                                       *prometheus.CounterVec
	firstToken, gap, queue, prefill, decode, whole prometheus.Observer
	promptTokens, outputTokens                     prometheus.Observer
	passTime, passSequences, passTokens            prometheus.Observer
	genAI                                          *genAI
	c                                              MetricsConfig
	longest                                        atomic.Int64 // tokens of the longest sequence that has ended
}

// Model returns the metrics of the model called name.
func (m *Metrics) Model(name string) *ModelMetrics {
	return &ModelMetrics{
		name: name, registry: m.registry, genAI: &m.genAI, c: m.c,
		requests:   m.requests.MustCurryWith(prometheus.Labels{modelLabel: name}),
		firstToken: m.firstToken.WithLabelValues(name), gap: m.gap.WithLabelValues(name), queue: m.queue.WithLabelValues(name),
		prefill: m.prefill.WithLabelValues(name), decode: m.decode.WithLabelValues(name), whole: m.whole.WithLabelValues(name),
		promptTokens: m.promptTokens.WithLabelValues(name), outputTokens: m.outputTokens.WithLabelValues(name),
		passTime: m.passTime.WithLabelValues(name), passSequences: m.passSequences.WithLabelValues(name), passTokens: m.passTokens.WithLabelValues(name),
	}
}

// Histogram buckets of times: requests up to minutes, tokens up to seconds.
var (
	long  = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	short = []float64{.001, .0025, .005, .01, .02, .03, .05, .075, .1, .15, .2, .3, .5, 1, 2.5, 10}
	count = prometheus.ExponentialBuckets(1, 2, 18)
)

// NewMetrics returns metrics with all counters at 0.
func NewMetrics(c MetricsConfig) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), begun: time.Now(), c: c}
	if c.Meter == nil {
		c.Meter = noop.Meter{}
	}
	m.genAI = newGenAI(m.registry, c.Meter)
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{modelLabel})
		m.registry.MustRegister(h)
		return h
	}
	m.firstToken = histogram("quern_time_to_first_token_seconds", "From the arrival of a request to its first token.", long)
	m.gap = histogram("quern_inter_token_latency_seconds", "Between two tokens of a request.", short)
	m.queue = histogram("quern_request_queue_seconds", "From the arrival of a request to its first pass.", long)
	m.prefill = histogram("quern_request_prefill_seconds", "From the first pass of a request to its first token.", long)
	m.decode = histogram("quern_request_decode_seconds", "From the first token of a request to its last.", long)
	m.whole = histogram("quern_request_seconds", "From the arrival of a request to its end.", long)
	m.promptTokens = histogram("quern_request_prompt_tokens", "Tokens of a prompt.", count)
	m.outputTokens = histogram("quern_request_generated_tokens", "Tokens of an answer.", count)
	m.passTime = histogram("quern_pass_seconds", "Time of a pass over the model.", short)
	m.passSequences = histogram("quern_pass_sequences", "Sequences in a pass.", count)
	m.passTokens = histogram("quern_pass_tokens", "Tokens in a pass.", count)
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quern_requests_total", Help: "Requests to the engine, by how they ended.",
	}, []string{modelLabel, "outcome"})
	m.http = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quern_http_requests_total", Help: "HTTP requests, by route and status.",
	}, []string{"route", "method", "status"})
	m.registry.MustRegister(m.requests, m.http, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Pass counts a forward pass.
func (m *ModelMetrics) Pass(p engine.PassInfo) {
	m.passTime.Observe(p.Took.Seconds())
	m.passSequences.Observe(float64(p.Sequences))
	m.passTokens.Observe(float64(p.PromptTokens + p.DecodeTokens))
}

// ran records the length of a sequence that has ended.
func (m *ModelMetrics) ran(tokens int) {
	for n := int64(tokens); ; {
		if was := m.longest.Load(); was >= n || m.longest.CompareAndSwap(was, n) {
			return
		}
	}
}

// Read adds the state of a model, under its own name: its status, and how many requests
// hold a lease on it.
func (m *ModelMetrics) Read(status func() engine.Status, leases func() int) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) { m.collect(out, status(), leases()) }))
}

// Read adds the state of the machine.
func (m *Metrics) Read(device *engine.Device, version string) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) { collect(out, device, version) }))
}

// Handler serves the metrics, and the time since which they count.
func (m *Metrics) Handler() http.Handler {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Process-Start-Time-Unix", strconv.FormatInt(m.begun.Unix(), 10))
		h.ServeHTTP(w, r)
	})
}

// A collector computes metrics from the current state when they are scraped.
type collector func(out chan<- prometheus.Metric)

// Describe sends nothing, which makes the collector unchecked: metrics are checked when
// they are collected.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect computes the metrics.
func (c collector) Collect(out chan<- prometheus.Metric) { c(out) }

// An emitter sends metrics with common labels, and further ones per metric.
type emitter struct {
	out    chan<- prometheus.Metric
	labels prometheus.Labels
}

func (e emitter) emit(kind prometheus.ValueType, name, help string, v float64, labels []string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	e.out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, e.labels), kind, v, values...)
}

func (e emitter) counter(name, help string, v float64, labels ...string) {
	e.emit(prometheus.CounterValue, name, help, v, labels)
}

func (e emitter) gauge(name, help string, v float64, labels ...string) {
	e.emit(prometheus.GaugeValue, name, help, v, labels)
}

func (m *ModelMetrics) collect(out chan<- prometheus.Metric, s engine.Status, leases int) {
	e := emitter{out, prometheus.Labels{modelLabel: m.name}}
	llama := e
	if m.c.OneModel {
		llama.labels = nil
	}
	counter, gauge := llama.counter, llama.gauge
	busy, longest := 0, int(m.longest.Load())
	for _, slot := range s.Slots {
		if slot.Busy {
			busy++
		}
		longest = max(longest, slot.Evaluated+slot.Generated)
	}
	n := s.Counts
	counter("llamacpp:prompt_tokens_total", "Prompt tokens evaluated.", float64(n.PromptTokens))
	counter("llamacpp:prompt_tokens_cached_total", "Prompt tokens found in the cache.", float64(n.CachedTokens))
	counter("llamacpp:prompt_seconds_total", "Time spent on prompts.", n.PromptTime.Seconds())
	counter("llamacpp:tokens_predicted_total", "Tokens generated.", float64(n.GeneratedTokens))
	counter("llamacpp:tokens_predicted_seconds_total", "Time spent on generation.", n.GeneratedTime.Seconds())
	counter("llamacpp:n_decode_total", "Passes over the model.", float64(n.Passes))
	counter("llamacpp:n_tokens_max", "Tokens of the longest sequence there was.", float64(longest))
	gauge("llamacpp:prompt_tokens_seconds", "Prompt tokens per second, on average.", perSecond(n.PromptTokens, n.PromptTime))
	gauge("llamacpp:predicted_tokens_seconds", "Tokens generated per second, on average.", perSecond(n.GeneratedTokens, n.GeneratedTime))
	gauge("llamacpp:requests_processing", "Requests that run.", float64(busy))
	gauge("llamacpp:requests_deferred", "Requests that wait.", float64(s.Queued))
	gauge("llamacpp:n_busy_slots_per_decode", "Sequences in a pass, on average.", float64(n.SlotPasses)/float64(max(n.Passes, 1)))

	counter, gauge = e.counter, e.gauge
	const kv = "Memory for keys, values and recurrent state, by use."
	gauge("quern_kv_bytes", kv, float64(s.KV.Used), "state", "used")
	gauge("quern_kv_bytes", kv, float64(s.KV.Cached), "state", "cached")
	gauge("quern_kv_bytes", kv, float64(s.KV.Bytes-s.KV.Used-s.KV.Cached), "state", "free")
	gauge("quern_requests_parked", "Requests that have begun and made room for others.", float64(s.Parked))
	counter("quern_prompt_cached_tokens_total", "Prompt tokens found in the prefix cache.", float64(n.CachedTokens))
	counter("quern_preemptions_total", "Times that a request made room for others.", float64(n.Preemptions))
	counter("quern_cancellations_total", "Requests that were cancelled.", float64(n.Cancellations))
	counter("quern_rejected_requests_total", "Requests that the queue had no room for.", float64(n.RejectedRequests))
	counter("quern_evicted_kv_blocks_total", "Cached KV blocks and recurrent states given away.", float64(n.EvictedBlocks))
	gauge("quern_model_leases", "HTTP requests that use the model.", float64(leases))
	gauge("quern_cost_first_token_seconds", "Learned time of a pass of one token.", s.Cost.First.Seconds())
	gauge("quern_cost_token_seconds", "Learned time of each token of a long pass.", s.Cost.Each.Seconds())
	if m.c.VLLM {
		m.collectVLLM(out, s, busy)
	}
}

func collect(out chan<- prometheus.Metric, device *engine.Device, version string) {
	e, budget := emitter{out, nil}, device.Budget()
	counter, gauge := e.counter, e.gauge
	for purpose, bytes := range budget.ByPurpose() {
		gauge("quern_memory_bytes", "Memory taken from the budget, by purpose.", float64(bytes), "purpose", purpose)
	}
	limit, _ := budget.Limit()
	gauge("quern_memory_limit_bytes", "The memory budget.", float64(limit))
	gauge("quern_memory_pressure", "How short memory is: 0 not, 1 caches were given back, 2 new requests are refused.", float64(device.Pressure()))
	gauge("quern_threads", "Threads that compute.", float64(device.Threads()))
	p := machine.ReadPressure()
	counter("quern_cpu_throttled_periods_total", "Periods in which the CPU quota ran out.", float64(p.ThrottledPeriods))
	counter("quern_cpu_throttled_seconds_total", "Time that threads were held for the CPU quota.", p.Throttled.Seconds())
	counter("quern_cpu_steal_seconds_total", "CPU time that the host gave to others.", p.Steal.Seconds())
	gauge("quern_build_info", "The program.", 1, "version", version, "arch", runtime.GOARCH)
}

func perSecond(n uint64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}
