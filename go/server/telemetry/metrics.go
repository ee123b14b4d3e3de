package telemetry

import (
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/server/quota"
)

// Metrics are exported to Prometheus. Those that llama-server has too keep its names and meanings, so that dashboards
// made for it work.
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

	mu     sync.Mutex
	models map[string]*ModelMetrics
}

// A MetricsConfig selects the metrics.
type MetricsConfig struct {
	VLLM     bool                          // vLLM's gauges too
	OneModel bool                          // llama-server's metrics have no labels, as in llama-server with one model
	State    func(model string) ModelState // returns the state of a model
	Meter    metric.Meter                  // counts OpenTelemetry's metrics too; nil: none does
	Keys     func() []quota.Key            // those with a name have counters; nil: none has
	Energy   *machine.EnergyMeter          // nil: it cannot be read, and there is no metric of it
}

// A ModelState is the state of a model (loading, loaded, sleeping or unloaded), the memory that it takes, and the
// number of requests that hold a lease on it.
type ModelState struct {
	State  string
	Bytes  uint64
	Leases int
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
	longest                                        atomic.Int64 // length in tokens of the longest sequence that has ended

	mu     sync.Mutex
	loaded []*func() engine.Status // of each instance, newest last
	past   engine.Counts           // of unloaded instances
	state  func(model string) ModelState
}

// Model returns the metrics of a model. They continue when the model is loaded again.
func (m *Metrics) Model(name string) *ModelMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.models[name]; known != nil {
		return known
	}
	one := &ModelMetrics{
		name: name, registry: m.registry, genAI: &m.genAI, c: m.c, state: m.c.State,
		requests:   m.requests.MustCurryWith(prometheus.Labels{modelLabel: name}),
		firstToken: m.firstToken.WithLabelValues(name), gap: m.gap.WithLabelValues(name), queue: m.queue.WithLabelValues(name),
		prefill: m.prefill.WithLabelValues(name), decode: m.decode.WithLabelValues(name), whole: m.whole.WithLabelValues(name),
		promptTokens: m.promptTokens.WithLabelValues(name), outputTokens: m.outputTokens.WithLabelValues(name),
		passTime: m.passTime.WithLabelValues(name), passSequences: m.passSequences.WithLabelValues(name), passTokens: m.passTokens.WithLabelValues(name),
	}
	if m.models == nil {
		m.models = map[string]*ModelMetrics{}
	}
	m.models[name] = one
	m.registry.MustRegister(collector(one.now))
	return one
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
	m.registry.MustRegister(collector(m.keys), m.requests, m.http, collectors.NewGoCollector(),
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

// Read adds an instance of the model. gone is called once, when it is unloaded; its counts stay. There may be two
// instances: a file that was replaced is loaded again while requests still use the previous one.
func (m *ModelMetrics) Read(status func() engine.Status) (gone func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := &status
	m.loaded = append(m.loaded, one)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.loaded = slices.DeleteFunc(m.loaded, func(o *func() engine.Status) bool { return o == one })
		m.past = m.past.Plus(status().Counts)
	}
}

// now computes the current metrics of the model: the state of the newest instance, and the counts of all.
func (m *ModelMetrics) now(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var s engine.Status
	counts := m.past
	for _, status := range m.loaded {
		s = (*status)()
		counts = counts.Plus(s.Counts)
	}
	s.Counts = counts
	m.collect(out, s, m.state(m.name))
}

// Read adds the state of the machine, and of the disk cache if there is one.
func (m *Metrics) Read(device *engine.Device, disk *diskcache.Store, version string) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		collect(out, device, version)
		if m.c.Energy != nil {
			collectEnergy(out, m.c.Energy)
		}
		if disk != nil {
			collectDisk(out, disk.Status())
		}
	}))
}

// Handler serves the metrics, and the time at which counting began.
func (m *Metrics) Handler() http.Handler {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Process-Start-Time-Unix", strconv.FormatInt(m.begun.Unix(), 10))
		h.ServeHTTP(w, r)
	})
}

// A collector computes metrics from the current state when they are scraped.
type collector func(out chan<- prometheus.Metric)

// Describe sends nothing, which makes the collector unchecked: metrics are checked when they are collected.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect computes the metrics.
func (c collector) Collect(out chan<- prometheus.Metric) { c(out) }

// An emitter sends metrics with common labels, and further labels per metric.
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

