package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-llm/quern/go/server/quota"
)

// maxKeys is how many keys have counters: each takes five series of whoever collects them.
const maxKeys = 1000

// keys counts the requests and tokens of the keys that have a name, the first maxKeys of them.
func (m *Metrics) keys(out chan<- prometheus.Metric) {
	if m.c.Keys == nil {
		return
	}
	e, n := emitter{out, nil}, 0
	for _, k := range m.c.Keys() {
		if k.Name == "" {
			continue
		}
		if n++; n > maxKeys {
			return
		}
		u := k.Account.Usage()
		sum := u.Sum(quota.Since)
		e.counter("quern_key_requests_total", "Requests to models with an API key that has a name.", float64(sum.Requests), "key", k.Name)
		e.counter("quern_key_refused_total", "Of such a key: requests over its quota.", float64(u.Refused), "key", k.Name)
		e.counter("quern_key_prompt_tokens_total", "Of such a key: tokens of prompts.", float64(sum.Input), "key", k.Name)
		e.counter("quern_key_cached_tokens_total", "Of such a key: tokens of prompts that the cache had.", float64(sum.Cached), "key", k.Name)
		e.counter("quern_key_generated_tokens_total", "Of such a key: tokens generated.", float64(sum.Output), "key", k.Name)
	}
}
