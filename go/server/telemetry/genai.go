package telemetry

import (
	"context"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
)

// genAI are the metrics of OpenTelemetry's conventions for generative AI.
type genAI struct {
	duration, firstToken, perToken, usage histogram
}

// A histogram is scraped under its name in Prometheus, and pushed under its own.
type histogram struct {
	scraped *prometheus.HistogramVec
	pushed  metric.Float64Histogram
}

// observe counts a value. Attributes have their names in OpenTelemetry.
func (h histogram) observe(v float64, attributes ...attribute.KeyValue) {
	labels := prometheus.Labels{}
	for _, a := range attributes {
		labels[strings.ReplaceAll(string(a.Key), ".", "_")] = a.Value.AsString()
	}
	h.scraped.With(labels).Observe(v)
	// In Prometheus all labels are present, some of them empty; the conventions omit such attributes.
	attributes = slices.DeleteFunc(slices.Clone(attributes), func(a attribute.KeyValue) bool { return a.Value.AsString() == "" })
	h.pushed.Record(context.Background(), v, metric.WithAttributes(attributes...))
}

const provider = "quern" // gen_ai.provider.name

// The buckets that the conventions recommend.
var (
	genAIDuration   = prometheus.ExponentialBuckets(.01, 2, 14)
	genAIFirstToken = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	genAIPerToken   = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5}
	genAITokens     = prometheus.ExponentialBuckets(1, 4, 14)
)

func newGenAI(r prometheus.Registerer, meter metric.Meter) genAI {
	// The conventions give a unit. In Prometheus, seconds are part of the name.
	histogramOf := func(name, unit, help string, buckets []float64, more ...string) histogram {
		under := strings.ReplaceAll(name, ".", "_")
		if unit == "s" {
			under += "_seconds"
		}
		scraped := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: under, Help: help, Buckets: buckets},
			append([]string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_response_model"}, more...))
		r.MustRegister(scraped)
		pushed, err := meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(help), metric.WithExplicitBucketBoundaries(buckets...))
		if err != nil {
			panic(err) // a name or a bucket above is invalid
		}
		return histogram{scraped, pushed}
	}
	return genAI{
		duration:   histogramOf("gen_ai.server.request.duration", "s", "From the arrival of a request to its end.", genAIDuration, "error_type"),
		firstToken: histogramOf("gen_ai.server.time_to_first_token", "s", "From the arrival of a request that succeeded to its first token.", genAIFirstToken),
		perToken:   histogramOf("gen_ai.server.time_per_output_token", "s", "Of each token after the first, on average over a request that succeeded.", genAIPerToken),
		usage:      histogramOf("gen_ai.client.token.usage", "{token}", "Tokens of a request, of the input and of the output.", genAITokens, "gen_ai_token_type"),
	}
}

// observe counts a request that has ended. firstToken is 0 if it has no token. A prompt is counted with the first of
// its answers.
func (g *genAI) observe(operation, model string, r engine.Result, first bool, whole, firstToken float64) {
	common := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", operation), attribute.String("gen_ai.provider.name", provider),
		attribute.String("gen_ai.request.model", model), attribute.String("gen_ai.response.model", model),
	}
	with := func(name, value string) []attribute.KeyValue {
		return append(slices.Clip(common), attribute.String(name, value))
	}
	failure := ""
	if r.Err != nil {
		failure = outcome(r.Finish, r.Err)
	}
	g.duration.observe(whole, with("error.type", failure)...)
	if first {
		g.usage.observe(float64(r.PromptTokens), with("gen_ai.token.type", "input")...)
	}
	g.usage.observe(float64(r.Generated), with("gen_ai.token.type", "output")...)
	if r.Err != nil || firstToken == 0 {
		return
	}
	g.firstToken.observe(firstToken, common...)
	if r.Generated > 1 {
		g.perToken.observe(r.Decode.Seconds()/float64(r.Generated-1), common...)
	}
}

// An operation is what an HTTP request asks for, and what its answers used so far.
type operation struct {
	name string

	mu            sync.Mutex
	prompts       map[*int32]bool // prompts that were answered, by the address of their tokens, which their answers share
	input, output int
	finished      []string
}

// ended adds an answer that has ended, and reports whether it is the first to its prompt.
func (o *operation) ended(asked *generate.Params, r engine.Result) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if prompt := unsafe.SliceData(asked.Prompt); !o.prompts[prompt] {
		first = true
		o.input += r.PromptTokens
		if o.prompts == nil {
			o.prompts = map[*int32]bool{}
		}
		o.prompts[prompt] = true
	}
	o.output += r.Generated
	o.finished = append(o.finished, outcome(r.Finish, r.Err))
	return first
}

type operationKey struct{}

// Operations gives the requests of each route their operation, for metrics and spans.
func Operations() gin.HandlerFunc {
	return func(c *gin.Context) {
		op := &operation{name: operationOf(c.Request.URL.Path)}
		c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), operationKey{}, op))
		c.Next()
	}
}

// operationOf returns the conventions' name for the operation of a path.
func operationOf(path string) string {
	for _, word := range []struct{ in, name string }{
		{"embed", "embeddings"}, {"chat", "chat"}, {"messages", "chat"}, {"responses", "chat"},
	} {
		if strings.Contains(path, word.in) {
			return word.name
		}
	}
	return "text_completion"
}

func operationFrom(ctx context.Context) *operation {
	if op, ok := ctx.Value(operationKey{}).(*operation); ok {
		return op
	}
	return &operation{name: "text_completion"}
}

// describe adds what was asked for, and used so far, to the span of an HTTP request.
func (o *operation) describe(span trace.Span, model string, asked *generate.Params) {
	if !span.IsRecording() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p := &asked.Sampling
	span.SetAttributes(
		attribute.String("gen_ai.operation.name", o.name), attribute.String("gen_ai.provider.name", provider),
		attribute.String("gen_ai.request.model", model), attribute.String("gen_ai.response.model", model),
		attribute.Float64("gen_ai.request.temperature", float64(p.Temp)), attribute.Float64("gen_ai.request.top_p", float64(p.TopP)),
		attribute.Int("gen_ai.request.top_k", p.TopK), attribute.Float64("gen_ai.request.frequency_penalty", float64(p.FrequencyPenalty)),
		attribute.Float64("gen_ai.request.presence_penalty", float64(p.PresencePenalty)), attribute.Int64("gen_ai.request.seed", int64(p.Seed)),
		attribute.Int("gen_ai.usage.input_tokens", o.input), attribute.Int("gen_ai.usage.output_tokens", o.output),
		attribute.StringSlice("gen_ai.response.finish_reasons", o.finished),
	)
	if asked.MaxTokens >= 0 {
		span.SetAttributes(attribute.Int("gen_ai.request.max_tokens", asked.MaxTokens))
	}
}
