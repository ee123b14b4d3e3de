package family

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// nextLayers is the setting with the number of layers that predict further tokens; see countNext.
const nextLayers = "mtp_num_hidden_layers"

// nextKeys counts these layers among the blocks.
func nextKeys(k *lang.Keys) {
	if n := k.CountOr(nextLayers, 0); n > mostNext {
		k.Fail("%s: %d, want %d at most", nextLayers, n, mostNext)
	} else if n > 0 {
		k.N("nextn_predict_layers", n)
		k.N("block_count", k.Layers()+n)
	}
}

// countNext sets the number of layers that predict further tokens by their tensors, if config.json does not say it.
func countNext(c *hf.Config, names []string) {
	if n := numberedBy(names, "mtp.layers.", ""); n > 0 && !c.Has(nextLayers) {
		c.Put(nextLayers, float64(n))
	}
}

// numberedBy returns 1 more than the largest number that follows this beginning in names with this end.
func numberedBy(names []string, from, end string) int {
	n := 0
	for _, name := range names {
		rest, ok := strings.CutPrefix(strings.TrimPrefix(lang.Plain(name), "model."), from)
		if ok && strings.HasSuffix(rest, end) {
			number, _, _ := strings.Cut(rest, ".")
			if i, ok := hf.Digits(number); ok {
				n = max(n, i+1)
			}
		}
	}
	return n
}

// nextOfQwen gives the tensors of a layer that predicts a further token the names of a layer after the last.
func nextOfQwen(c *hf.Config, name string) string {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "model."), "mtp.")
	if !ok {
		return name
	}
	n := c.Layers()
	if of, ok := strings.CutPrefix(rest, "layers."); ok {
		number, tail, _ := strings.Cut(of, ".")
		if i, ok := hf.Digits(number); ok {
			return fmt.Sprintf("model.layers.%d.%s", n+i, tail)
		}
		return name
	}
	module, suffix, _ := strings.Cut(rest, ".")
	if to := map[string]string{"fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm",
		"norm": "shared_head.norm"}[module]; to != "" {
		return fmt.Sprintf("model.layers.%d.%s.%s", n, to, suffix)
	}
	return name
}

// mostNext is the largest number of layers that predict further tokens.
const mostNext = 64

// further is nextKeys for families with another name for the setting.
func further(k *lang.Keys) {
	if n := k.CountOr("num_nextn_predict_layers", 0); n > mostNext {
		k.Fail("num_nextn_predict_layers: %d, want %d at most", n, mostNext)
	} else if n > 0 {
		k.N("nextn_predict_layers", n)
		k.N("block_count", k.Layers()+n)
	}
}
