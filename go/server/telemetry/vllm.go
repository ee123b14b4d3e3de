package telemetry

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-llm/quern/go/engine"
)

// collectVLLM sends the metrics that load-balancing gateways read from vLLM, with the same names and labels.
func (m *ModelMetrics) collectVLLM(out chan<- prometheus.Metric, s engine.Status, running int) {
	e := emitter{out, prometheus.Labels{"model_name": m.name, "engine": "0"}}
	e.gauge("vllm:num_requests_running", "Requests that run.", float64(running))
	e.gauge("vllm:num_requests_waiting", "Requests that wait.", float64(s.Queued))
	used := float64(s.KV.Used) / float64(max(s.KV.Bytes, 1))
	e.gauge("vllm:kv_cache_usage_perc", "Share of the KV memory that running requests hold, from 0 to 1.", used)
	// The name that vLLM had before, and that endpoint pickers of Kubernetes read by default.
	e.gauge("vllm:gpu_cache_usage_perc", "The same as vllm:kv_cache_usage_perc.", used)
	// Gateways read the number of blocks under this name, wherever the memory is.
	e.gauge("vllm:cache_config_info", "Size of the KV cache.", 1,
		"block_size", strconv.Itoa(s.KV.BlockTokens), "num_gpu_blocks", strconv.Itoa(s.KV.Blocks), "enable_prefix_caching", "True")
	var run []*engine.Adapter
	for _, slot := range s.Slots {
		for _, a := range slot.Adapters {
			run = append(run, a.Adapter)
		}
	}
	e.gauge("vllm:lora_requests_info", "Adapters of the requests, and when that was so.", float64(time.Now().Unix()),
		"max_lora", strconv.Itoa(engine.MaxAdapters), "running_lora_adapters", adapterNames(run), "waiting_lora_adapters", adapterNames(s.Asked))
}

// adapterNames lists the names of adapters, each once.
func adapterNames(list []*engine.Adapter) string {
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}