func (m *ModelMetrics) collect(out chan<- prometheus.Metric, s engine.Status, at ModelState) {
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
	guessed, right := n.Drafted.Total()
	counter("llamacpp:spec_decode_num_drafts_total", "Steps of sequences that had drafts.", float64(n.Drafts))
	counter("llamacpp:spec_decode_num_draft_tokens_total", "Draft tokens.", float64(guessed))
	counter("llamacpp:spec_decode_num_accepted_tokens_total", "Draft tokens that were accepted.", float64(right))
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
	counter("quern_prompt_restored_tokens_total", "Prompt tokens of which the state was read from disk.", float64(n.RestoredTokens))
	counter("quern_restores_total", "Requests for which state was read from disk.", float64(n.Restores))
	counter("quern_media_encodings_total", "Pictures and sounds that were encoded.", float64(n.Encodings))
	counter("quern_media_restores_total", "Pictures and sounds whose embeddings were read from disk.", float64(n.RowRestores))
	counter("quern_preemptions_total", "Times that a request made room for others.", float64(n.Preemptions))
	counter("quern_cancellations_total", "Requests that were cancelled.", float64(n.Cancellations))
	counter("quern_rejected_requests_total", "Requests that the queue had no room for.", float64(n.RejectedRequests))
	counter("quern_evicted_kv_blocks_total", "Cached KV blocks and recurrent states given away.", float64(n.EvictedBlocks))
	for s, c := range n.Drafted {
		if c.Guessed > 0 {
			source := draft.Source(s).String()
			counter("quern_draft_tokens_total", "Draft tokens, by where they come from.", float64(c.Guessed), "source", source)
			counter("quern_draft_accepted_tokens_total", "Of those, the ones that were accepted.", float64(c.Right), "source", source)
		}
	}
	counter("quern_drafting_seconds_total", "Time between passes to draft, and in passes of a draft model.", n.Drafting.Seconds())
	counter("quern_draft_rested_passes_total", "Passes without the drafts that there were, since drafts had lost too much time.", float64(n.Rested))
	gauge("quern_model_leases", "HTTP requests that use the model.", float64(at.Leases))
	gauge("quern_model_bytes", "Memory that the model takes.", float64(at.Bytes))
	if d := s.Drafts; d != nil {
		gauge("quern_draft_model_bytes", "Memory that its draft model takes, of that.", float64(d.Bytes))
	}
	gauge("quern_model_state", "1, by how far the model is from answering.", 1, "state", at.State)
	gauge("quern_cost_first_token_seconds", "Learned time of a pass of one token.", s.Cost.First.Seconds())
	gauge("quern_cost_token_seconds", "Learned time of each token of a long pass.", s.Cost.Each.Seconds())
	if st := s.Stream; st != nil {
		const help = "Memory of streamed weights, by use."
		gauge("quern_stream_bytes", help, float64(st.Pinned), "use", "kept")
		gauge("quern_stream_bytes", help, float64(st.Ring), "use", "ring")
		gauge("quern_stream_bytes", help, float64(st.Cache), "use", "experts")
		gauge("quern_stream_weights_bytes", "Weights that are streamed.", float64(st.Bytes))
		counter("quern_stream_read_bytes_total", "Weights read from the disk.", float64(st.Read))
		counter("quern_stream_wait_seconds_total", "Time that passes waited for the disk.", st.Waited.Seconds())
		counter("quern_stream_experts_total", "Experts that were needed.", float64(st.Hits), "found", "yes")
		counter("quern_stream_experts_total", "Experts that were needed.", float64(st.Misses), "found", "no")
		counter("quern_stream_errors_total", "Reads that failed.", float64(st.Errors))
	}
	if r := s.Ranks; r != nil {
		counter("quern_rank_exchanges_total", "Exchanges between the ranks of the model.", float64(r.Exchanges))
		for i, l := range r.Loads {
			rank := strconv.Itoa(i)
			counter("quern_rank_compute_seconds_total", "Time in passes that a rank computed.", l.Computed.Seconds(), "rank", rank)
			counter("quern_rank_wait_seconds_total", "Time in passes that a rank waited for others.", l.Waited.Seconds(), "rank", rank)
			counter("quern_rank_sent_bytes_total", "Bytes that a rank has sent to each other.", float64(l.Bytes), "rank", rank)
		}
	}
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

// collectEnergy adds what the machine has used. A counter that cannot be read any more is left out.
func collectEnergy(out chan<- prometheus.Metric, meter *machine.EnergyMeter) {
	used, err := meter.Read()
	if err != nil {
		return
	}
	const help = "Energy that the machine has used since the server started, of all that runs on it."
	e := emitter{out, nil}
	e.counter("quern_energy_joules_total", help, used.Package, "part", "package")
	e.counter("quern_energy_joules_total", help, used.DRAM, "part", "dram")
}

func collectDisk(out chan<- prometheus.Metric, s diskcache.Status) {
	e := emitter{out, nil}
	e.gauge("quern_disk_cache_bytes", "Bytes of the disk cache, by all servers that share it.", float64(s.Bytes))
	e.gauge("quern_disk_cache_limit_bytes", "The limit of the disk cache.", float64(s.Limit))
	const pages = "Pages of the disk cache, by what became of them."
	e.counter("quern_disk_cache_pages_total", pages, float64(s.Read), "event", "read")
	e.counter("quern_disk_cache_pages_total", pages, float64(s.Written), "event", "written")
	e.counter("quern_disk_cache_pages_total", pages, float64(s.Removed), "event", "removed")
	e.counter("quern_disk_cache_pages_total", pages, float64(s.Damaged), "event", "damaged")
	e.counter("quern_disk_cache_errors_total", "Errors of the disk cache's file system.", float64(s.Errors))
}

func perSecond(n uint64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}
